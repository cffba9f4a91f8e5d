'use strict';
// The page, from top to bottom.

const [mood, outcome] = {
  'IN PARITY': ['good', 'In parity'], DIVERGED: ['bad', 'Diverged'],
  INCOMPLETE: ['caution', 'Incomplete'], INCONCLUSIVE: ['caution', 'Inconclusive'],
}[data.outcome];

function passingText() {
  return data.passing_tolerance.replace('rel_l2', 'rel L2').replace(' x ', ' × ');
}

// What was measured at both ends, and where it jumps.
function driftText(drift) {
  return `${format(drift.first)} at layer ${drift.from}, ${format(drift.last)} at layer ${drift.to}` +
    (drift.jump === undefined ? '' : `; it jumps at layer ${drift.jump}`);
}

function headFigures() {
  const unmatched = data.unmatched_ref + data.unmatched_got;
  const worst = records.reduce((held, record) => isWorse(record, held) ? record : held, null);
  return html('dl', { class: 'figures' },
    figure('Records compared', data.compared.toLocaleString('en'),
      unmatched > 0 && `${data.unmatched_ref} only in the reference, ${data.unmatched_got} only in the log`),
    figure('Failed', data.failed.toLocaleString('en'),
      `of ${count(data.compared, 'record')}`),
    data.unproven > 0 && figure('Unproven', data.unproven.toLocaleString('en'), shown(data.unproven_reason)),
    data.excused > 0 && figure('Excused', data.excused.toLocaleString('en'), shown(data.excused_reason)),
    worst && figure('Worst rel L2', format(worst.relL2), html('span', {}, name(worst.checkpoint.text), ', token ' + worst.token)),
    data.argmax_total > 0 && figure('Same next token', `${data.argmax_agree} of ${data.argmax_total}`, 'by the largest logit'),
    data.drift && figure('Drift', data.trend, driftText(data.drift)),
    data.quarantined > 0 && figure('Garbage values', data.quarantined.toLocaleString('en'), 'each with its reason below'));
}

// A log, and what its header says of it.
function file(title, path, run) {
  return [html('dt', {}, title), html('dd', {}, html('bdi', { class: 'name' }, shown(path)),
    run !== '' && [' ', html('bdi', { class: 'run' }, shown(run))])];
}

function head() {
  fill(document.getElementById('head'), [
    html('p', { class: 'kicker' }, 'Assay comparison'),
    html('h1', {}, html('span', { class: 'badge ' + mood }, outcome),
      mood !== 'caution' && html('span', {}, data.verdict.replace('_', ' '))),
    html('p', {}, data.meaning[0].toUpperCase() + data.meaning.slice(1) + '.'),
    html('p', { class: 'evidence' }, 'Evidence: ' + data.evidence + '.'),
    html('dl', { class: 'files' },
      file('Reference', data.ref, data.ref_run), file('Log', data.got, data.got_run)),
    data.warnings.length > 0 && html('ul', { class: 'warnings', 'aria-label': 'Warnings' },
      data.warnings.map((warning) => html('li', {}, shown(warning)))),
    headFigures()]);
}

function commandLine() {
  const button = html('button', { type: 'button' }, 'Copy');
  button.addEventListener('click', () => {
    navigator.clipboard.writeText(data.command).then(() => say('copied'), () => say('cannot copy'));
  });
  return html('div', { class: 'command' }, html('code', { tabindex: '0' }, shown(data.command)),
    navigator.clipboard && button);
}

function firstSection() {
  const { first, causes } = data;
  if (!first) return null;
  const part = section('First divergence', null,
    html('p', { class: 'place' }, name(first.checkpoint), ` at token ${first.token}`),
    html('p', { class: 'why' }, shown(first.text)),
    html('dl', {},
      data.origins.map((origin) => html('div', {}, html('dt', {}, origin.what[0].toUpperCase() + origin.what.slice(1)),
        html('dd', {}, shown(origin.text)))),
      causes.length > 0 && html('div', {}, html('dt', {}, 'Likely causes, best first'),
        html('dd', {}, html('ol', { class: 'causes' }, causes.map((cause) =>
          html('li', {}, html('strong', {}, shown(cause.name.replaceAll('_', ' '))), ' – ', shown(cause.sentence)))))),
      causes.length === 0 && data.cause_hint !== '' && html('div', {}, html('dt', {}, 'No cause found'), html('dd', {}, shown(data.cause_hint))),
      data.causes_not_tried !== '' && html('div', {}, html('dt', {}, 'Causes not tried'), html('dd', {}, shown(data.causes_not_tried))),
      data.passing_tolerance !== '' && html('div', {}, html('dt', {}, 'Smallest tolerance that would pass'), html('dd', {}, passingText())),
      html('div', {}, html('dt', {}, 'Compare again'), html('dd', {}, commandLine()))));
  part.classList.add('first');
  return part;
}

