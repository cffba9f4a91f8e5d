'use strict';
// The page of what engines do: a row a feature of networks or a surface, a column an engine.

const engines = data.table.engines;
const conformance = data.kind === 'conformance';
const word = conformance ? 'feature' : 'surface';
const marks = {
  honoured: ['✓', 'good'], ignored: ['ignored', 'bad'], misread: ['misread', 'bad'], differs: ['differs', 'bad'],
  'same bits': ['✓', 'good'], 'within noise': ['≈', 'good'], dependent: ['dependent', 'bad'],
  crashed: ['crashed', 'caution'], unsupported: ['–', 'soft'],
};
const right = ['honoured', 'same bits', 'within noise'];

const cells = (engine) => engine[word + 's'];
const rows = () => (engines.length > 0 ? cells(engines[0]) : []);

function title(engine) {
  return shown(engine.version ? `${engine.name} ${engine.version}` : engine.name);
}

function badge() {
  if (data.table.baseline) return data.table.pass ? 'Nothing is worse' : 'Worse than the baseline';
  return data.table.pass ? (conformance ? 'Honoured' : 'Invariant') : 'Deviations';
}

function tableHead() {
  const told = conformance
    ? '✓: honoured; –: the engine says that it does not support it, or does not show it.'
    : '✓: the same bits as the tokens alone; ≈: no further than these are from themselves; –: the engine says that it does not support it.';
  const what = conformance ? ' of networks, each a tiny model whose results in float64 are known,' : '';
  fill(document.getElementById('head'), [
    html('p', { class: 'kicker' }, 'Assay: ' + data.kind),
    html('h1', {}, html('span', { class: 'badge ' + (data.table.pass ? 'good' : 'bad') },
      badge())),
    html('p', {}, `${count(rows().length, word)}${what} on ${count(engines.length, 'engine')}. ${told}`),
    data.table.baseline && html('p', {}, `Held to ${shown(data.table.baseline)}: what is as bad as it was there is no failure.`),
    html('dl', { class: 'figures' }, engines.map((engine) => {
      const counts = Object.entries(engine.counts).filter(([name]) => !right.includes(name));
      const good = right.reduce((sum, name) => sum + (engine.counts[name] || 0), 0);
      return figure(title(engine), `${good} ${conformance ? 'honoured' : 'invariant'}`,
        counts.map(([name, number]) => `${number} ${name}`).join(', '));
    }))]);
}

// What has become of a cell since the baseline: nothing without one, or where nothing is to be said.
function changed(cell) {
  if (!cell.change || (cell.change === 'same' && right.includes(cell.verdict))) return '';
  return cell.change === 'same' ? 'as before' : cell.change;
}

function distance(cell) {
  return cell.rel_l2 === null ? '' : format(cell.rel_l2);
}

function reason(cell) {
  const before = changed(cell) === '' ? '' : `(in the baseline: ${shown(cell.before)})`;
  return `${[cell.cause, cell.text].filter((each) => each !== '').map(shown).join(': ')} ${before}`.trim();
}

const place = (number, cell) => `cell-${number}-${cell[word]}`;

function link(number, cell) {
  const change = changed(cell);
  const mood = change === 'as before' ? 'soft' : marks[cell.verdict][1];
  const text = change === '' ? marks[cell.verdict][0] : `${cell.verdict} (${change})`;
  return html('span', { title: `${reason(cell)} ${distance(cell)}`.trim() },
    html('a', { href: '#' + place(number, cell), class: mood, 'aria-label': cell.verdict }, text));
}

function groupSection(group, numbers) {
  const table = listTable(group, [word, ...engines.map(title)],
    numbers.map((i) => [
      html('span', { title: rows()[i].states.join(', ') }, shown(rows()[i].title)),
      ...engines.map((engine, number) => link(number, cells(engine)[i]))]));
  table.classList.remove('rows');  // shown whole
  return section(group, null, table);
}

// What repeats the cell, and what compares its log again.
function commands(cell) {
  return html('details', {}, html('summary', {}, 'commands'),
    [cell.command, cell.compare].filter((each) => each !== '').map((each) => html('div', {}, html('code', {}, shown(each)))));
}

function engineSection(engine, number) {
  const row = (cell) => [
    html('span', { id: place(number, cell) }, shown(cell.title)),
    html('span', { class: marks[cell.verdict][1] },
      changed(cell) === '' ? cell.verdict : `${cell.verdict} (${changed(cell)})`),
    [html('span', { class: 'reason' }, reason(cell)), commands(cell)],
    distance(cell), cell.from_explained === null ? '' : format(cell.from_explained),
    shown(cell.first_divergence)];
  const from = conformance ? 'float64' : 'the tokens alone';
  const rank = (cell) => {
    if (cell.change === 'worse') return 0;
    if (right.includes(cell.verdict)) return cell.change === 'better' ? 2 : 3;
    return 1;
  };
  const sorted = [...cells(engine)].sort((a, b) => rank(a) - rank(b));
  return section(title(engine),
    `What is not as it should be, then the rest: how far the outputs are from ${from}${conformance ? ', and how far from the explanation' : ''} (relative L2); and the command that repeats it.`,
    listTable(title(engine), [word, 'verdict', 'what it does', 'from ' + from, 'from that', 'first at'],
      sorted.map(row), [1, 2, 5]));
}

function groups() {
  const numbers = new Map();
  rows().forEach((row, i) => numbers.set(row.group, [...(numbers.get(row.group) || []), i]));
  return [...numbers].map(([group, found]) => groupSection(group, found));
}

tableHead();
fill(document.getElementById('main'), [groups(), engines.map(engineSection)]);
contents();
footer();
