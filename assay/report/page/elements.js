'use strict';
// Building the page. Text from the logs becomes text nodes and attribute values, never markup.

const data = JSON.parse(document.getElementById('data').textContent);

// Appends strings and nodes, and leaves out what is null or false.
function fill(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) node.append(child);
  }
  return node;
}

function setAll(node, attributes) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) node.setAttribute(name, value);
  }
  return node;
}

function html(tag, attributes, ...children) {
  return fill(setAll(document.createElement(tag), attributes), children);
}

function svg(tag, attributes, ...children) {
  return fill(setAll(document.createElementNS('http://www.w3.org/2000/svg', tag), attributes),
    children);
}

// Characters that control, turn or cannot be seen, as their numbers.
function shown(text) {
  return String(text).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\ufffe\uffff]/gu,
    (c) => ({ '\n': '\\n', '\t': '\\t' })[c] || '\\u{' + c.codePointAt(0).toString(16) + '}');
}

// The start of a long text, and in the middle of it what is left out.
function shortened(text, most) {
  const characters = Array.from(shown(text));
  if (characters.length <= most) return characters.join('');
  const half = Math.floor((most - 1) / 2);
  return characters.slice(0, half).join('') + '…' + characters.slice(-half).join('');
}

function name(text) {
  return html('bdi', { class: 'name' }, shortened(text, 80));
}

// "NaN", "Infinity" and "-Infinity" are strings in the data.
function number(value) {
  return value === null ? NaN : Number(value);
}

function format(value) {
  const x = number(value);
  if (Number.isNaN(x)) return 'not a number';
  if (!Number.isFinite(x)) return x > 0 ? '∞' : '−∞';
  if (x === 0) return '0';
  const size = Math.abs(x);
  const text = size >= 1e5 || size < 1e-3 ? x.toExponential(2) : String(Number(x.toPrecision(3)));
  return text.replace('-', '−').replace('e+', 'e').replace('e-', 'e−');
}

function count(n, one, many) {
  return n.toLocaleString('en') + ' ' + (n === 1 ? one : many || one + 's');
}

const tip = document.getElementById('tip');

// Shows `text` beside the point (x, y) of the window, inside it.
function showTip(text, x, y) {
  tip.textContent = text;
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const width = document.documentElement.clientWidth;
  let left = x + 14;
  if (left + box.width > width - 6) left = x - 14 - box.width;
  let top = y + 14;
  if (top + box.height > window.innerHeight - 6) top = y - 14 - box.height;
  tip.style.left = Math.max(6, left) + 'px';
  tip.style.top = Math.max(6, top) + 'px';
}

function hideTip() {
  tip.hidden = true;
}

// Said by a screen reader.
function say(text) {
  document.getElementById('live').textContent = text;
}

let sections = 0;

// A part of the page, with its heading and what it shows.
function section(title, about, ...children) {
  const id = 'part-' + ++sections;
  const heading = html('h2', { id: id + '-title' }, title);
  return html('section', { id, 'aria-labelledby': id + '-title' }, heading,
    about && html('p', { class: 'about' }, about), ...children);
}

// Fades the right edge of a box that scrolls while there is more to the right.
function markMore(box) {
  const mark = () =>
    box.classList.toggle('more', box.scrollLeft + box.clientWidth < box.scrollWidth - 1);
  box.addEventListener('scroll', mark, { passive: true });
  const sizes = new ResizeObserver(mark);
  for (const one of [box, ...box.children]) sizes.observe(one);
  return box;
}

// A table of plain cells. `header`: the columns' names; `rows`: arrays of strings or nodes, whose
// first is the row's name.
function listTable(caption, header, rows, textColumns = []) {
  const cell = (content, i) =>
    i === 0 ? html('th', { scope: 'row' }, content)
      : html('td', { class: textColumns.includes(i) ? 'text' : null }, content);
  return markMore(html('div', { class: 'scroll rows', tabindex: '0', role: 'region', 'aria-label': caption },
    html('table', { class: 'list' },
      html('caption', { class: 'unseen' }, caption),
      html('thead', {}, html('tr', {}, header.map((text, i) =>
        html('th', { scope: 'col', class: textColumns.includes(i) ? 'text' : null }, text)))),
      html('tbody', {}, rows.map((row) => html('tr', {}, row.map(cell)))))));
}

// A table that stands for a chart, made when it is opened.
function equivalent(caption, header, makeRows) {
  const details = html('details', {}, html('summary', {}, 'As a table: ' + caption));
  details.addEventListener('toggle', () => {
    if (details.open && details.children.length === 1) {
      details.append(listTable(caption, header, makeRows()));
    }
  });
  return details;
}

// One of the large numbers at the head of the page.
function figure(title, value, about) {
  return html('div', {}, html('dt', {}, title), html('dd', {}, value), about && html('dd', {}, about));
}

// The navigation, from the sections that are there.
function contents() {
  const nav = document.getElementById('contents');
  nav.append(html('ul', {}, [...document.querySelectorAll('main section')].map((part) =>
    html('li', {}, html('a', { href: '#' + part.id }, part.querySelector('h2').textContent)))));
  nav.hidden = false;
}

function footer() {
  document.getElementById('foot').append(
    html('p', {}, `Written by Assay ${shown(data.version)} at ${data.time.replace('T', ' ')} UTC. This page holds all of its data and loads nothing.`));
}
