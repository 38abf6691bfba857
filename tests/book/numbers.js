// numbers.js - what the figures compute is what the workbook's programs print. book.py runs it in a page that has the figures, with the
// text of those programs' tables; says what differs.
function numbers(table) {
  const wrong = [], rows = name => table[name].trimEnd().split('\n').map(line => line.split('\t'));
  const check = (what, good) => { checked++; if (!good) wrong.push(what); };
  const near = (a, b) => Math.abs(a - b) <= 2e-6 * Math.max(1, Math.abs(b));
  let checked = 0;

  // softmax.js against online_softmax() and finalize() of problem 01's key, and of its wrong solution O_not_rescaled.
  const { examples, walk, first_wrong } = book.softmax;
  for (const [name, forget] of [['softmax', false], ['softmax_wrong', true]])
    for (const [example, tile, verb, j0, m, l, ...O] of rows(name)) {
      const at = walk(examples[example], +tile, forget).find(p => p.verb === verb && p.j0 === +j0), what = `${name} ${example} tile ${tile} ${verb} ${j0}`;
      check(`${what}: m or L`, near(verb === 'finalize' ? at.L : at.m, +m));
      check(`${what}: l`, near(at.l, +l));
      O.forEach((o, d) => check(`${what}: O[${d}] is ${at.O[d]} and ${o}`, near(at.O[d], +o)));
    }
  // The mistake shows first where lesson 01 says: at the second key, and not at all where the first tile has the largest score.
  const seen = tile => first_wrong(walk(examples.four, tile, true), walk(examples.four, tile));
  check('where the mistake shows', seen(1) === 5 && seen(2) === -1 && seen(4) === -1);
  check('base 2', near(walk(examples.base2, 1).at(-1).L, walk(examples.worked, 1).at(-1).L) && near(walk(examples.base2, 1)[1].m, 0.7213475));

  // mask.js against the counts of workbook/mask, and against the kernels' own lines.
  let p, all;
  for (const [kind, ...n] of rows('mask')) {
    const numbers = n.map(Number);
    if (kind === 'bounds') {
      const [row, ...want] = numbers, b = book.mask.bounds(p, row);
      check(`bounds of ${JSON.stringify(p)}, row ${row}`, [b.first, b.sink_end, b.full, b.end].join() === want.join());
      // The tiles that the bounds visit are those of which something is visible, each once.
      const visited = book.mask.phases(p, row).flatMap(([, from, end]) => book.range(from, end));
      check(`visits of ${JSON.stringify(p)}, row ${row}`, visited.join() === all[row / p.BR].flatMap((t, k) => (t.kind === 'skipped' ? [] : [k])).join());
    } else {
      const [N, W, sinks, BR, BC, size, ...want] = numbers;
      p = { kind, N, W, sinks, BR, BC, size };
      const { rows, count } = book.mask.tiles(p);
      all = rows;
      check(`tiles of ${JSON.stringify(p)}`, [count.visible, count.full, count.masked, count.skipped].join() === want.join());
    }
  }

  // timeline.js: each wait knows its cause, and ends when that does.
  for (const [name, tsv] of Object.entries(book.recorded)) {
    const run = book.timeline.parse(tsv);
    for (const b of run.bars.values()) {
      check(`${name}: bar ${b.id} in time`, b.from >= 0 && b.to > b.from && b.to <= run.cycles + 0.1);
      if (b.kind !== 'wait') continue;
      check(`${name}: bar ${b.id} knows what it waits for`, run.bars.has(b.after));
      if (b.reason === 'a product' || b.reason.includes('full') || b.reason === 'exponentials')
        check(`${name}: bar ${b.id} ends with it`, Math.abs(run.bars.get(b.after).to - b.to) < 0.15);
    }
  }
  return { checked, wrong };
}
