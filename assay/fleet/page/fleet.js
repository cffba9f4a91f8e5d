'use strict';
// The page of a fleet: what is new since the night before, which engine, which op, and how the error goes over commits.

const fleet = data.fleet;
const counts = fleet.counts;

function fleetHead() {
  const mood = counts.new > 0 ? 'bad' : counts.parity === counts.runs && counts.problems + counts.gone === 0 ? 'good' : 'caution';
  const title = counts.new > 0 ? `${counts.new.toLocaleString('en')} new`
    : mood === 'good' ? 'All in parity' : counts.gone > 0 ? `${counts.gone.toLocaleString('en')} did not run` : 'Nothing new';
  fill(document.getElementById('head'), [
    html('p', { class: 'kicker' }, 'Assay fleet of runs'),
    html('h1', {}, html('span', { class: 'badge ' + mood }, title), html('span', {}, 'night of ' + shown(fleet.night))),
    html('p', {}, fleet.before === null ? 'There is no night before it: whatever is not in parity is new.'
      : `Held against the night of ${shown(fleet.before)}: a case is an engine, a model, its type and a prompt, with the worst of its runs of the last commit of the night.`),
    html('dl', { class: 'figures' },
      figure('Cases', counts.runs.toLocaleString('en'), `${counts.parity.toLocaleString('en')} in parity`),
      figure('Diverged', counts.diverged.toLocaleString('en')),
      figure('New', counts.new.toLocaleString('en'), 'not in parity tonight, and were before'),
      figure('As before', counts.still.toLocaleString('en'), 'not in parity in both nights'),
      figure('In parity again', counts.fixed.toLocaleString('en')),
      counts.gone > 0 && figure('Did not run', counts.gone.toLocaleString('en'), 'and did the night before'),
      counts.not_proved > 0 && figure('Not proved', counts.not_proved.toLocaleString('en'), 'nothing failed, and something was not shown'),
      counts.problems > 0 && figure('Not judged', counts.problems.toLocaleString('en'), 'each with its reason below'))]);
}

function commitText(commit) {
  return Array.from(shown(commit)).slice(0, 12).join('');
}

function command(row) {
  if (!row.reference) return null;
  const folder = (run) => `'${(fleet.dataset + '/run=' + run + '/log.parquet').replaceAll("'", "'\\''")}'`;
  const lines = [['ref', row.reference], ['got', row.run]].map(([name, run]) => `assay convert ${folder(run)} ${name}.jsonl`);
  return html('details', {}, html('summary', {}, 'commands'),
    html('code', {}, shown([...lines, 'assay compare ref.jsonl got.jsonl'].join(' && '))));
}

function whereText(row) {
  if (row.problem) return row.problem;
  if (!row.checkpoint) return row.state;
  return `${row.checkpoint} at token ${row.token_idx}: ${row.metric} ${format(row.value)}, tolerance ${format(row.tolerance)}`;
}

function beforeText(row) {
  if (row.state_before === null) return 'had no such run';
  const moved = row.checkpoint_before && row.checkpoint_before !== row.checkpoint;
  return row.state_before + (moved ? `, first at ${row.checkpoint_before}` : '') + (row.commit_before ? `, commit ${commitText(row.commit_before)}` : '');
}

function changeSection(title, about, rows, total, reason) {
  if (rows.length === 0) return null;
  return section(title, about,
    listTable(title, ['engine', 'model', 'type', 'prompt', 'commit', 'state', 'first divergence', 'the night before', 'compare again'],
      rows.map((row) => [shortened(row.engine, 60), name(row.model), shortened(row.type, 20), shortened(row.prompt, 60), commitText(row.commit),
        html('span', { class: row.state === 'parity' ? 'good' : row.state === 'diverged' ? 'bad' : 'caution' }, row.state),
        html('span', { class: 'reason' }, reason ? shown(whereText(row)) : '–'), shown(beforeText(row)), command(row)]),
      [1, 2, 3, 4, 5, 6, 7, 8]),
    total > rows.length && html('p', { class: 'note' }, count(total - rows.length, 'further case is', 'further cases are') + ' in the table of results.'));
}

