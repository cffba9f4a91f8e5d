'use strict';
// Layers × tokens, a table whose cells are coloured by the error as a multiple of the tolerance, and
// grey where something was not shown.

const maxHeatColumns = 96;
const maxHeatRows = 160;

// Upper limits of error / tolerance. Shades of blue pass, of orange and brown fail.
const heatSteps = [
  [1e-4, 's-p0', '≤ 0.0001 ×'], [1e-2, 's-p1', '≤ 0.01 ×'], [0.1, 's-p2', '≤ 0.1 ×'],
  [0.5, 's-p3', '≤ 0.5 ×'], [1, 's-p4', '≤ 1 ×'], [2, 's-f1', '≤ 2 ×'], [10, 's-f2', '≤ 10 ×'],
  [100, 's-f3', '≤ 100 ×'], [Infinity, 's-f4', 'more'],
];

function heatClass(record) {
  if (Number.isNaN(record.relL2)) return 's-nan fails';
  const ratio = record.relL2 === 0 ? 0 : record.relL2 / record.tolerance;
  const step = heatSteps.find(([limit]) => ratio <= limit) || heatSteps[heatSteps.length - 1];
  return step[1] + (record.pass ? '' : ' fails');
}

// One row a layer; what stands outside the layers has rows of its own. '' is all ops, or sequences.
function heatRows(op, sequence) {
  const rows = new Map();
  for (const checkpoint of checkpoints) {
    if (op !== '' && checkpoint.layer >= 0 && checkpoint.op !== op) continue;
    if (sequence !== '' && checkpoint.sequence !== sequence) continue;
    const label = checkpoint.layer >= 0 ? 'layer ' + checkpoint.layer : checkpoint.name;
    if (!rows.has(label)) rows.set(label, new Set());
    rows.get(label).add(checkpoint.index);
  }
  return [...rows].map(([label, indices]) => ({ label, indices }));
}

function heatLegend() {
  const item = (swatch, text) => html('li', {},
    html('span', { class: 'swatch ' + swatch, 'aria-hidden': 'true' }), text);
  return html('ul', { class: 'legend', 'aria-label': 'Error as a multiple of the tolerance' },
    heatSteps.map(([, swatch, text], i) =>
      item(swatch + (i > 4 ? ' fails' : ''), text + (i === 4 ? ' (the tolerance)' : ''))),
    item('s-nan fails', 'not a number'),
    data.unproven > 0 && item('s-unproven', 'unproven: missing, or nothing to compare'),
    data.excused > 0 && item('s-excused', 'excused'));
}

function heatTable(op, sequence) {
  const columns = columnsOf(tokens, maxHeatColumns);
  const columnOf = new Map();
  for (const token of tokens) {
    columnOf.set(token, columns.findIndex(([first, last]) => token >= first && token <= last));
  }
  const allRows = heatRows(op, sequence);
  const rows = allRows.slice(0, maxHeatRows);
  const rowOf = new Map(rows.flatMap((row, i) => [...row.indices].map((index) => [index, i])));
  const isInTable = (one) => rowOf.has(one.checkpoint.index);
  const keyOf = (one) => rowOf.get(one.checkpoint.index) * columns.length + columnOf.get(one.token);
  const cells = worstBy(records.filter(isInTable), keyOf);
  const missing = gapsBy(gaps.filter(isInTable), keyOf);
  const first = data.first || data.first_unproven;
  const firstCheckpoint = first && checkpoints.find((c) => c.text === first.checkpoint);
  const firstRow = firstCheckpoint ? rowOf.get(firstCheckpoint.index) : -1;
  const firstColumn = first ? columnOf.get(first.token) : -1;
  const every = Math.max(1, Math.ceil(columns.length / 24));
  const table = html('table', { class: 'heat', role: 'grid', 'aria-label': 'Error by layer and token' },
    html('thead', {}, html('tr', {}, html('th', { scope: 'col' }, html('span', { class: 'unseen' }, 'layer')),
      columns.map(([first, last], i) => html('th', { scope: 'col', 'aria-label': 'token ' + rangeText(first, last) },
        html('span', { 'aria-hidden': 'true' }, i % every === 0 ? String(first) : ''))))),
    html('tbody', {}, rows.map((row, r) => html('tr', {},
      html('th', { scope: 'row', title: shown(row.label) }, html('bdi', {}, shortened(row.label, 24))),
      columns.map((column, c) => {
        const key = r * columns.length + c;
        return heatCell(cells.get(key), missing.get(key), column, r === firstRow && c === firstColumn);
      })))));
  return { table, columns, leftOut: allRows.length - rows.length };
}

