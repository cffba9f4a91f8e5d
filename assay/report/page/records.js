'use strict';
// The compared records, and what is computed of them.

const statusNames = ['match', 'noise', 'tie_flip', 'drift', 'wrong', 'inconclusive'];

const checkpoints = data.checkpoints.map(([text, layer, op, records, failed], index) =>
  ({ index, text, layer, op, records, failed, phase: layer >= 0 ? 'layer' : text }));

const hasFloors = data.records.floor !== undefined;

const records = data.records.token.map((token, i) => ({
  token,
  checkpoint: checkpoints[data.records.checkpoint[i]],
  status: statusNames[data.records.status[i]],
  pass: data.records.pass[i] === 1,
  tolerance: number(data.records.tolerance[i]),
  relL2: number(data.records.rel_l2[i]),
  maxAbs: number(data.records.max_abs[i]),
  rms: number(data.records.rms[i]),
  refRms: number(data.records.ref_rms[i]),
  floor: hasFloors ? number(data.records.floor[i]) : NaN,
  cosine: number(data.records.cosine[i]),
}));

const tokens = [...new Set(records.map((record) => record.token))].sort((a, b) => a - b);

function isWorse(a, b) {
  if (!b) return true;
  if (a.pass !== b.pass) return !a.pass;
  return !(a.relL2 <= b.relL2);
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
  return `${shortened(record.checkpoint.text, 60)}, token ${record.token}: ${record.status}\n` +
    `rel L2 ${format(record.relL2)} (${limit})\nlargest difference ${format(record.maxAbs)}` +
    (Number.isNaN(record.floor) ? '' : `\n${format(record.relL2 / record.floor)} × the floor`);
}