// What keeps a comparison without failures from its verdict.
function unprovenSection() {
  const first = data.first_unproven;
  if (!first || data.first) return null;
  const part = section('What is unproven', null,
    html('p', { class: 'place' }, name(first.checkpoint), ` at token ${first.token}`),
    html('p', { class: 'why' }, shown(first.reason) +
      (data.unproven > 1 ? `; ${count(data.unproven - 1, 'further record is', 'further records are')} unproven` : '')),
    html('dl', {},
      first.advice !== '' && html('div', {}, html('dt', {}, 'To get a verdict'), html('dd', {}, shown(first.advice))),
      html('div', {}, html('dt', {}, 'Compare again'), html('dd', {}, commandLine()))));
  part.classList.add('first', 'unshown');
  return part;
}

// Tolerance and floor, each where one holds for all.
function limitsOf(list) {
  const one = (title, kind, values) => values.size === 1 && Number.isFinite([...values][0])
    ? [{ name: title, kind, value: [...values][0] }] : [];
  return [...one('tolerance', 'limit', new Set(list.map((record) => record.tolerance))),
    ...one('floor', 'floor', new Set(list.map((record) => record.floor)))];
}

function layerChart() {
  const inLayers = records.filter((record) => record.checkpoint.layer >= 0);
  const outputs = inLayers.filter((record) => record.checkpoint.op === 'output');
  const list = outputs.length > 0 ? outputs : inLayers;
  const layers = [...new Set(list.map((record) => record.checkpoint.layer))].sort((a, b) => a - b);
  if (layers.length < 2) return null;
  const of = new Map(layers.map((layer) => [layer, []]));
  for (const record of list) of.get(record.checkpoint.layer).push(record);
  const series = [
    { name: 'worst token', values: layers.map((layer) => of.get(layer).reduce((a, b) => isWorse(b, a) ? b : a).relL2) },
    { name: 'median token', values: layers.map((layer) => median(of.get(layer).map((record) => record.relL2))) },
  ];
  if (limitsOf(list).every((limit) => limit.kind !== 'limit')) {
    series.push({ name: 'tolerance', values: layers.map((layer) => median(of.get(layer).map((record) => record.tolerance))) });
  }
  return section('Drift over layers', (outputs.length > 0 ? 'The error of each layer’s output.' : 'The worst error in each layer.') +
    (data.drift ? ` Its median is ${driftText(data.drift)}` +
      (data.drift.jump === undefined ? '.' : `, from ${format(data.drift.before)} to ${format(data.drift.after)}.`) : ''),
    lineChart({
      label: 'error of each layer', xTitle: 'layer', xs: layers, series, limits: limitsOf(list),
      xText: (layer, long) => (long ? 'layer ' : '') + layer,
    }));
}

function tokenChart() {
  const columns = columnsOf(tokens, 400);
  if (columns.length < 2 || records.length === 0) return null;
  const columnOf = (token) => columns.findIndex(([first, last]) => token >= first && token <= last);
  const column = new Map(tokens.map((token) => [token, columnOf(token)]));
  const line = (title, list) => {
    const worst = worstBy(list, (record) => column.get(record.token));
    return { name: title, values: columns.map((_, i) => worst.has(i) ? worst.get(i).relL2 : undefined) };
  };
  const logits = records.filter((record) => record.checkpoint.name === 'logits');
  const rest = records.filter((record) => record.checkpoint.name !== 'logits');
  const series = [];
  if (logits.length > 0) series.push(line('logits', logits));
  if (rest.length > 0) series.push(line('worst other checkpoint', rest));
  return section('Drift over tokens', 'The error at each position of the text.',
    lineChart({
      label: 'error of each token', xTitle: 'token', xs: columns.map((_, i) => i), series, limits: limitsOf(records),
      xText: (i, long) => (long ? 'token ' : '') + (long ? rangeText(...columns[i]) : columns[i][0]),
    }));
}

