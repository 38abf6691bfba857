// softmax.js - a figure that moves. A figure is a pure function: view(state, width) returns its drawing and its
// words as plain objects. A page shows them (mount), tests/book writes them to a file as the still picture (markup) and
// reads the numbers behind them.
//
//   { name, presets, state(preset), controls(state), view(state, width) }
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

  // ------------------------ mount
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

// ------------------------ softmax
// The online softmax of one query, a tile of keys at a time, in the four steps that problem 01 names.

book.softmax = (() => {
  const {s, fixed, range} = book;
  const unit = n => range(0, n).map(k => range(0, n).map(d => +(d === k)));
  const dot = (a, b) => a.reduce((sum, x, k) => sum + x * b[k], 0);

  // The worked numbers of problem 01. Its four scores come without values: here they are unit vectors, so that O is the
  // row of weights.
  const q = [1, 0], keys = [[0.5, 0.3], [0.8, -0.2], [0.1, 0.7]];
  const examples = {
    four: {scores: [2, 5, 1, 4], values: unit(4)},
    worked: {scores: keys.map(k => dot(q, k)), values: [[1, 0], [0, 1], [0.5, 0.5]]},
  };
  examples
    .base2 = {...examples.worked, scores: examples.worked.scores.map(x => x * Math.LOG2E), two: true};  // problem 03

  // Every state on the way: what the code holds after each step. `forget`: O is not rescaled, the wrong solution
  // O_not_rescaled of 01. part[j] is the factor with which value j is in O now.
  function walk({scores, values, two}, tile, forget) {
    const steps = [], n = scores.length, exp = two ? x => 2 ** x : Math.exp;
    let m = -Infinity, l = 0, O = values[0].map(() => 0), part = [], weight = [], a = 1, L = null;
    const push = (verb, j0, more = {}) =>
      steps.push({verb, j0, j1: Math.min(n, j0 + tile), m, l, O, part, weight, a, L, ...more});
    push('start', 0);
    for (let j0 = 0; j0 < n; j0 += tile) {
      const S = scores.slice(j0, j0 + tile), before = {m, l, O};
      m = Math.max(m, ...S);
      push('max', j0, {before});
      a = exp(before.m - m);
      l *= a;
      weight = weight.map(p => p * a);
      if (!forget) O = O.map(x => x * a), part = part.map(p => p * a);
      push('rescale', j0, {before});
      const P = S.map(x => exp(x - m)), had = {l, O};
      l += P.reduce((x, y) => x + y, 0);
      O = O.map((x, d) => x + P.reduce((sum, p, k) => sum + p * values[j0 + k][d], 0));
      part = [...part, ...P], weight = [...weight, ...P];
      push('accumulate', j0, {before: had, P});
    }
    const before = {l, O};
    O = O.map(x => x / l), part = part.map(p => p / l);
    L = two ? (m + Math.log2(l)) * Math.LN2 : m + Math.log(l);
    push('finalize', n, {before});
    return steps;
  }

  // The first step after which O differs from what it should be; -1: none does.
  const first_wrong = (wrong, right) =>
    wrong.findIndex((w, k) => w.O.some((x, d) => Math.abs(x - right[k].O[d]) > 1e-9));

  const row = v => `[${v.map(x => fixed(x)).join(', ')}]`;
  const list = v => v.map(x => fixed(x)).join(', ');
  function sentence(now, state, right, bad) {
    const {before: b} = now, two = state.example === 'base2';
    const where = now.j1 - now.j0 > 1 ? `keys ${now.j0} to ${now.j1 - 1}` : `key ${now.j0}`;
    const rescaled = () =>
      `rescale: a = ${two ? 'exp2' : 'exp'}(${fixed(b.m)} \u2212 ${fixed(now.m)}) = ${fixed(now.a)}; ` +
      `l = ${fixed(now.a)} \u00b7 ${fixed(b.l)} = ${fixed(now.l)}${
        state.forget ? '.' : `, and O = ${fixed(now.a)} \u00b7 O = ${row(now.O)}.`}`;
    const sum_of_parts = now.part.reduce((x, y) => x + y, 0);
    const text = {
      start: () => 'Before the first tile: m is lower than any score, l and O are 0.',
      max: () =>
        `max, ${where}: m' = max(${b.m === -Infinity ? 'm' : fixed(b.m)}, ${list(now.scores)}) = ${fixed(now.m)}.`,
      rescale: () => b.m === -Infinity ? 'rescale: nothing was added up yet, so a = 0 changes nothing.' : rescaled(),
      accumulate: () => `accumulate, ${where}: weight${now.P.length > 1 ? 's' : ''} ${list(now.P)}; l = ${
        fixed(now.l)}, O = ${row(now.O)}.`,
      finalize: () => `finalize: O = O / ${fixed(now.l)} = ${row(now.O)}, ` +
        `L = ${two ? `(${fixed(now.m)} + log2(${fixed(now.l)})) ln 2` : `${fixed(now.m)} + log(${fixed(now.l)})`} = ${
          fixed(now.L)}.`
        + (bad >= 0 ? ` It should be ${row(right.O)}: the parts of O sum to ${fixed(sum_of_parts)}, not to 1.` : ''),
    };
    const lost =
      state.forget && now.verb === 'rescale' ? ` O should become ${row(right.O)} and stays ${row(now.O)}.` : '';
    const first = bad >= 0 && state.step >= bad
      ? state.step === bad ? ' Here O goes wrong.' : ` O has been wrong since step ${bad}.`
                                                   : '';
    const nothing = state.forget && bad < 0 && now.verb === 'finalize'
      ? ' Nothing shows: no maximum moved after something had been added up.'
      : '';
    return text[now.verb]() + lost + first + nothing;
  }

  // One panel of bars: `tall` high, from y on, values from 0 to `most`.
  function panel(x0, y, tall, title, wide, bars, most) {
    return [
      s('text', {x: x0 - 34, y: y - 24, class: 'title'}, title),
      s('path', {d: `M${x0} ${y + tall}h${wide}`, class: 'axis'}), bars.map(b => {
        const high = Math.min(1, Math.max(0, b.value) / most) * tall, ghost = (b.ghost || 0) / most * tall;
        return s('g', {}, s('rect', {x: b.x, y: y + tall - high, width: b.width, height: high, class: `bar ${b.kind}`}),
          s('rect',
            {x: b.x, y: y + tall - ghost, width: b.width, height: ghost, class: `ghost${b.ghost ? '' : ' none'}`}),
          s('text', {x: b.x + b.width / 2, y: y + tall - Math.max(high, ghost) - 5, class: 'number'}, b.text));
      })
    ];
  }

  function view(state, width) {
    const x = examples[state.example], n = x.scores.length, right = walk(x, state.tile),
          wrong = walk(x, state.tile, true);
    const steps = state.forget ? wrong : right, at_step = steps[state.step], good = right[state.step];
    const now = {...at_step, scores: x.scores.slice(at_step.j0, at_step.j1)};
    const bad = state.forget ? first_wrong(wrong, right) : -1, before_any = now.m === -Infinity;
    const x0 = 36, wide = Math.min(width, 460), column = Math.min(104, (wide - x0 - 4) / (n + 1)),
          bar = Math.min(46, column - 10);
    const at = k => x0 + k * column + (column - bar) / 2, tall = 108, top = 40, low = top + tall + 58;
    const most = Math.max(...x.scores), sums = Math.max(...right.map(p => p.l));
    const seen = now.verb === 'finalize' ? n : now.verb === 'start' ? 0 : now.j1;
    const kind = k => (k >= seen ? 'later' : k >= now.j0 && now.verb !== 'finalize' ? 'now' : 'past');
    const scores = x.scores.map((value, k) => ({x: at(k), width: bar, value, text: fixed(value), kind: kind(k)}));
    const parts = range(0, n).map(k => {
      const value = now.part[k] || 0, is = k in now.part, off = is && Math.abs(value - good.part[k]) > 1e-9;
      const was = now.verb === 'rescale' && is ? steps[state.step - 1].part[k] : 0;
      const ghost = off ? good.part[k] : was > value ? was : 0;  // dashed: where it should be, or was before
      return {x: at(k), width: bar, value, text: is ? fixed(value) : '', kind: off ? 'wrong' : 'past', ghost};
    });
    const y_of_m = top + tall - (before_any ? 0 : now.m / most * tall),
          moved = {style: `transform: translateY(${y_of_m}px)`};
    const rows = range(0, Math.ceil(n / state.tile)).map(t => {
      const of = verb => steps.findIndex(p => p.verb === verb && p.j0 === t * state.tile);
      const cell = (verb, text) =>
        s('td', {class: of(verb) === state.step ? 'now' : null}, of(verb) <= state.step ? text(steps[of(verb)]) : '');
      return s('tr', {}, s('td', {}, list(x.scores.slice(t * state.tile, (t + 1) * state.tile))),
        cell('max', p => fixed(p.m)), cell('rescale', p => fixed(p.a)), cell('accumulate', p => list(p.P)),
        cell('accumulate', p => fixed(p.l)));
    });
    let pile = low + tall;
    return {
      width: wide,
      height: low + tall + 26,
      svg: [
        panel(x0, top, tall, 'scores, and m', n * column, scores, most),
        s('path', {d: `M${x0} 0h${n * column}`, ...moved, class: `m${before_any ? ' none' : ''}`}),
        s('text', {
          x: Math.min(x0 + n * column + 84, wide - 1),
          y: 4,
          ...moved,
          class: `label end m${before_any ? ' none' : ''}`
        },
          `m = ${fixed(before_any ? 0 : now.m)}`),
        panel(x0, low, tall,
          now.verb === 'finalize' ? 'O divided by l: the factor of each value'
                                  : 'in O: each value\u2019s factor; in l: their sum',
          (n + 1) * column, parts, sums),
        range(0, n).map(k => {
          const high = (now.weight[k] || 0) * tall / sums;
          pile -= high;
          return s('rect', {x: at(n), y: pile, width: bar, height: high, class: 'bar sum'});
        }),
        s('text', {x: at(n) + bar / 2, y: low + tall - now.l * tall / sums - 5, class: 'number'},
          now.l ? fixed(now.l) : ''),
        range(0, n).map(k => s('text', {x: at(k) + bar / 2, y: low + tall + 17, class: 'number soft'}, `key ${k}`)),
        s('text', {x: at(n) + bar / 2, y: low + tall + 17, class: 'number soft'}, 'l'),
      ],
      side: [
        s('table', {}, s('tr', {}, ['score', 'm\u2032', 'a', 'weight', 'l'].map(t => s('th', {scope: 'col'}, t))),
          rows),
        s('p', {class: bad >= 0 && state.step >= bad ? 'O bad' : 'O'}, `O = ${row(now.O)}`)
      ],
      words: sentence(now, state, good, bad),
    };
  }

  book.figures.push({
    name: 'softmax',
    presets: ['01', '03'],
    state: preset => ({
      example: preset === '03' ? 'base2' : 'four',
      tile: 1,
      step: 5,
      forget: false
    }),  // the rescale that corrects something
    controls: state => [{
      key: 'step',
      label: 'Step',
      wide: true,
      range: [0, walk(examples[state.example], state.tile).length - 1],
      say: x => walk(examples[x.example], x.tile)[x.step].verb
    },
      {
        key: 'example',
        label: 'Numbers',
        choice: [['four', 'four scores'], ['worked', 'three keys with values'], ['base2', 'the same in base 2']]
      },
      {key: 'tile', label: 'Keys a tile', range: [1, examples[state.example].scores.length]},
      {key: 'forget', label: 'forget to rescale O', check: true},
  ],
    view,
  });
  return {examples, walk, first_wrong};
})();
