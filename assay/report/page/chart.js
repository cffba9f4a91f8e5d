'use strict';
// Charts with a logarithmic error axis, drawn again when their width changes.

const chartHeight = 270;
const margin = { left: 64, right: 14, top: 14, bottom: 40 };
const zeroBand = 22;

// The powers of ten that hold all of `values`; what is not finite is drawn on the highest line.
function powersAround(values) {
  const logs = values.filter((v) => Number.isFinite(v) && v > 0).map(Math.log10);
  if (logs.length === 0) return [-8, 0];
  const low = Math.floor(logs.reduce((a, b) => Math.min(a, b)) - 0.05);
  const high = Math.ceil(logs.reduce((a, b) => Math.max(a, b)) + 0.05);
  return [low, Math.max(high, low + 1)];
}

// A scale from the place `from` to `to`. Zeros, which have no logarithm, have a band of their own at
// `from`.
function logScale(values, from, to) {
  const [low, high] = powersAround(values);
  const hasZeros = values.some((v) => v <= 0);
  const start = from + (hasZeros ? Math.sign(to - from) * (zeroBand + 6) : 0);
  const scale = (v) => {
    if (!Number.isFinite(v)) return to;
    if (v <= 0) return from + Math.sign(to - from) * zeroBand / 2;
    const share = (Math.log10(v) - low) / (high - low);
    return start + Math.min(1, Math.max(0, share)) * (to - start);
  };
  const every = Math.ceil((high - low) / 7);
  scale.ticks = hasZeros ? [0] : [];
  for (let power = low; power <= high; power += every) {
    const within = high - low <= 2 && power < high ? [1, 2, 5] : [1];
    scale.ticks.push(...within.map((times) => times * 10 ** power));
  }
  return scale;
}

const superscripts = { '-': '⁻', 0: '⁰', 1: '¹', 2: '²', 3: '³', 4: '⁴', 5: '⁵', 6: '⁶', 7: '⁷', 8: '⁸', 9: '⁹' };

function tickText(value) {
  if (value === 0) return '0';
  if (value > 9e-3 && value < 2e3) return String(Number(value.toPrecision(1)));
  const power = Math.floor(Math.log10(value) + 1e-9);
  const times = Math.round(value / 10 ** power);
  return (times === 1 ? '' : times + '·') + powerText(power);
}

function powerText(power) {
  return '10' + [...String(power)].map((c) => superscripts[c]).join('');
}

// The frame of a chart `width` wide: the error axis at the left with its grid, the name below.
function chartFrame(width, y, xTitle, yTitle, label) {
  const right = width - margin.right;
  const bottom = chartHeight - margin.bottom;
  return svg('svg', {
    viewBox: `0 0 ${width} ${chartHeight}`, tabindex: '0', role: 'img', 'aria-label': label,
  },
    y.ticks.includes(0) && svg('rect', { class: 'zero-band',
      x: margin.left, y: bottom - zeroBand, width: right - margin.left, height: zeroBand }),
    y.ticks.map((value) => [
      svg('line', { class: 'gridline', x1: margin.left, x2: right, y1: y(value), y2: y(value) }),
      svg('text', { x: margin.left - 8, y: y(value) + 4, 'text-anchor': 'end' }, tickText(value)),
    ]),
    svg('line', { class: 'axis', x1: margin.left, x2: right, y1: bottom, y2: bottom }),
    svg('text', { x: (margin.left + right) / 2, y: chartHeight - 6, 'text-anchor': 'middle' }, xTitle),
    svg('text', { x: 12, y: (margin.top + bottom) / 2, 'text-anchor': 'middle',
      transform: `rotate(-90 12 ${(margin.top + bottom) / 2})` }, yTitle));
}

// Draws now and whenever the width of what holds the chart changes.
function chartFigure(draw, legend) {
  const place = html('div', { class: 'chart' });
  let width = 0;
  new ResizeObserver(() => {
    const now = Math.round(place.clientWidth);
    if (now === width || now === 0) return;
    width = now;
    place.replaceChildren(draw(width));
  }).observe(place);
  return html('figure', {}, place, legend);
}

function isWithoutError(values) {
  return values.every((v) => v === undefined || v === 0);
}

function lineLegend(series, limits) {
  const sample = (kind, dots) => svg('svg', { class: 'swatch', viewBox: '0 0 22 15', 'aria-hidden': 'true' },
    svg('line', { class: kind, x1: 1, x2: 21, y1: 8, y2: 8 }), dots);
  return html('ul', { class: 'legend' },
    series.map((line, i) => html('li', {}, sample('series series-' + (i + 1)),
      shown(line.name) + (isWithoutError(line.values) ? ' (no error)' : ''))),
    limits.map((limit) => html('li', {}, sample(limit.kind), limit.name)));
}