// Why checkpoints have something unproven, where that is the same for all of them; else null.
function commonReason() {
  const reasons = new Set(checkpoints.filter((one) => one.unproven > 0).map((one) => one.reason));
  return reasons.size === 1 ? [...reasons][0] : null;
}

// Of a checkpoint what was not shown, "–" where all of it was; without the reason where `common`
// is that of all.
function unshownCell({ unproven, excused, firstUnproven, reason }, common) {
  const parts = [];
  if (unproven > 0) {
    parts.push(`${unproven.toLocaleString('en')} unproven, first at token ${firstUnproven}` +
      (common === null ? `: ${shown(reason)}` : ''));
  }
  if (excused > 0) parts.push(`${excused.toLocaleString('en')} excused`);
  if (parts.length === 0) return '–';
  return html('span', { class: common === null ? 'reason' : null }, parts.join('; '));
}

function statusCell({ failed, unproven, state, sizes }) {
  return html('span', { class: failed > 0 ? 'bad' : unproven > 0 ? 'caution' : null },
    sizes === '' ? state : `${state}: ${sizes}`);
}

function checkpointSection() {
  const worst = worstBy(records, (record) => record.checkpoint.index);
  const hasGaps = data.unproven + data.excused > 0;
  const common = commonReason();
  const header = ['checkpoint', 'status', 'failed', 'worst at token', 'rel L2', 'tolerance', 'largest difference', 'cosine',
    ...(hasFloors ? ['× floor'] : []), ...(hasGaps ? ['not shown'] : [])];
  const figures = (record) => [record.token, format(record.relL2), format(record.tolerance), format(record.maxAbs),
    Number.isNaN(record.cosine) ? 'not a number' : record.cosine.toFixed(6),
    ...(hasFloors ? [Number.isNaN(record.floor) ? '–' : format(record.relL2 / record.floor)] : [])];
  const row = (checkpoint) => {
    const record = worst.get(checkpoint.index);
    return [name(checkpoint.text), statusCell(checkpoint),
      checkpoint.records === 0 ? '–' : `${checkpoint.failed.toLocaleString('en')} of ${checkpoint.records.toLocaleString('en')}`,
      ...(record && checkpoint.sizes === '' ? figures(record) : Array(hasFloors ? 6 : 5).fill('–')), ...(hasGaps ? [unshownCell(checkpoint, common)] : [])];
  };
  const place = (checkpoint) => checkpoint.failed > 0 ? 0 : checkpoint.unproven > 0 ? 1 : 2;
  const sorted = [...checkpoints].sort((a, b) => place(a) - place(b));
  return section('Checkpoints', 'Each checkpoint with its worst token: those that fail, those that are unproven, then the rest, each in the order in which the network computes.' +
    (common === null ? '' : ` What is unproven is so for one reason: ${shown(common)}.`),
    listTable('Checkpoints', header, sorted.slice(0, 1000).map(row), [1, ...(hasGaps ? [header.length - 1] : [])]),
    checkpoints.length > 1000 && html('p', { class: 'note' }, count(checkpoints.length - 1000, 'further checkpoint is', 'further checkpoints are') + ' not listed.'));
}

function noteSection() {
  const notes = [];
  if (data.offset !== 0) notes.push(`Token 0 of the reference is token ${data.offset} of the log (confidence ${format(data.confidence)}).`);
  if (data.split) {
    const token = (id) => id === null ? 'another token' : word(id);
    notes.push(`The generations part at token ${data.split.token}: the reference went on with ${token(data.split.ref_token)}, the log with ${token(data.split.got_token)}. ${data.split.after}; assay run --follow evaluates the reference’s own tokens, so that they can be compared too.`);
  }
  if (data.flips) notes.push(`${data.flips}.`);
  if (data.bins.length > 0) {
    notes.push(`The comparison has ${count(data.compared, 'record')}, more than a page can draw: neighbouring tokens are put together in ${count(data.bins.length, 'group')}, and the worst record of a checkpoint in a group stands for all of it.`);
  }
  if (notes.length === 0) return null;
  return section('Notes', null, html('ul', {}, notes.map((note) => html('li', {}, shown(note)))));
}

head();
const charts = [layerChart(), tokenChart()].filter((part) => part);
fill(document.getElementById('main'), [
  firstSection(), unprovenSection(), heatSection(),
  charts.length > 0 && html('div', { class: charts.length > 1 ? 'pair' : null }, charts),
  logitsSection(), scatterSection(), garbageSection(), speedSection(), checkpointSection(), noteSection()]);
contents();
footer();