// What failed decides, then what is unproven: a colour that passes stands for all of its cell.
function cellClass(record, gap) {
  if (record && !record.pass) return heatClass(record);
  if (gap && gap.unproven > 0) return 's-unproven';
  return record ? heatClass(record) : 's-excused';
}

// `record`: the worst of the cell, if any was compared. `gap`: what gapsBy() gives of it, if any.
function heatCell(record, gap, [first, last], isFirst) {
  if (!record && !gap) {
    return html('td', { tabindex: '-1', 'aria-label': `token ${rangeText(first, last)}: not in the reference` });
  }
  const compared = record && (first === last ? '' : `worst of tokens ${rangeText(first, last)}\n`) + describe(record);
  const parts = [compared, gap && describeGaps(gap)];
  if (gap && gap.unproven > 0 && (!record || record.pass)) parts.reverse();
  if (isFirst) {
    parts.unshift(data.first ? `First divergence: ${shortened(data.first.checkpoint, 60)}, token ${data.first.token}`
      : 'The first that is unproven');
  }
  const text = parts.filter((part) => part).join('\n');
  const cell = html('td', {
    class: cellClass(record, gap) + (isFirst ? ' is-first' : ''), tabindex: '-1',
    'aria-label': text.replaceAll('\n', ', '),
  });
  cell.dataset.tip = text;
  return cell;
}

// Pointing, and moving by keys: one cell can be reached by Tab, the arrows go on from there.
function makeHeatLive(table) {
  const rows = [...table.tBodies[0].rows].map((row) => [...row.cells].slice(1));
  const start = table.querySelector('.is-first') || table.querySelector('td[tabindex]');
  if (start) start.tabIndex = 0;
  const tell = (cell) => {
    const box = cell.getBoundingClientRect();
    if (cell.dataset.tip) showTip(cell.dataset.tip, box.right - 8, box.bottom - 8);
  };
  table.addEventListener('pointerover', (event) => {
    const cell = event.target.closest('td');
    if (cell && cell.dataset.tip) tell(cell); else hideTip();
  });
  table.addEventListener('pointerleave', hideTip);
  table.addEventListener('focusin', (event) => tell(event.target));
  table.addEventListener('focusout', hideTip);
  table.addEventListener('keydown', (event) => {
    const r = rows.findIndex((row) => row.includes(event.target));
    if (r < 0) return;
    const c = rows[r].indexOf(event.target);
    const moves = {
      ArrowUp: [r - 1, c], ArrowDown: [r + 1, c], ArrowLeft: [r, c - 1], ArrowRight: [r, c + 1],
      Home: [r, 0], End: [r, rows[r].length - 1],
    };
    if (event.key === 'Escape') hideTip();
    if (!moves[event.key]) return;
    event.preventDefault();
    const next = rows[moves[event.key][0]] && rows[moves[event.key][0]][moves[event.key][1]];
    if (!next) return;
    event.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}

function heatSection() {
  const ops = [...new Set(checkpoints.filter((c) => c.layer >= 0).map((c) => c.op))];
  const place = html('div', { class: 'scroll' });
  const note = html('p', { class: 'note' });
  const choice = (id, all, names) => html('select', { id }, html('option', { value: '' }, all),
    names.map((each) => html('option', { value: each }, shortened(each, 40))));
  const op = choice('heat-op', 'the worst of all', ops);
  const sequence = choice('heat-sequence', 'the worst of all', sequences.length > 1 ? sequences : []);
  const draw = () => {
    const { table, columns, leftOut } = heatTable(op.value, sequence.value);
    place.replaceChildren(table);
    makeHeatLive(table);
    const notes = [];
    if (columns.some(([first, last]) => first !== last)) {
      notes.push('Neighbouring tokens share a column, which shows the worst of them.');
    }
    if (leftOut > 0) notes.push(count(leftOut, 'further row is', 'further rows are') + ' not shown.');
    note.textContent = notes.join(' ');
    note.hidden = notes.length === 0;
  };
  for (const each of [op, sequence]) each.addEventListener('change', draw);
  draw();
  return section('Where it diverges',
    'Each row is a layer, each column a token. The colour is the error as a multiple of the ' +
    'tolerance; cells with a dot fail' +
    (data.unproven > 0 ? '; grey cells with a bar hold what was not shown.' : '.'),
    (ops.length > 1 || sequences.length > 1) && html('div', { class: 'controls' },
      ops.length > 1 && html('label', { for: 'heat-op' }, 'Operation', op),
      sequences.length > 1 && html('label', { for: 'heat-sequence' }, 'Sequence', sequence)),
    place, heatLegend(), note);
}
