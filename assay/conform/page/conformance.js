'use strict';
// The page of what engines do with the features of networks: a row a feature, a column an engine.

const conformance = data.conformance;
const engines = conformance.engines;
const marks = {
  honoured: ['✓', 'good'], ignored: ['ignored', 'bad'], misread: ['misread', 'bad'],
  differs: ['differs', 'bad'], crashed: ['crashed', 'caution'], unsupported: ['–', 'soft'],
};

function title(engine) {
  return shown(engine.version ? `${engine.name} ${engine.version}` : engine.name);
}

function conformanceHead() {
  const features = engines.length > 0 ? engines[0].features.length : 0;
  fill(document.getElementById('head'), [
    html('p', { class: 'kicker' }, 'Assay: conformance'),
    html('h1', {}, html('span', { class: 'badge ' + (conformance.pass ? 'good' : 'bad') },
      conformance.pass ? 'Honoured' : 'Deviations')),
    html('p', {}, `${count(features, 'feature')} of networks, each a tiny model whose results in float64 are known, on ${count(engines.length, 'engine')}. ✓: honoured; –: the engine says that it does not support it.`),
    html('dl', { class: 'figures' }, engines.map((engine) => {
      const { honoured, ignored, misread, differs, crashed, unsupported } = engine.counts;
      return figure(title(engine), `${honoured} honoured`,
        `${ignored} ignored, ${misread} misread, ${differs} differ, ${crashed} crashed, ${unsupported} unsupported`);
    }))]);
}

function distance(verdict) {
  return verdict.rel_l2 === null ? '' : format(verdict.rel_l2);
}

function cell(engineNumber, verdict) {
  const [text, mood] = marks[verdict.verdict];
  const id = `cell-${engineNumber}-${verdict.feature}`;
  const detail = [verdict.cause, verdict.text].filter((each) => each !== '').map(shown).join(': ');
  const plain = verdict.verdict === 'honoured' || verdict.verdict === 'unsupported';
  return html('span', { title: `${detail} ${distance(verdict)}`.trim() },
    plain ? html('span', { class: mood }, text) : html('a', { href: '#' + id, class: mood }, text));
}

function groupSection(group, rows) {
  return section(group, null, listTable(group, ['feature', ...engines.map(title)],
    rows.map((i) => [
      html('span', { title: engines[0].features[i].states.join(', ') }, shown(engines[0].features[i].title)),
      ...engines.map((engine, number) => cell(number, engine.features[i]))])));
}

function engineSection(engine, number) {
  const bad = engine.features.filter((each) => !['honoured', 'unsupported'].includes(each.verdict));
  if (bad.length === 0) return null;
  const row = (verdict) => [
    html('span', { id: `cell-${number}-${verdict.feature}` }, shown(verdict.title)),
    html('span', { class: marks[verdict.verdict][1] }, verdict.verdict),
    html('span', { class: 'reason' }, [verdict.cause, verdict.text].filter((each) => each !== '').map(shown).join(': ')),
    distance(verdict), verdict.from_explained === null ? '' : format(verdict.from_explained),
    shown(verdict.first_divergence), html('code', {}, shown(verdict.command))];
  return section(`What ${title(engine)} does otherwise`,
    'How far its logits are from float64, and how far from what it is said to do (relative L2); and the command that compares again.',
    listTable(title(engine), ['feature', 'verdict', 'what it does', 'from float64', 'from that', 'first at', 'command'],
      bad.map(row), [1, 2, 5, 6]));
}

function groups() {
  const rows = new Map();
  (engines.length > 0 ? engines[0].features : []).forEach((feature, i) =>
    rows.set(feature.group, [...(rows.get(feature.group) || []), i]));
  return [...rows].map(([group, numbers]) => groupSection(group, numbers));
}

conformanceHead();
fill(document.getElementById('main'), [groups(), engines.map(engineSection)]);
contents();
footer();
