'use strict';
// Error against magnitude, next tokens, garbage and speed.

function dotsKind(record) {
  if (!record.pass) return ' failing';
  return record.evidence === 'unproven' ? ' unproven' : '';
}

function scatterSection() {
  const list = records.filter((record) => record.refRms > 0 && Number.isFinite(record.rms));
  if (list.length < 3) return null;
  const equal = list.filter((record) => record.rms === 0).length;
  if (equal === list.length) {
    return section('Error against magnitude', null,
      html('p', { class: 'note' }, `No error: the values of all ${count(equal, 'record')} are equal.`));
  }
  const label = 'error against magnitude of each record';
  const draw = (width) => {
    const right = width - margin.right;
    const bottom = chartHeight - margin.bottom;
    const y = logScale(list.map((record) => record.rms), bottom, margin.top);
    const x = logScale(list.map((record) => record.refRms), margin.left + 8, right - 8);
    const frame = chartFrame(width, y, 'size of the reference (RMS)', 'error (RMS)', label);
    for (const value of x.ticks) {
      frame.append(svg('text', { x: x(value), y: bottom + 17, 'text-anchor': 'middle' }, tickText(value)));
    }
    const places = list.map((record) => [x(record.refRms), y(record.rms)]);
    for (const kind of ['', ' unproven', ' failing']) {
      const path = places.filter((_, i) => dotsKind(list[i]) === kind)
        .map(([px, py]) => `M${px.toFixed(1)} ${py.toFixed(1)}h0`).join('');
      frame.append(svg('path', { class: 'dots' + kind, d: path }));
    }
    makeScatterLive(frame, list, places);
    return frame;
  };
  const sample = (kind) => svg('svg', { class: 'swatch', viewBox: '0 0 22 15', 'aria-hidden': 'true' },
    svg('path', { class: 'dots' + kind, d: 'M11 8h0' }));
  const worstFirst = () => [...list].sort((a, b) => b.rms / b.refRms - a.rms / a.refRms).slice(0, 200);
  return section('Error against magnitude',
    'Each mark is a record. Rounding grows with the values: a diagonal band. A mark above the band has an error of another kind.',
    chartFigure(draw, html('ul', { class: 'legend' }, html('li', {}, sample(''), 'passes'),
      html('li', {}, sample(' failing'), 'fails'),
      list.some((record) => record.evidence === 'unproven') && html('li', {}, sample(' unproven'), 'unproven'),
      equal > 0 && html('li', {}, `at 0: ${count(equal, 'record')} whose values are equal`))),
    equivalent(label + ' (the 200 largest ratios)', ['checkpoint', 'token', 'size of the reference', 'error', 'ratio'],
      () => worstFirst().map((record) => [name(record.checkpoint.text), record.token, format(record.refRms),
        format(record.rms), format(record.rms / record.refRms)])));
}

// The record nearest to the pointer; the arrow keys go from one to the next, the worst ratio first.
function makeScatterLive(frame, list, places) {
  const ring = svg('circle', { class: 'halo', r: 7, visibility: 'hidden' });
  frame.append(ring);
  const order = list.map((_, i) => i).sort((a, b) => list[b].rms / list[b].refRms - list[a].rms / list[a].refRms);
  makePlacesLive(frame, ring, order, (px, py) => {
    let nearest = -1;
    let least = 30 * 30;
    places.forEach(([x, y], i) => {
      const distance = (x - px) ** 2 + (y - py) ** 2;
      if (distance < least) { least = distance; nearest = i; }
    });
    return nearest;
  }, (i) => {
    const [x, y] = places[i];
    setAll(ring, { cx: x, cy: y });
    return { text: describe(list[i]) + `\nerror ${format(list[i].rms)} of ${format(list[i].refRms)} (RMS)`, x, y };
  });
}

// The text of a token, quoted, where the vocabulary is known; else its number.
function word(id) {
  const text = data.vocabulary && data.vocabulary[id];
  return text === undefined || text === '' ? '#' + id : '“' + shortened(text, 30) + '”';
}