// Lines over whole numbers. `chart`: {label, xTitle, yTitle, xs, xText(x), series: [{name, values}],
// limits: [{name, kind, value}]} with one value for each x, undefined where there is none.
function lineChart(chart) {
  const { xs, series, limits } = chart;
  const all = [...series.flatMap((line) => line.values), ...limits.map((limit) => limit.value)]
    .filter((v) => v !== undefined);
  const draw = (width) => {
    const right = width - margin.right;
    const bottom = chartHeight - margin.bottom;
    const y = logScale(all, bottom, margin.top);
    const x = (i) => xs.length === 1 ? (margin.left + right) / 2
      : margin.left + 8 + i * (right - margin.left - 16) / (xs.length - 1);
    const frame = chartFrame(width, y, chart.xTitle, chart.yTitle || 'rel L2', chart.label);
    const every = Math.max(1, Math.ceil(xs.length / ((right - margin.left) / 44)));
    xs.forEach((value, i) => {
      if (i % every === 0) {
        frame.append(svg('text', { x: x(i), y: bottom + 17, 'text-anchor': 'middle' }, chart.xText(value)));
      }
    });
    for (const limit of limits) {
      frame.append(svg('line', { class: limit.kind, x1: margin.left, x2: right, y1: y(limit.value), y2: y(limit.value) }));
    }
    series.forEach((line, s) => {
      let path = '';
      let pen = 'M';
      line.values.forEach((v, i) => {
        if (v === undefined) { pen = 'M'; return; }
        path += `${pen}${x(i).toFixed(1)} ${y(v).toFixed(1)}`;
        pen = 'L';
      });
      frame.append(svg('path', { class: `series series-${s + 1}`, d: path }));
      if ((right - margin.left) / xs.length >= 9) {
        line.values.forEach((v, i) => {
          if (v !== undefined) frame.append(svg('circle', { class: `mark mark-${s + 1}`, cx: x(i), cy: y(v), r: 3.5 }));
        });
      }
    });
    makeChartLive(frame, xs.length, x, (i) => chart.xText(xs[i], true) + '\n' + series
      .filter((line) => line.values[i] !== undefined)
      .map((line) => `${shown(line.name)}: ${format(line.values[i])}`).join('\n'), bottom);
    return frame;
  };
  const figure = series.every((line) => isWithoutError(line.values))
    ? html('p', { class: 'note' }, 'No error: all of it is 0.') : chartFigure(draw, lineLegend(series, limits));
  return html('div', {}, figure,
    equivalent(chart.label, [chart.xTitle, ...series.map((line) => shown(line.name))],
      () => xs.map((value, i) => [chart.xText(value), ...series.map((line) =>
        line.values[i] === undefined ? '' : format(line.values[i]))])));
}

// A guide that the pointer and the arrow keys move from place to place, with what stands there.
function makeChartLive(frame, places, x, textOf, bottom) {
  const guide = svg('line', { class: 'guide', y1: margin.top, y2: bottom, visibility: 'hidden' });
  frame.append(guide);
  makePlacesLive(frame, guide, Array.from({ length: places }, (_, i) => i), (px) => {
    let nearest = 0;
    for (let i = 1; i < places; ++i) {
      if (Math.abs(x(i) - px) < Math.abs(x(nearest) - px)) nearest = i;
    }
    return nearest;
  }, (i) => {
    setAll(guide, { x1: x(i), x2: x(i) });
    return { text: textOf(i), x: x(i), y: margin.top + 8 };
  });
}

// The pointer goes to the place that nearest(x, y) gives, -1 for none, the arrow keys from one place
// of `order` to the next. show(place) moves `marker` there and gives the text and where to say it.
function makePlacesLive(frame, marker, order, nearest, show) {
  let at = -1;
  const go = (place) => {
    const { text, x, y } = show(place);
    marker.setAttribute('visibility', 'visible');
    const box = frame.getBoundingClientRect();
    showTip(text, box.left + x, box.top + y);
    return text;
  };
  const leave = () => {
    marker.setAttribute('visibility', 'hidden');
    hideTip();
  };
  frame.addEventListener('pointermove', (event) => {
    const box = frame.getBoundingClientRect();
    const place = nearest(event.clientX - box.left, event.clientY - box.top);
    if (place < 0) { leave(); return; }
    at = order.indexOf(place);
    go(place);
  });
  frame.addEventListener('pointerleave', leave);
  frame.addEventListener('blur', leave);
  frame.addEventListener('keydown', (event) => {
    const moves = { ArrowLeft: at - 1, ArrowUp: at - 1, ArrowRight: at + 1, ArrowDown: at + 1, Home: 0, End: order.length - 1 };
    if (event.key === 'Escape') leave();
    if (moves[event.key] === undefined) return;
    event.preventDefault();
    at = Math.min(order.length - 1, Math.max(0, moves[event.key]));
    say(go(order[at]).replaceAll('\n', ', '));
  });
}
