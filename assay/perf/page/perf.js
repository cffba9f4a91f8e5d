'use strict';
// The page of a verdict on speed, from top to bottom.

const words = { SLOW: 'Slower', FAST: 'Faster', SAME: 'The same', UNSURE: 'Unsure', REFUSED: 'Refused' };
const moods = { SLOW: 'bad', REFUSED: 'bad', FAST: 'good', SAME: 'good', UNSURE: 'caution' };
const meanings = {
  REFUSED: 'A model is further from its golden than its floor allows: speed does not make up for it.',
  SLOW: 'At least one benchmark is slower than before, more than chance explains.',
  FAST: 'Something is faster than before, nothing is slower.',
  SAME: 'Nothing has changed by more than what counts.',
  UNSURE: 'Nothing is slower for certain; some benchmarks vary too much to say that they are the same.',
};

// "+5.1 %", of a ratio of times.
function change(ratio) {
  const x = number(ratio);
  if (!Number.isFinite(x) || x <= 0) return '?';
  const percent = (x - 1) * 100;
  return (percent < 0 ? '−' : '+') + Math.abs(percent).toFixed(1) + ' %';
}

function interval(result) {
  return `${change(result.low)} to ${change(result.high)}`;
}

function verdictText(verdict) {
  return html('span', { class: moods[verdict] }, words[verdict].toLowerCase());
}

function perfHead() {
  const of = (verdict) => data.benchmarks.filter((result) => result.verdict === verdict).length.toLocaleString('en');
  const held = data.models.filter((model) => model.head !== null);
  const refused = data.models.filter((model) => model.refused).length;
  fill(document.getElementById('head'), [
    html('p', { class: 'kicker' }, 'Assay: speed and accuracy'),
    html('h1', {}, html('span', { class: 'badge ' + moods[data.verdict] }, words[data.verdict])),
    html('p', {}, meanings[data.verdict]),
    html('dl', { class: 'files' },
      html('dt', {}, 'Base'), html('dd', {}, html('bdi', { class: 'name' }, shown(data.base))),
      html('dt', {}, 'Head'), html('dd', {}, html('bdi', { class: 'name' }, shown(data.head)))),
    html('dl', { class: 'figures' },
      figure('Slower', of('SLOW'), `of ${count(data.total, 'benchmark')}`), figure('Faster', of('FAST')),
      figure('The same', of('SAME'), `within ${format(data.min_effect * 100)} %`), figure('Unsure', of('UNSURE')),
      held.length > 0 && figure('Refused', refused.toLocaleString('en'), `of ${count(held.length, 'model')} held to goldens`))]);
}

function refusedSection() {
  const refused = data.models.filter((model) => model.refused);
  if (refused.length === 0) return null;
  const part = section('Refused', null, html('ul', {}, refused.map((model) =>
    html('li', {}, html('strong', {}, shown(`${model.model} ${model.type} ${model.math}`)), ': ', shown(model.reason)))));
  part.classList.add('first');
  return part;
}

const rowHeight = 34;
const maxRows = 200;

// Where a ratio stands between the ends of the axis, which is logarithmic: half and double as fast
// are equally far from 1. What is beyond the ends, as an interval of too few pairs, stands at them.
function ratioScale(results, from, to) {
  const ends = results.flatMap((result) => [result.low, result.ratio, result.high])
    .map(number).filter((x) => x > 0 && Number.isFinite(x)).map((x) => Math.abs(Math.log(x)));
  const reach = Math.min(Math.log(4), Math.max(Math.log(1 + 2 * data.min_effect), ...ends) * 1.08);
  const scale = (ratio) => {
    const log = Math.log(number(ratio));
    const share = Number.isNaN(log) ? 0 : Math.min(1, Math.max(-1, log / reach));
    return (from + to) / 2 + share * (to - from) / 2;
  };
  const step = [1.01, 1.02, 1.05, 1.1, 1.2, 1.5, 2].find((x) => Math.log(x) * (to - from < 400 ? 2.2 : 4.5) >= reach) || 2;
  scale.ticks = [1];
  for (let x = step; Math.log(x) <= reach; x *= step) scale.ticks.push(x, 1 / x);
  return scale;
}

function markOf(verdict, x, y) {
  return verdict === 'SLOW' ? svg('rect', { class: 'mark perf-SLOW', x: x - 5, y: y - 5, width: 10, height: 10 })
    : svg('circle', { class: 'mark perf-' + verdict, cx: x, cy: y, r: 5 });
}

