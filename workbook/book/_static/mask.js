// mask.js - which query sees which key, what that makes of each tile, and which tiles the code of 04, 06 and 07 visits.
'use strict';

book.mask = (() => {
  const {s, range} = book, {max, min} = Math;
  const divided = (a, b) => Math.trunc(a / b);  // as C divides ints

  // ------------------------------------------------------------ masks that are data, as workbook/case/named_mask.c
  // draws them
  const SEED = 1n, TREE = [-1, 0, 0, 1, 1, 2, 5];
  const mix = x => {
    const cut = y => BigInt.asUintN(64, y);
    x = cut(x + 0x9e3779b97f4a7c15n);
    x = cut((x ^ x >> 30n) * 0xbf58476d1ce4e5b9n);
    x = cut((x ^ x >> 27n) * 0x94d049bb133111ebn);
    return x ^ x >> 31n;
  };
  const drawn = (what, i, end) => Number((mix(SEED ^ mix(BigInt(i) << 32n ^ mix(BigInt(what)))) >> 33n) % BigInt(end));
  function documents(N, size) {
    const first = [];
    for (let t = 0, begin = 0, length = 0; t < N; t++) {
      if (t === begin + length) begin = t, length = 1 + drawn(2, t, 2 * size - 1);
      first.push(begin);
    }
    return (i, j) => j <= i && j >= first[i];
  }
  function tree(N, size) {
    const parent = range(0, size).map(n => (size === 7 ? TREE[n] : drawn(3, n, n + 1) - 1)), prompt = N - size;
    const sees = (draft, ancestor) => {
      while (draft > ancestor) draft = parent[draft];
      return draft === ancestor;
    };
    return (i, j) => (j < prompt || i < prompt ? j <= i : sees(i - prompt, j - prompt));
  }
  function prefix(N, size) {
    const end = divided(size, 2) + drawn(7, 0, size + 1);
    return (i, j) => j <= i || j < end;
  }
  const strided = (N, size) => (i, j) =>
    j <= i && (divided(j, size) === divided(i, size) || j % size >= size - max(1, divided(size, 8)));

  const kinds = {
    // [what it is called, (N, size) => (i, j) => whether i sees j]; the first three read W and sinks
    causal: ['causal (04)'],
    window: ['window (06)'],
    sinks: ['window and sinks (07)'],
    documents: ['documents (15)', documents],
    prefix: ['prefix (15)', prefix],
    tree: ['tree (15)', tree],
    strided: ['strided (15)', strided],
  };
  const is_data = kind => !!kinds[kind][1];
  const sight = ({kind, N, W, sinks, size}) => is_data(kind) ? kinds[kind][1](N, min(size, N)) : {
    causal: (i, j) => j <= i,
    window: (i, j) => j <= i && j > i - W,
    sinks: (i, j) => j <= i && (j > i - W || j < sinks),
  }[kind];

  // ------------------------------------------------------------ tiles and bounds
  // The bounds of the block of rows from r0 on, as the kernels compute them. Each is said in the words of its lesson,
  // not in the line of C, which gaps ask for. Tiles of sinks are as large as others here (SC = BC), as in the drawing
  // of lesson 07; in its kernel SC is 16.
  function bounds({kind, N, W, sinks, BR, BC}, r0) {
    const windowed = kind === 'window' || kind === 'sinks', r1 = min(r0 + BR, N) - 1;
    const first = windowed ? divided(max(0, r0 - W + 1), BC) : 0;
    const sink_end = kind === 'sinks' ? divided(min(sinks, first * BC) + BC - 1, BC) : 0;
    const full = divided(r0 + 1, BC), end = divided(r1, BC) + 1;
    const list = [
      windowed && ['first', first, 'max(0, r0 - W + 1) / BC, rounded down', `max(0, ${r0} - ${W} + 1) / ${BC}`],
      kind === 'sinks' &&
        ['sink_end', sink_end, 'min(sinks, first BC) / SC, rounded up', `min(${sinks}, ${first} \u00b7 ${BC}) / ${BC}`],
      ['full', full, '(r0 + 1) / BC, rounded down', `(${r0} + 1) / ${BC}`],
      ['end', end, 'one more than r1 / BC, rounded down', `one more than ${r1} / ${BC}`],
    ].filter(Boolean);
    return {list, first, sink_end, full, end};
  }

  // What a kernel that wastes nothing does with each tile, as workbook/mask counts it.
  function tiles(p) {
    const sees = sight(p), rows = [], count = {full: 0, masked: 0, skipped: 0, visible: 0, computed: 0};
    for (let i0 = 0; i0 < p.N; i0 += p.BR) {
      const row = [];
      for (let j0 = 0; j0 < p.N; j0 += p.BC) {
        const i1 = min(i0 + p.BR, p.N), j1 = min(j0 + p.BC, p.N), runs = [];
        let visible = 0;
        for (let i = i0; i < i1; i++)
          for (let j = j0, from = -1; j <= j1; j++) {
            const seen = j < j1 && sees(i, j);
            if (seen && from < 0) from = j;
            if (!seen && from >= 0) runs.push([i, from, j - from]), visible += j - from, from = -1;
          }
        const all = (i1 - i0) * (j1 - j0), whole = visible === (i1 - i0) * p.BC;
        const kind = whole ? 'full' : visible ? 'masked' : 'skipped';
        count[kind]++, count.visible += visible;
        if (visible) count.computed += all;
        row.push({i0, i1, j0, j1, kind, runs});
      }
      rows.push(row);
    }
    return {rows, count};
  }

  // Which tiles the block of rows from r0 on visits, phase by phase: [name, from, end). Where masks are data, lists say
  // it.
  function phases(p, r0) {
    if (is_data(p.kind)) return [];
    const b = bounds(p, r0), middle = p.kind === 'causal' ? 'no mask' : 'window';
    return [['sinks', 0, b.sink_end], [middle, b.first, b.full], ['diagonal', b.full, b.end]].filter(
      ([, from, end]) => from < end);
  }

  // ------------------------------------------------------------ the figure
  const share = (part, all) => `${Math.round(100 * part / all)} %`;
  function view(p, width) {
    const {rows, count} = tiles(p), left = 34, top = 46, wide = min(width, 430), side = wide - left - 8, u = side / p.N,
                 bottom = top + side;
    const row = rows[min(p.row, rows.length - 1)], r0 = row[0].i0, r1 = row[0].i1 - 1, all = rows.flat();
    const x = j => left + min(j, p.N) * u, y = i => top + i * u, of = kind => all.filter(t => t.kind === kind);
    const box = t => `M${x(t.j0)} ${y(t.i0)}H${x(t.j1)}V${y(t.i1)}H${x(t.j0)}z`,
          run = ([i, j, n]) => `M${x(j)} ${y(i)}h${n * u}v${u}h${- n * u}z`;
    const sparse = size => Math.ceil(22 / (size * u)) * size,
          marks = size => range(0, Math.ceil(p.N / sparse(size))).map(k => k * sparse(size));
    const across = range(1, rows.length).map(k => `M${left} ${y(k * p.BR)}h${side}`),
          down = range(1, row.length).map(k => `M${x(k * p.BC)} ${top}v${side}`);
    const legend = [
      ['full', 'whole: no mask'], ['visible', 'visible'], ['computed', 'masked away'],
      ['skipped', 'skipped: never loaded']
    ];
    const visited = phases(p, r0), code = (...kids) => s('p', {class: 'code'}, ...kids);
    const listed = kind => row.map((t, k) => (t.kind === kind ? k : -1)).filter(k => k >= 0).join(', ') || 'none';
    const said = ([name, from, end]) =>
      `${name}: ${end - from === 1 ? `tile ${from}` : `tiles ${from} \u2026 ${end - 1}`}`;
    return {
      width: wide,
      height: bottom + 52,
      svg: [
        s('text', {x: left + side / 2, y: 12, class: 'number soft'}, 'keys'),
        s('text', {transform: `translate(10 ${top + side / 2}) rotate(-90)`, class: 'number soft'}, 'queries'),
        s('path', {d: of('masked').map(box).join(''), class: 'computed'}),
        s('path', {d: of('masked').flatMap(t => t.runs).map(run).join(''), class: 'visible'}),
        s('path', {d: of('full').map(box).join(''), class: 'full'}),
        s('path', {d: [...across, ...down].join(''), class: 'grid'}),
        s('rect', {x: left, y: top, width: side, height: side, class: 'frame'}),
        marks(p.BR).map(i => s('text', {x: left - 5, y: y(i) + 11, class: 'end soft'}, i)),
        marks(p.BC).map(j => s('text', {x: x(j) + 1, y: bottom + 14, class: 'soft'}, j)),
        s('rect', {x: left, y: y(r0), width: side, height: (r1 + 1 - r0) * u, class: 'picked'}),
        visited.map(([name, from, end]) => {
          const a = x(from * p.BC), b = x(end * p.BC);
          return [
            s('path', {d: `M${a + 2} ${top - 4}v-7H${b - 2}v7`, class: 'brace'}),
            s('text', {x: (a + b) / 2, y: top - 16, class: 'number'}, b - a > 7 * name.length ? name : name[0])
          ];
        }),
        rows.map((t, k) => s('rect', {
          x: 0,
          y: y(t[0].i0),
          width: left + side,
          height: (t[0].i1 - t[0].i0) * u,
          class: 'touch',
          'data-pick': k
        })),
        legend.map(([kind, text], k) => {
          const at = {x: left + k % 2 * side / 2, y: bottom + 20 + divided(k, 2) * 17};
          return [
            s('rect', {...at, width: 11, height: 11, class: `key ${kind}`}),
            s('text', {x: at.x + 16, y: at.y + 10, class: 'soft'}, text)
          ];
        }),
      ],
      side: [
        s('p', {class: 'title'}, `Rows r0 = ${r0} to r1 = ${r1}`),
        is_data(p.kind) ? [code(`whole: ${listed('full')}`), code(`part: ${listed('masked')}`)]
                        : bounds(p, r0).list.map(([name, value, how, numbers]) => code(s('b', {}, `${name} = ${value}`),
                                                   s('br'), how, s('br'), s('span', {class: 'soft'}, numbers))),
        code(visited.map(said).join('; ')),
      ],
      words: `${count.visible} of ${p.N * p.N} pairs are visible. Of ${all.length} tiles of ${p.BR} \u00d7 ${p.BC}, ${
               count.full} `
        +
        `${count.full === 1 ? 'is' : 'are'} whole, ${count.masked} masked, ${count.skipped} skipped: ${
          share(count.skipped, all.length)}. `
        +
        `${count.computed} scores are computed, ${
          share(count.computed - count.visible, count.computed)} of them for nothing.`,
    };
  }

  const kind_of = {'04': 'causal', '06': 'window', '07': 'sinks', 15: 'documents'};
  book.figures.push({
    name: 'mask',
    presets: Object.keys(kind_of),
    state: preset => ({
      kind: kind_of[preset],
      W: 5,
      sinks: 2,
      size: 7,
      row: 2,
      ...(preset === '15' ? {N: 32, BR: 8, BC: 8} : {N: 12, BR: 4, BC: 3})
    }),
    controls: p => [{key: 'kind', label: 'Mask', choice: Object.entries(kinds).map(([kind, [text]]) => [kind, text])},
      {key: 'N', label: 'N', range: [4, 96]},
      ...(p.kind === 'window' || p.kind === 'sinks' ? [{key: 'W', label: 'W', range: [1, p.N]}] : []),
      ...(p.kind === 'sinks' ? [{key: 'sinks', label: 'sinks', range: [0, min(24, p.N)]}] : []),
      ...(is_data(p.kind) ? [{key: 'size', label: 'size', range: [1, p.N]}] : []),
      {key: 'BR', label: 'BR', range: [1, min(32, p.N)]},
      {key: 'BC', label: 'BC', range: [1, min(32, p.N)]},
      {key: 'row', label: 'Row of tiles', wide: true, range: [0, divided(p.N - 1, p.BR)]},
  ],
    pick(p, data) {
      if (p.row === +data) return false;
      p.row = +data;
    },
    view,
  });
  return {bounds, tiles, phases};
})();
