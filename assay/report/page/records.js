'use strict';
// The compared records, those that were not shown, and what is computed of them.

// Of a record; a comparison that is incomplete has records that are unproven.
const statusNames = ['match', 'noise', 'tie_flip', 'drift', 'wrong', 'inconclusive', 'unproven'];
const evidenceNames = ['whole', 'partial', 'excused', 'unproven', 'failed'];

const checkpoints = data.checkpoints.map(
  ([text, layer, op, records, failed, unproven, excused, firstUnproven, reason, state, sizes, name, sequence], index) =>
    ({ index, text, layer, op, records, failed, unproven, excused, firstUnproven, reason, state: state.replace('_', ' '), sizes, name, sequence }));
const sequences = [...new Set(checkpoints.map((checkpoint) => checkpoint.sequence))];

const hasFloors = data.records.floor !== undefined;

const records = data.records.token.map((token, i) => ({
  token,
  checkpoint: checkpoints[data.records.checkpoint[i]],
  status: statusNames[data.records.status[i]],
  evidence: evidenceNames[data.records.evidence[i]],
  pass: evidenceNames[data.records.evidence[i]] !== 'failed',
  tolerance: number(data.records.tolerance[i]),
  relL2: number(data.records.rel_l2[i]),
  maxAbs: number(data.records.max_abs[i]),
  rms: number(data.records.rms[i]),
  refRms: number(data.records.ref_rms[i]),
  floor: hasFloors ? number(data.records.floor[i]) : NaN,
  cosine: number(data.records.cosine[i]),
}));

// Records of the reference that were held to nothing, or not to what was asked. Those of
// neighbouring tokens are one where data.bins puts these together.
const gaps = data.gaps.token.map((token, i) => ({
  token,
  checkpoint: checkpoints[data.gaps.checkpoint[i]],
  excused: data.gaps.excused[i] === 1,
  reason: data.reasons[data.gaps.reason[i]],
  records: data.gaps.records[i],
}));

const tokens = [...new Set([...records, ...gaps].map((one) => one.token))].sort((a, b) => a - b);

// NaN is worse than any number.
function isWorse(a, b) {
  if (!b) return true;
  if (a.pass !== b.pass) return !a.pass;
  return !Number.isNaN(b.relL2) && !(a.relL2 <= b.relL2);
}

// The worst of `list` under each key.
function worstBy(list, keyOf) {
  const worst = new Map();
  for (const record of list) {
    const key = keyOf(record);
    if (isWorse(record, worst.get(key))) worst.set(key, record);
  }
  return worst;
}

// Of `list` under each key: how many records are unproven and excused, and the first of those that
// are, unproven before excused.
function gapsBy(list, keyOf) {
  const held = new Map();
  for (const gap of list) {
    const key = keyOf(gap);
    if (!held.has(key)) held.set(key, { unproven: 0, excused: 0, first: gap });
    const cell = held.get(key);
    cell[gap.excused ? 'excused' : 'unproven'] += gap.records;
    if (cell.first.excused && !gap.excused) cell.first = gap;
  }
  return held;
}

// Of numbers, NaN and infinities last.
function median(values) {
  const sorted = [...values].sort((a, b) =>
    (Number.isFinite(a) ? a : Infinity) - (Number.isFinite(b) ? b : Infinity) || 0);
  return sorted[Math.floor(sorted.length / 2)];
}

// Neighbouring tokens put together so that there are at most `most` columns: [first, last] each.
function columnsOf(list, most) {
  const bins = data.bins.length > 0 ? data.bins : list.map((token) => [token, token]);
  const step = Math.ceil(bins.length / most);
  const columns = [];
  for (let i = 0; i < bins.length; i += step) {
    columns.push([bins[i][0], bins[Math.min(i + step, bins.length) - 1][1]]);
  }
  return columns;
}

function rangeText(first, last) {
  return first === last ? String(first) : first + '–' + last;
}

// What is shown of a record when it is pointed at.
function describe(record) {
  const times = record.relL2 / record.tolerance;
  let limit = 'tolerance ' + format(record.tolerance);
  if (times > 1 && Number.isFinite(times)) limit += ', ' + format(times) + ' times over';
  return `${shortened(record.checkpoint.text, 60)}, token ${record.token}: ${record.status}` +
    (record.evidence === 'partial' ? ', compared in part\n' : '\n') +
    `rel L2 ${format(record.relL2)} (${limit})\nlargest difference ${format(record.maxAbs)}` +
    (Number.isNaN(record.floor) ? '' : `\n${format(record.relL2 / record.floor)} × the floor`);
}

// What is shown of the records of a cell that were not shown.
function describeGaps({ unproven, excused, first }) {
  const state = unproven > 0 ? 'unproven' : 'excused';
  const records = unproven > 0 ? unproven : excused;
  const place = `${shortened(first.checkpoint.text, 60)}, token ${first.token}`;
  return (records === 1 ? `${place}: ${state}` : `${count(records, 'record')} ${state}, the first ${place}`) +
    `\n${shown(first.reason)}` + (unproven > 0 && excused > 0 ? `\n${count(excused, 'further record')} excused` : '');
}