function effectChart() {
  const list = data.benchmarks.filter((result) => number(result.ratio) > 0)
    .sort((a, b) => b.ratio - a.ratio);
  // Where there are too many, the ends of the list are what matters.
  const rows = list.length <= maxRows ? list : [...list.slice(0, maxRows / 2), ...list.slice(-maxRows / 2)];
  const label = 'change of each benchmark, slowest first';
  const draw = (width) => {
    const wide = width >= 640;
    const left = wide ? 290 : 12;
    const right = width - 24;
    const top = 26;
    const height = top + rows.length * rowHeight + 8;
    const x = ratioScale(rows, left, right);
    const frame = svg('svg', { viewBox: `0 0 ${width} ${height}`, tabindex: '0', role: 'img', 'aria-label': label },
      svg('rect', { class: 'same-band', x: x(1 / (1 + data.min_effect)), y: top, height: height - top,
        width: x(1 + data.min_effect) - x(1 / (1 + data.min_effect)) }),
      x.ticks.map((value) => [
        svg('line', { class: value === 1 ? 'axis' : 'gridline', x1: x(value), x2: x(value), y1: top, y2: height }),
        svg('text', { x: x(value), y: top - 8, 'text-anchor': 'middle' }, value === 1 ? '0' : change(value).replace('.0', '')),
      ]));
    const yOf = (i) => top + i * rowHeight + (wide ? rowHeight / 2 : 24);
    rows.forEach((result, i) => {
      const y = yOf(i);
      frame.append(
        svg('text', wide ? { x: left - 12, y: y + 4, 'text-anchor': 'end' } : { x: left, y: y - 9 },
          shortened(result.name, wide ? 42 : Math.floor(width / 8))),
        svg('line', { class: 'interval perf-' + result.verdict, x1: x(result.low), x2: x(result.high), y1: y, y2: y }),
        markOf(result.verdict, x(result.ratio), y));
    });
    const ring = svg('circle', { class: 'halo', r: 9, visibility: 'hidden' });
    frame.append(ring);
    makePlacesLive(frame, ring, rows.map((_, i) => i),
      (_, py) => py < top ? -1 : Math.min(rows.length - 1, Math.floor((py - top) / rowHeight)),
      (i) => {
        const result = rows[i];
        setAll(ring, { cx: x(result.ratio), cy: yOf(i) });
        return { text: `${shown(result.name)}\n${change(result.ratio)} (${interval(result)}), ${words[result.verdict].toLowerCase()}\n` +
          `${result.base} before, ${result.head} now, ${count(result.pairs, 'pair')}`, x: x(result.ratio), y: yOf(i) };
      });
    return frame;
  };
  const sample = (verdict, text) => html('li', {}, svg('svg', { class: 'swatch', viewBox: '0 0 22 15', 'aria-hidden': 'true' },
    svg('line', { class: 'interval perf-' + verdict, x1: 1, x2: 21, y1: 8, y2: 8 }), markOf(verdict, 11, 8)), text);
  return section('Change of each benchmark',
    `How much longer each takes than before, with the interval that holds the true change in 95 of 100 cases. Within the band, ${format(data.min_effect * 100)} % either way, it counts as the same.`,
    chartFigure(draw, html('ul', { class: 'legend' }, sample('SLOW', 'slower'), sample('FAST', 'faster'),
      sample('SAME', 'the same'), sample('UNSURE', 'unsure'))),
    list.length > rows.length && html('p', { class: 'note' }, `The ${maxRows / 2} slowest and the ${maxRows / 2} fastest of ${list.length} are drawn.`));
}

function speedCell(result) {
  return result === null ? '–' : [change(result.ratio), ' ', html('span', { class: 'soft' }, `(${interval(result)})`), ' ', verdictText(result.verdict)];
}

function floors(model) {
  if (model.base === null && model.head === null) return '–';
  const side = (value) => value === null ? '–' : format(value);
  return `${side(model.base)} → ${side(model.head)} of ${format(model.allowed)}`;
}

function modelSection() {
  if (data.models.length === 0) return null;
  const accuracy = (model) => model.refused ? html('span', { class: 'bad' }, 'refused')
    : model.head === null ? '–' : html('span', { class: 'good' }, 'within');
  const row = (model) => [html('span', {}, name(model.model), shown(` ${model.type} ${model.math}`)),
    accuracy(model), floors(model), speedCell(model.decode), speedCell(model.prefill)];
  return section('Speed beside accuracy',
    'Each model, type and math: its largest error before and now as a multiple of its floor, the error that an honest computation has, and how many floors are allowed; and how much longer it takes than before.',
    listTable('Models', ['model', 'accuracy', 'error in floors', 'decode', 'prefill'], data.models.map(row), [1]));
}

function benchmarkSection() {
  const row = (result) => [name(result.name), verdictText(result.verdict), change(result.ratio), interval(result), result.base, result.head, result.pairs];
  return section('Benchmarks', 'All figures, the worst verdicts first.',
    listTable('Benchmarks', ['benchmark', 'verdict', 'change', '95 % interval', 'base', 'head', 'pairs'], data.benchmarks.map(row), [1]),
    data.total > data.benchmarks.length && html('p', { class: 'note' }, count(data.total - data.benchmarks.length, 'further benchmark is', 'further benchmarks are') + ' not listed.'));
}

function noteSection() {
  const notes = data.notes.map((note) => html('li', {}, shown(note)));
  return section('Notes', null, html('ul', {},
    html('li', {}, `Repetition i of base is paired with repetition i of head, which is fair if the two were measured by turns (scripts/perf.sh). A change counts if the chance to see it between equal programs, in any of the benchmarks, is at most ${format(data.alpha * 100)} %, and it is at least ${format(data.min_effect * 100)} %.`),
    notes));
}

perfHead();
fill(document.getElementById('main'), [refusedSection(), modelSection(), effectChart(), benchmarkSection(), noteSection()]);
contents();
footer();
