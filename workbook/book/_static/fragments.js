// fragments.js - a figure: which elements of a block a lane holds, which row it supplies to ldmatrix, and in which
// banks the eight rows of that fetch lie.
'use strict';

book.fragments = (() => {
  const {s, range} = book;

  // Rows and columns that the lane holds of C [16, 8], A [16, 16] and B [16, 8], in the order of its registers.
  function held(of, lane) {
    const g = lane >> 2, t = 2 * (lane & 3), pair = (row, col) => [[row, col], [row, col + 1]];
    if (of === 'C') return [...pair(g, t), ...pair(g + 8, t)];
    if (of === 'Q') return [...pair(g, t), ...pair(g + 8, t), ...pair(g, t + 8), ...pair(g + 8, t + 8)];
    return [t, t + 1, t + 8, t + 9].map(row => [row, g]);
  }
  // The row of the tile and the chunk of 8 columns that the lane supplies.
  function handed(of, lane) {
    const i = lane >> 3, j = lane & 7, [down, right] = of === 'K' ? [i >> 1, i & 1] : [i & 1, i >> 1];
    return {row: j + 8 * down, chunk: right};
  }
  // Which of the eight groups of four banks it is in.
  function group({row, chunk}, layout, D) {
    const chunks = D / 8, together = Math.max(1, 8 / chunks);
    if (layout === 'swizzle') chunk ^= Math.floor(row / together) % (8 / together);
    return (row * (chunks + (layout === 'padding')) + chunk) % 8;
  }
  function fetch(of, lane, layout, D) {
    const groups = range(lane & ~7, (lane & ~7) + 8).map(l => group(handed(of, l), layout, D));
    const often = groups.map(g => groups.filter(x => x === g).length);
    return {groups, often, passes: Math.max(...often)};
  }

  const names = {C: 'C, the scores', Q: 'Q, a left factor', K: 'K\u1d40, a right factor', V: 'V, a right factor'};
  const layouts = {rows: 'one behind the other', padding: 'each 16 bytes longer', swizzle: 'with a swizzle'};

  function view({lane, of, layout, D}, width) {
    const wide = Math.min(width, 460), x0 = 60, cols = of === 'Q' ? 16 : 8, cell = Math.min(22, (wide - x0 - 4) / cols);
    const tall = 17, top = 40, mine = held(of, lane), here = handed(of, lane);
    const owner = {};
    for (const l of range(0, 32)) for (const [row, col] of held(of, l)) owner[row * cols + col] = l;
    const grid = range(0, 16 * cols).map(k => {
      const x = x0 + k % cols * cell, y = top + Math.floor(k / cols) * tall, is = owner[k] === lane;
      return s('g', {}, is && s('rect', {x, y, width: cell - 2, height: tall - 2, class: 'bar now'}),
        s('text', {x: x + cell / 2 - 1, y: y + 12, class: is ? 'number on now' : 'number soft'}, owner[k]));
    });
    const what = {K: 'column', V: 'key'}[of] || 'row';
    const low = top + 16 * tall + 62, {groups, often, passes} = fetch(of, lane, layout, D), bank = (wide - x0 - 4) / 8;
    const rows = groups.map((g, j) => {
      const y = low + j * tall, l = (lane & ~7) + j, kind = often[j] > 1 ? 'wrong' : l === lane ? 'now' : 'past';
      return s('g', {}, s('text', {x: x0 - 6, y: y + 12, class: `end${l === lane ? '' : ' soft'}`}, `lane ${l}`),
        range(0, 8).map(k => s('rect', {x: x0 + k * bank, y, width: bank - 2, height: tall - 2,
          class: `bar ${k === g ? kind : 'later'}`})));
    });
    const places = mine.map(([row, col]) => `(${row}, ${col})`).join(', ');
    return {
      width: wide,
      height: low + 8 * tall + 4,
      svg: [
        s('text', {x: 0, y: 14, class: 'title'}, `who holds ${names[of]}`),
        [0, 8].map(col => col < cols && s('text', {x: x0 + col * cell, y: top - 6, class: 'soft'}, col)),
        range(0, 16).map(row =>
          s('text', {x: x0 - 6, y: top + row * tall + 12, class: 'soft end'}, `${row % 8 ? '' : `${what} `}${row}`)),
        grid,
        s('text', {x: 0, y: low - 30, class: 'title'}, `banks, rows ${layouts[layout]}: ${
          passes === 1 ? 'one pass' : `${passes} passes`}`),
        range(0, 8).map(k => s('text', {x: x0 + (k + 0.5) * bank, y: low - 8, class: 'number soft'}, 4 * k)),
        rows,
      ],
      side: [],
      words: `Lane ${lane} holds ${places}. To fetch ${of === 'C' ? 'Q' : of} it supplies ` +
        `${of === 'K' || of === 'V' ? 'key' : 'row'} ${here.row}, columns ${8 * here.chunk} to ` +
        `${8 * here.chunk + 7}; lanes ${lane & ~7} to ${lane | 7} fetch together, in ` +
        (passes === 1 ? 'one pass.' : `${passes} passes.`),
    };
  }

  book.figures.push({
    name: 'fragments',
    presets: ['19'],
    state: () => ({lane: 13, of: 'Q', layout: 'swizzle', D: '64'}),
    controls: () => [
      {key: 'lane', label: 'Lane', wide: true, range: [0, 31]},
      {key: 'of', label: 'Block of', choice: Object.entries(names)},
      {key: 'layout', label: 'Rows', choice: Object.entries(layouts)},
      {key: 'D', label: 'D', choice: ['16', '32', '64', '128'].map(D => [D, D])},
    ],
    view,
  });
  return {held, handed, fetch};
})();