function candidates(title, top, other) {
  const widest = Math.max(...top.map(([, value]) => Math.abs(number(value))).filter(Number.isFinite), 1e-30);
  return html('div', {}, html('h3', {}, title), html('ol', { class: 'candidates' }, top.map(([id, value]) => {
    const rank = other.findIndex(([there]) => there === id);
    return html('li', {},
      html('bdi', { class: 'word' }, word(id)),
      html('meter', { min: '0', max: String(widest), value: String(Math.max(0, number(value)) || 0), 'aria-hidden': 'true' }),
      html('span', {}, format(value)),
      html('span', { class: 'rank' }, rank < 0 ? 'not in the other’s list' : 'other: place ' + (rank + 1)));
  })));
}

function logitsSection() {
  const all = data.logits;
  if (all.length === 0) return null;
  const differs = (top) => top.ref[0][0] !== top.got[0][0];
  const place = html('div', { class: 'sides', 'aria-live': 'polite' });
  const show = (index) => {
    const top = all[index];
    place.replaceChildren(candidates('Reference', top.ref, top.got), candidates('Log', top.got, top.ref));
  };
  const start = Math.max(0, all.findIndex(differs));
  const select = html('select', { id: 'logits-token' }, all.map((top, i) =>
    html('option', { value: i }, `token ${top.token}` +
      (data.prompt[top.token] === undefined ? '' : ', after ' + word(data.prompt[top.token])) +
      (differs(top) ? ' – differs' : ''))));
  select.value = String(start);
  select.addEventListener('change', () => show(Number(select.value)));
  show(start);
  const total = data.argmax_total;
  return section('Next token', `The most likely next tokens by their logits, side by side. The first choice is the same at ${data.argmax_agree} of ${total} tokens.`,
    html('div', { class: 'controls' }, html('label', { for: 'logits-token' }, 'Position', select)), place,
    !data.vocabulary && html('p', { class: 'note' }, 'Tokens are shown by number: compare with --model MODEL.gguf to see their text.'),
    all.length < total && html('p', { class: 'note' }, `${count(total - all.length, 'further position is', 'further positions are')} not listed; those that differ come first.`));
}

// Tokens × positions in the tensor.
function garbageMap() {
  const { garbage } = data;
  const rows = [...new Set(garbage.token)].sort((a, b) => a - b).slice(0, maxHeatRows);
  const known = [...new Set(garbage.index.filter((index) => index >= 0))].sort((a, b) => a - b);
  const columns = known.slice(0, 40);
  if (columns.length === 0) return null;
  const cells = new Map();
  garbage.token.forEach((token, i) => {
    const key = token + '/' + garbage.index[i];
    cells.set(key, [...(cells.get(key) || []), i]);
  });
  const kinds = [...new Set(garbage.reason)];
  const cell = (token, index) => {
    const found = cells.get(token + '/' + index);
    if (!found) return html('td', { tabindex: '-1', 'aria-label': `token ${token}, index ${index}: none` });
    const text = found.slice(0, 4).map((i) => `token ${token}, index ${index} of ${shortened(garbage.checkpoint[i], 40)} in the ` +
      `${garbage.in_ref[i] === 1 ? 'reference' : 'log'}: ${format(garbage.value[i])}, ${garbage.reason[i].replace('_', ' ')}`).join('\n');
    const made = html('td', { tabindex: '-1', class: 'g-' + kinds.indexOf(garbage.reason[found[0]]) % 4, 'aria-label': text.replaceAll('\n', '; ') },
      html('span', { 'aria-hidden': 'true' }, String(kinds.indexOf(garbage.reason[found[0]]) + 1)));
    made.dataset.tip = text;
    return made;
  };
  const table = html('table', { class: 'heat garbage', role: 'grid', 'aria-label': 'Garbage by token and position in the tensor' },
    html('thead', {}, html('tr', {}, html('th', { scope: 'col' }, html('span', { class: 'unseen' }, 'token')),
      columns.map((index) => html('th', { scope: 'col', 'aria-label': 'index ' + index }, html('span', { 'aria-hidden': 'true' }, String(index)))))),
    html('tbody', {}, rows.map((token) => html('tr', {}, html('th', { scope: 'row' }, 'token ' + token),
      columns.map((index) => cell(token, index))))));
  makeHeatLive(table);
  return [html('div', { class: 'scroll' }, table),
    html('ul', { class: 'legend' }, kinds.map((kind, i) => html('li', {},
      html('span', { class: 'swatch g-' + i % 4, 'aria-hidden': 'true' }, String(i + 1)), kind.replace('_', ' ')))),
    (known.length > columns.length || new Set(garbage.token).size > rows.length) &&
      html('p', { class: 'note' }, `The map shows the first ${rows.length} tokens and ${columns.length} positions that hold any.`)];
}

