// figures.js - figures that move, each in a file of its own. A figure is a pure function: view(state, width) returns
// its drawing and its words as plain objects. A page shows them (mount), tests/book writes them to a file as the still
// picture (markup) and reads the numbers behind them.
//
//   { name, presets, state(preset), controls(state), view(state, width) }
//   controls, always the same: { key, label, range: [least, most], say?, wide? }, { key, label, choice: [[value, text],
//   ...] }, { key, label, check: true }
//   view: { width, height, svg: [nodes], side: [nodes], words }, where `side` stands beside the drawing or below it
'use strict';

const book = (() => {
  const flat = list => list.flat(9).filter(k => k != null && k !== false).map(k => (k.tag ? k : String(k)));
  const s = (tag, attrs = {}, ...kids) => ({tag, attrs, kids: flat(kids)});
  const fixed = (x, digits = 4) => (Number.isInteger(x) ? String(x) : x.toFixed(digits)).replace('-', '\u2212');
  const range = (from, to) => Array.from({length: Math.max(0, to - from)}, (_, k) => from + k);

  const escaped = text => text.replace(/[&<>"]/g, c => `&#${c.charCodeAt(0)};`);
  const none = value => value == null || value === false;
  function markup(node) {
    if (typeof node === 'string') return escaped(node);
    const attrs = Object.entries(node.attrs).map(([k, v]) => (none(v) ? '' : ` ${k}="${escaped(String(v))}"`)).join('');
    return `<${node.tag}${attrs}>${node.kids.map(markup).join('')}</${node.tag}>`;
  }

  // Brings what a parent holds to `nodes`. What is there stays where it can, so that CSS may move it from its old place
  // to its new one.
  const SVG = 'http://www.w3.org/2000/svg';
  function patch(parent, nodes) {
    nodes.forEach((node, k) => {
      let at = parent.childNodes[k];
      const put = fresh => { at ? at.replaceWith(fresh) : parent.append(fresh), at = fresh; };
      if (typeof node === 'string') {
        if (at?.nodeType !== Node.TEXT_NODE) put(new Text(node));
        if (at.data !== node) at.data = node;
        return;
      }
      if (at?.localName !== node.tag) put(document.createElementNS(parent.namespaceURI, node.tag));
      for (const {name} of [...at.attributes])
        if (none(node.attrs[name])) at.removeAttribute(name);
      for (const [name, value] of Object.entries(node.attrs))
        if (!none(value) && at.getAttribute(name) !== String(value)) at.setAttribute(name, value);
      patch(at, node.kids);
    });
    while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
  }

  // ------------------------ controls
  const make = (tag, attrs = {}, ...kids) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    e.append(...kids);
    return e;
  };

  // Every control is the browser's own: it has the keyboard, touch and a name already.
  let controls = 0;
  function control(c, state, changed) {
    const id = `control-${++controls}`, set = value => { state[c.key] = value, changed(); };
    if (c.choice) {
      const select = make('select', {id}, ...c.choice.map(([value, text]) => make('option', {value}, text)));
      select.addEventListener('change', () => set(select.value));
      return {node: make('label', {}, c.label, ' ', select), show: () => { select.value = state[c.key]; }};
    }
    const input = make('input', c.check ? {id, type: 'checkbox'} : {id, type: 'range', step: 1});
    input.addEventListener('input', () => set(c.check ? input.checked : +input.value));
    if (c.check) {
      const node = make('label', {class: 'check'}, input, ' ', c.label);
      return {node, show: () => { input.checked = state[c.key]; }};
    }
    const hop = (by, way, sign) => {
      const button = make('button', {type: 'button', 'aria-label': `${c.label}: ${way}`}, sign);
      button.addEventListener('click', () => set(state[c.key] + by));
      return button;
    };
    const said = make('output', {for: id}), name = make('span', {class: 'name'}, c.label);
    const show = now => {
      [input.min, input.max] = now.range;
      input.value = state[c.key];
      said.textContent = now.say ? now.say(state) : state[c.key];
      input.setAttribute('aria-valuetext', said.textContent);
    };
    const node = make('label', {class: c.wide ? 'wide' : '', for: id}, name, hop(-1, 'back', '\u2039'), input,
      hop(1, 'forward', '\u203a'), said);
    return {node, show};
  }

  // ------------------------ mount
  // Puts the figure where its still picture was.
  function mount(picture, figure, preset) {
    const state = figure.state(preset), stage = make('div', {class: 'stage'}), side = make('div', {class: 'side'});
    const words = make('p', {class: 'words', 'aria-live': 'polite'}), svg = document.createElementNS(SVG, 'svg');
    const built = figure.controls(state).map(c => control(c, state, draw));
    const panel = make('div', {class: 'panel'}, ...built.map(b => b.node));
    const root = make('div', {class: `moving ${figure.name}`, role: 'group', 'aria-label': picture.alt});
    stage.append(svg, side);
    root.append(panel, stage, words);

    function draw() {
      const list = figure.controls(state);
      for (const c of list)
        if (c.range) state[c.key] = Math.min(c.range[1], Math.max(c.range[0], state[c.key]));
      built.forEach((b, k) => b.show(list[k]));
      const {width, height, svg: drawing, side: beside, words: text} =
        figure.view(state, Math.max(280, Math.floor(root.clientWidth)));
      const attrs = {role: 'img', viewBox: `0 0 ${width} ${height}`, width, height, 'aria-label': text};
      for (const [k, v] of Object.entries(attrs)) svg.setAttribute(k, v);
      patch(svg, flat(drawing));
      patch(side, flat(beside));
      words.textContent = text;
    }
    picture.closest('figure.named')?.querySelector('figcaption').remove();  // which tells one state of many
    (picture.closest('a') || picture).replaceWith(root);
    let width = 0;
    new ResizeObserver(() => {
      if (root.clientWidth !== width) width = root.clientWidth, requestAnimationFrame(draw);
    }).observe(root);
    draw();
  }

  // A picture named NAME_PRESET.svg becomes the figure NAME, if there is one with this preset.
  const figures = [];
  document.addEventListener('DOMContentLoaded', () => {
    for (const picture of document.querySelectorAll('article img')) {
      const [, name, preset] = picture.getAttribute('src').match(/([a-z]+)_(\d\d)\.svg$/) || [];
      const figure = figures.find(f => f.name === name && f.presets.includes(preset));
      if (figure) mount(picture, figure, preset);
    }
  });
  return {flat, s, fixed, range, markup, figures};
})();