function goneSection() {
  if (fleet.gone.length === 0) return null;
  return section('Did not run', 'In the dataset the night before, and not tonight.',
    listTable('Did not run', ['engine', 'model', 'type', 'prompt', 'commit', 'the night before'],
      fleet.gone.map((row) => [shortened(row.engine, 60), name(row.model), shortened(row.type, 20), shortened(row.prompt, 60),
        commitText(row.commit), row.state_before]), [1, 2, 3, 4, 5]),
    counts.gone > fleet.gone.length && html('p', { class: 'note' }, count(counts.gone - fleet.gone.length, 'further case', 'further cases')));
}

function engineSection() {
  return section('Engines', 'Each case of the night. The error is that of the last checkpoint, the logits where they are logged.',
    listTable('Engines', ['engine', 'cases', 'in parity', 'diverged', 'not proved', 'not judged', 'median error', 'worst × tolerance'],
      fleet.engines.map((row) => [shortened(row.engine, 60), row.runs, row.parity,
        html('span', { class: row.diverged > 0 ? 'bad' : 'soft' }, row.diverged), row.not_proved, row.not_judged,
        row.median_error === null ? '–' : format(row.median_error),
        row.worst_of_tolerance === null ? '–' : format(row.worst_of_tolerance)])));
}

function opSection() {
  if (fleet.ops.length === 0) return null;
  const layers = (row) => row.first_layer === null ? '–'
    : row.first_layer === row.last_layer ? row.first_layer : `${row.first_layer} to ${row.last_layer}`;
  return section('Ops', 'Where the cases of the night diverge first.',
    listTable('Ops', ['op', 'engine', 'cases', 'layers', 'most often at', 'worst value'],
      fleet.ops.map((row) => [name(row.op), shortened(row.engine, 60), row.runs, layers(row), name(row.commonest), format(row.worst)]),
      [1, 4]));
}

function trendSection(engine, rows) {
  const xs = rows.map((_, i) => i);
  const label = (i) => commitText(rows[i].commit || 'none');
  const values = (key) => rows.map((row) => row[key] === null ? undefined : number(row[key]));
  const table = listTable('Commits of ' + shortened(engine, 60), ['commit', 'first night', 'runs', 'diverged', 'median error', 'worst error'],
    [...rows].reverse().slice(0, 200).map((row) => [commitText(row.commit || 'none'), row.night, row.runs,
      html('span', { class: row.diverged > 0 ? 'bad' : 'soft' }, row.diverged),
      row.median_error === null ? '–' : format(row.median_error), row.worst_error === null ? '–' : format(row.worst_error)]));
  return section('Trend of ' + shortened(engine, 60), 'The error of the last checkpoint over commits, oldest first, all runs of each.',
    rows.length > 1 && lineChart({
      label: 'error over commits of ' + shortened(engine, 60), xTitle: 'commit', xs, limits: [],
      series: [{ name: 'worst run', values: values('worst_error') }, { name: 'median run', values: values('median_error') }],
      xText: (i, long) => long ? 'commit ' + label(i) : label(i).slice(0, 6),
    }), table);
}

function problemSection() {
  if (fleet.problems.length === 0) return null;
  return section('Not judged', 'Runs that could not be compared. The next comparison tries them again.',
    listTable('Not judged', ['run', 'why'], fleet.problems.map((row) =>
      [name(row.run), html('span', { class: 'reason' }, shown(row.problem))]), [1]));
}

function trends() {
  const engines = new Map();
  fleet.trends.forEach((row) => engines.set(row.engine, [...(engines.get(row.engine) || []), row]));
  return [...engines].map(([engine, rows]) => trendSection(engine, rows));
}

fleetHead();
fill(document.getElementById('main'), [
  changeSection('New', 'Not in parity, where the night before was, or had no such run.', fleet.new, counts.new, true),
  changeSection('As before', 'Not in parity, as in the night before.', fleet.still, counts.still, true),
  changeSection('In parity again', null, fleet.fixed, counts.fixed, false),
  goneSection(),
  engineSection(), opSection(), problemSection(), trends()]);
contents();
footer();