function garbageSection() {
  const { garbage } = data;
  if (garbage.token.length === 0) return null;
  const header = ['checkpoint', 'token', 'in', 'index', 'value', 'reason'];
  const most = 500;
  const rows = () => garbage.token.slice(0, most).map((token, i) => [
    name(garbage.checkpoint[i]), token, garbage.in_ref[i] === 1 ? 'reference' : 'log',
    garbage.index[i] < 0 ? 'unknown' : garbage.index[i], format(garbage.value[i]), garbage.reason[i].replace('_', ' ')]);
  const left = data.quarantined - Math.min(most, garbage.token.length);
  return section('Garbage', 'Values that are no numbers of their tensors, by token and place in the tensor.',
    garbageMap(), equivalent('garbage values', header, rows),
    left > 0 && html('p', { class: 'note' }, count(left, 'further value is', 'further values are') + ' not in the table.'));
}

// Milliseconds for each token after the first, from the times in a log.
function pace(times) {
  const gaps = times.slice(1).map(([token, at], i) => [token, 1000 * (at - times[i][1]) / (token - times[i][0])]);
  return gaps.some(([, gap]) => gap > 0) ? gaps : [];
}

function speedSection() {
  const rows = [];
  const names = [...new Set([...data.ref_speed, ...data.got_speed].map((figure) => figure.name))];
  for (const title of names) {
    const [ref, got] = [data.ref_speed, data.got_speed].map((list) => list.find((figure) => figure.name === title));
    const unit = (ref || got).unit;
    const times = ref && got ? ((ref || got).more_is_faster ? got.value / ref.value : ref.value / got.value) : NaN;
    rows.push([shown(title) + ', ' + unit, ref ? format(ref.value) : '–', got ? format(got.value) : '–',
      Number.isNaN(times) ? '–' : times >= 1 ? format(times) + ' × as fast' : format(1 / times) + ' × slower']);
  }
  const paces = [pace(data.ref_times), pace(data.got_times)];
  const middle = paces.map((list) => list.length > 0 ? median(list.map(([, gap]) => gap)) : NaN);
  if (middle.some((gap) => gap > 0)) {
    const times = middle[0] / middle[1];
    rows.push(['between decode steps in the log, ms (median)', ...middle.map((gap) => gap > 0 ? format(gap) : '–'),
      !(times > 0) || !Number.isFinite(times) ? '–' : times >= 1 ? format(times) + ' × as fast' : format(1 / times) + ' × slower']);
  }
  if (rows.length === 0) return null;
  const worst = records.reduce((held, record) => isWorse(record, held) ? record : held, null);
  const all = [...new Set(paces.flat().map(([token]) => token))].sort((a, b) => a - b);
  const series = ['reference', 'log'].map((title, i) => ({ name: title, values: all.map((token) => {
    const found = paces[i].find(([there]) => there === token);
    return found && found[1];
  }) })).filter((line) => line.values.some((value) => value > 0));
  return section('Speed beside accuracy',
    `How fast each was, beside how exact: ${worst ? `the worst error is ${format(worst.relL2)} (rel L2), ` : ''}the verdict ${data.verdict.replace('_', ' ')}.`,
    listTable('Speed of both', ['', 'reference', 'log', 'the log is'], rows),
    all.length > 1 && lineChart({ label: 'time of each decode step', xTitle: 'token', yTitle: 'ms', xs: all, series, limits: [],
      xText: (token, long) => (long ? 'token ' : '') + token }),
    middle.some((gap) => gap > 0) && html('p', { class: 'note' }, 'Times between decode steps come from the logs’ own time stamps, and include logging.'));
}
