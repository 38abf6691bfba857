// figure.js - what figures that move share. A figure is a pure function: view(state, width) returns its drawing and its
// words as plain objects. A page shows them (mount), tests/book writes them to a file as the still picture (markup) and
// reads the numbers behind them.
//
//   { name, presets, state(preset), controls(state), view(state, width), pick?(state, data) }
//   controls: { key, label, range: [least, most], say? }   { key, label, choice: [[value, text], ...] }   { key, label,
//   check: true } view:     { width?, height, svg: [nodes], side: [nodes], words }   `side` stands beside the drawing
//   or below it
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
      const put = fresh => {
        at ? parent.replaceChild(fresh, at) : parent.appendChild(fresh);
        at = fresh;
      };
      if (typeof node === 'string') {
        if (!at || at.nodeType !== Node.TEXT_NODE)
          put(document.createTextNode(node));
        else if (at.data !== node)
          at.data = node;
        return;
      }
      if (!at || at.nodeType !== Node.ELEMENT_NODE || at.localName !== node.tag)
        put(document.createElementNS(parent.namespaceURI, node.tag));
      for (const {name} of [...at.attributes])
        if (none(node.attrs[name])) at.removeAttribute(name);
      for (const [name, value] of Object.entries(node.attrs))
        if (!none(value) && at.getAttribute(name) !== String(value)) at.setAttribute(name, value);
      patch(at, node.kids);
    });
    while (parent.childNodes.length > nodes.length) parent.lastChild.remove();
  }

  // ------------------------------------------------------------ controls
  const make = (tag, attrs = {}, ...kids) => {
    const e = document.createElement(tag);
    for (const [k, v] of Object.entries(attrs)) e.setAttribute(k, v);
    e.append(...kids);
    return e;
  };

  // Every control is the browser's own: it has the keyboard, touch and a name already.
  let controls = 0;
  function control(c, state, changed) {
    const id = `control-${++controls}`;
    if (c.choice) {
      const select = make('select', {id}, ...c.choice.map(([value, text]) => make('option', {value}, text)));
      select.addEventListener('change', () => {
        state[c.key] = select.value;
        changed();
      });
      return {node: make('label', {}, c.label, ' ', select), show: () => { select.value = state[c.key]; }};
    }
    const input = make('input', c.check ? {id, type: 'checkbox'} : {id, type: 'range', step: 1});
    input.addEventListener('input', () => {
      state[c.key] = c.check ? input.checked : +input.value;
      changed();
    });
    if (c.check)
      return {
        node: make('label', {class: 'check'}, input, ' ', c.label),
        show: () => { input.checked = state[c.key]; }
      };
    const hop = by => {
      const b = make('button', {type: 'button', 'aria-label': `${c.label}: ${by < 0 ? 'back' : 'forward'}`},
        by < 0 ? '\u2039' : '\u203a');
      b.addEventListener('click', () => {
        state[c.key] += by;
        changed();
      });
      return b;
    };
    const said = make('output', { for: id
    });
    const show = now => {
      [input.min, input.max] = now.range;
      input.value = state[c.key];
      said.textContent = now.say ? now.say(state) : state[c.key];
      input.setAttribute('aria-valuetext', said.textContent);
    };
    const name = make('span', {class: 'name'}, c.label);
    return { node: make('label', { class: c.wide ? 'wide' : '', for: id }, name, hop(-1), input, hop(1), said), show };
  }

  // ------------------------------------------------------------ mount
  // Puts the figure where its still picture was. Returns what a test drives it with.
  function mount(picture, figure, preset) {
      const state = figure.state(preset), stage = make('div', {class: 'stage'}), side = make('div', {class: 'side'});
      const words = make('p', {class: 'words', 'aria-live': 'polite'}), panel = make('div', {class: 'panel'});
      const root = make('div', {class: `moving ${figure.name}`, role: 'group', 'aria-label': picture.alt});
      const svg = document.createElementNS(SVG, 'svg');
      svg.setAttribute('role', 'img');
      stage.append(svg, side);
      root.append(panel, stage, words);
      let shown = '', built = [];

      function draw() {
        const list = figure.controls(state), keys = list.map(c => c.key).join();
        for (const c of list)
          if (c.range) state[c.key] = Math.min(c.range[1], Math.max(c.range[0], state[c.key]));
        if (keys !== shown) {
          const had = built.findIndex(b => b.node.contains(document.activeElement));
          built = list.map(c => control(c, state, draw));
          panel.replaceChildren(...built.map(b => b.node));
          if (built[had]) built[had].node.querySelector('select, input')?.focus();
          shown = keys;
        }
        built.forEach((b, k) => b.show(list[k]));
        const width = Math.max(280, Math.floor(root.clientWidth)), view = figure.view(state, width);
        svg.setAttribute('viewBox', `0 0 ${view.width || width} ${view.height}`);
        svg.setAttribute('width', view.width || width);
        svg.setAttribute('height', view.height);
        svg.setAttribute('aria-label', view.words);
        patch(svg, flat(view.svg));
        patch(side, flat(view.side || []));
        words.textContent = view.words;
      }
      const picked = event => {
        const at = event.target.closest('[data-pick]');
        if (at && figure.pick && figure.pick(state, at.getAttribute('data-pick')) !== false) draw();
      };
      svg.addEventListener('pointerover', picked);
      svg.addEventListener('click', picked);
      picture.closest('figure.named')?.querySelector('figcaption').remove();  // which tells one state of many
      (picture.closest('a') || picture).replaceWith(root);
      let width = 0;
      new ResizeObserver(() => {
        if (root.clientWidth !== width) width = root.clientWidth, requestAnimationFrame(draw);
      }).observe(root);
      draw();
      return {state, draw, root};
  }

  // A picture named NAME_PRESET.svg becomes the figure NAME, if there is one with this preset.
  const figures = [], made = {};
  function start() {
      for (const picture of document.querySelectorAll('article img')) {
        const [, name, preset] = picture.getAttribute('src').match(/([a-z]+)_(\d\d)\.svg$/) || [];
        const figure = figures.find(f => f.name === name && f.presets.includes(preset));
        if (figure) made[`${name}_${preset}`] = mount(picture, figure, preset);
      }
  }
  document.addEventListener('DOMContentLoaded', start);
  return { flat, s, fixed, range, markup, figures, made };
})();
