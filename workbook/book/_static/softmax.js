// softmax.js - a figure: the online softmax of one query, a tile of keys at a time, in the four steps that problem 01
// names.
'use strict';

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
  const scores = examples.worked.scores.map(x => x * Math.LOG2E);
  examples.base2 = {...examples.worked, scores, two: true};  // problem 03

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
    const stays = ` O should become ${row(right.O)} and stays ${row(now.O)}.`;
    const lost = state.forget && now.verb === 'rescale' ? stays : '';
    const first = state.step === bad ? ' Here O goes wrong.' : ` O has been wrong since step ${bad}.`;
    const nothing = ' Nothing shows: no maximum moved after something had been added up.';
    return text[now.verb]() + lost + (bad >= 0 && state.step >= bad ? first : '') +
      (state.forget && bad < 0 && now.verb === 'finalize' ? nothing : '');
  }

  // One panel of bars: `tall` high, from y on, values from 0 to `most`.
  function panel(x0, y, tall, title, wide, bars, most) {
    return [
      s('text', {x: x0 - 34, y: y - 24, class: 'title'}, title),
      s('path', {d: `M${x0} ${y + tall}h${wide}`, class: 'axis'}), bars.map(b => {
        const high = Math.min(1, Math.max(0, b.value) / most) * tall, ghost = (b.ghost || 0) / most * tall;
        const box = (height, more) => s('rect', {x: b.x, y: y + tall - height, width: b.width, height, class: more});
        return s('g', {}, box(high, `bar ${b.kind}`), box(ghost, `ghost${b.ghost ? '' : ' none'}`),
          s('text', {x: b.x + b.width / 2, y: y + tall - Math.max(high, ghost) - 5, class: 'number'}, b.text));
      })
    ];
  }

  function view(state, width) {
    const x = examples[state.example], n = x.scores.length;
    const [right, wrong] = [false, true].map(forget => walk(x, state.tile, forget));
    const steps = state.forget ? wrong : right, at_step = steps[state.step], good = right[state.step];
    const now = {...at_step, scores: x.scores.slice(at_step.j0, at_step.j1)};
    const bad = state.forget ? first_wrong(wrong, right) : -1, before_any = now.m === -Infinity;
    const x0 = 36, wide = Math.min(width, 460), column = Math.min(104, (wide - x0 - 4) / (n + 1));
    const bar = Math.min(46, column - 10), last = now.verb === 'finalize', hidden = before_any ? ' none' : '';
    const at = k => x0 + k * column + (column - bar) / 2, tall = 108, top = 40, low = top + tall + 58;
    const most = Math.max(...x.scores), sums = Math.max(...right.map(p => p.l));
    const seen = last ? n : now.verb === 'start' ? 0 : now.j1;
    const kind = k => (k >= seen ? 'later' : k >= now.j0 && !last ? 'now' : 'past');
    const scores = x.scores.map((value, k) => ({x: at(k), width: bar, value, text: fixed(value), kind: kind(k)}));
    const parts = range(0, n).map(k => {
      const value = now.part[k] || 0, is = k in now.part, off = is && Math.abs(value - good.part[k]) > 1e-9;
      const was = now.verb === 'rescale' && is ? steps[state.step - 1].part[k] : 0;
      const ghost = off ? good.part[k] : was > value ? was : 0;  // dashed: where it should be, or was before
      return {x: at(k), width: bar, value, text: is ? fixed(value) : '', kind: off ? 'wrong' : 'past', ghost};
    });
    const y_of_m = top + tall - (before_any ? 0 : now.m / most * tall);
    const moved = {style: `transform: translateY(${y_of_m}px)`}, edge = Math.min(x0 + n * column + 84, wide - 1);
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
        s('path', {d: `M${x0} 0h${n * column}`, ...moved, class: `m${hidden}`}),
        s('text', {x: edge, y: 4, ...moved, class: `label end m${hidden}`}, `m = ${before_any ? 0 : fixed(now.m)}`),
        panel(x0, low, tall,
          last ? 'O divided by l: the factor of each value' : 'in O: each value\u2019s factor; in l: their sum',
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
    // Step 5 is the rescale that corrects something.
    state: preset => ({example: preset === '03' ? 'base2' : 'four', tile: 1, step: 5, forget: false}),
    controls: ({example, tile}) => [
      {key: 'step', label: 'Step', wide: true, range: [0, walk(examples[example], tile).length - 1],
        say: x => walk(examples[x.example], x.tile)[x.step].verb},
      {key: 'example', label: 'Numbers',
        choice: [['four', 'four scores'], ['worked', 'three keys with values'], ['base2', 'the same in base 2']]},
      {key: 'tile', label: 'Keys a tile', range: [1, examples[example].scores.length]},
      {key: 'forget', label: 'forget to rescale O', check: true},
    ],
    view,
  });
  return {examples, walk, first_wrong};
})();
