// timeline.js - what the copy engine, the tensor cores and the computing warpgroups of one block do over time: two runs above one another,
// recorded on the CPU layer and replayed with costs by workbook/timeline, which also says what each bar comes after. The runs are in
// recorded.js, which conf.py writes.
'use strict';

book.timeline = (() => {
  const { s, range } = book, round = Math.round;

  // First lines "# title" and "cycles N"; then the bars. `after`: the bar whose end this one waited for, or was asked for by; -1: none.
  function parse(tsv) {
    const run = { cycles: 0, bars: new Map(), lines: [] };
    for (const text of tsv.trimEnd().split('\n')) {
      const [bar, line, group, kind, label, from, to, reason, after] = text.split('\t');
      if (bar === 'cycles') run.cycles = +line;
      if (!/^\d+$/.test(bar)) continue;
      run.bars.set(+bar, { id: +bar, line, group: +group, kind, label, from: +from, to: +to, reason, after: +after });
      if (!run.lines.includes(line)) run.lines.push(line);
    }
    const order = l => (l === 'copy engine' ? 0 : l === 'tensor cores' ? 1 : 2);
    run.lines.sort((a, b) => order(a) - order(b) || a.localeCompare(b));
    return run;
  }
  const bars = (run, test) => [...run.bars.values()].filter(test);
  const busy = (run, line, kind) => bars(run, b => b.line === line && b.kind === kind).reduce((sum, b) => sum + b.to - b.from, 0) / run.cycles;

  let parsed;
  const runs = () => parsed = parsed || Object.entries(book.recorded).map(([name, tsv]) => ({ name, ...parse(tsv) }));
  const what = b => ({ copy: `brings ${b.label}`, product: `${b.label} of warpgroup ${b.group}`, scores: `scores of ${b.label}`,
    scale: 'works on its result', wait: `waits for ${b.reason}` })[b.kind];
  const full_name = b => ({ copy: `the copy of ${b.label}`, product: `the product ${b.label} of warpgroup ${b.group}`,
    wait: `${b.line}, which had waited for ${b.reason}`, scores: `${b.line}, at work on the scores of ${b.label}` })[b.kind]
    || `${b.line}, at work on its result`;

  // One sentence about a bar: what it is, what it came after, and who waits for it.
  function about(run, b) {
    const cause = run.bars.get(b.after), waiters = bars(run, w => w.kind === 'wait' && w.after === b.id && w.id !== b.id).map(w => w.line);
    const does = b.kind === 'wait' ? `waits ${round(b.to - b.from)} for ${b.reason}` : what(b);
    const why = !cause ? '' : b.kind === 'wait' ? ` It goes on when ${full_name(cause)} is over.` : ` Asked for after ${full_name(cause)}.`;
    const whom = waiters.length ? ` Waiting for it: ${[...new Set(waiters)].join(', ')}.` : '';
    return `${b.line}, cycles ${round(b.from)} to ${round(b.to)}: ${does}.${why}${whom}`;
  }

  // To the next wait, or the one before, of the run that was picked last.
  const hop = by => p => {
    const waits = bars(runs()[p.run], b => b.kind === 'wait' && b.to - b.from > 20).sort((a, b) => a.from - b.from || a.id - b.id);
    const at = waits.findIndex(b => b.id === p.bar), next = at >= 0 ? at + by : waits.findIndex(b => b.from >= p.t);
    const b = waits[Math.min(waits.length - 1, Math.max(0, next))];
    p.bar = b.id, p.held = true, p.t = round((b.from + b.to) / 2);
  };

  const LANE = 22, APART = 28, LEFT = 88, STEP = 50;
  function view(p, width) {
    const list = runs(), most = Math.max(...list.map(r => r.cycles)), plot = width - LEFT - 6, narrow = width < 560;
    const span = most * Math.min(1, plot / 560), from = Math.min(most - span, Math.max(0, p.t - span / 2));
    const x = t => LEFT + (Math.min(from + span, Math.max(from, t)) - from) / span * plot;
    const tall = run => run.lines.length * APART + (narrow ? 48 : 34), sum = runs => runs.reduce((y, run) => y + tall(run), 18);
    const tops = list.map((_, k) => sum(list.slice(0, k))), bottom = sum(list);
    const lane = (k, line) => tops[k] + (narrow ? 27 : 12) + list[k].lines.indexOf(line) * APART;
    const now = list[p.run].bars.get(p.bar), cause = now && list[p.run].bars.get(now.after);
    const title = (run, k) => {
      const share = `${round(run.cycles)} cycles, tensor cores busy ${round(100 * busy(run, 'tensor cores', 'product'))} %`;
      const said = narrow ? [run.name, share] : [`${run.name}: ${share}`];
      return said.map((text, n) => s('text', { x: narrow ? 4 : LEFT, y: tops[k] + 2 + 16 * n, class: n ? 'soft' : 'title' }, text));
    };
    const bar = (k, b) => {
      const w = x(b.to) - x(b.from), y = lane(k, b.line);
      if (w < 0.3) return null;
      const kind = b.kind === 'wait' ? b.reason === 'a product' ? 'wait' : 'wait strong' : b.kind === 'copy' ? 'copy' : `g${b.group}`;
      const mark = k !== p.run || !now ? '' : b.id === now.id ? ' now' : cause && b.id === cause.id ? ' cause' : '';
      const label = w > 6.5 * b.label.length + 2 && b.kind !== 'wait';
      return [s('rect', { x: x(b.from).toFixed(1), y, width: w.toFixed(1), height: LANE, class: `event ${kind}${mark}`, 'data-pick': `${k}:${b.id}` }),
        label && s('text', { x: (x(b.from) + w / 2).toFixed(1), y: y + 15, class: 'on' }, b.label)];
    };
    const arrow = () => {
      const x1 = x(cause.to), x2 = x(now.kind === 'wait' ? now.to : now.from);
      const y1 = lane(p.run, cause.line) + LANE / 2, y2 = lane(p.run, now.line) + LANE / 2;
      return s('path', { d: `M${x1} ${y1}C${x1 + 24} ${y1} ${x2 + 24} ${y2} ${x2} ${y2}m7 -4l-7 4l7 4`, class: 'arrow' });
    };
    const legend = [['copy', 'a tile comes'], ['g1', 'warpgroup 1'], ['g2', 'warpgroup 2'], ['wait', 'waits for a product'],
      ['wait strong', 'waits for something else']];
    const across = width > 640 ? 5 : 2, legend_x = k => (across === 5 ? [0, 0.15, 0.31, 0.47, 0.68][k] * width : k % 2 * width / 2) + 6;
    const step = [500, 1000, 2000, 2500, 5000].find(d => d / span * plot > 56) || 5000;
    const at = (run, line) => bars(run, b => b.line === line && b.from <= p.t && p.t < b.to)[0];
    const cell = (run, line) => {
      const b = at(run, line);
      return s('td', { class: b && b.kind === 'wait' ? 'waits' : null }, b ? what(b) : p.t >= run.cycles ? 'done' : '\u2013');
    };
    return {
      height: bottom + 26 + 17 * Math.ceil(5 / across),
      svg: [
        s('rect', { x: 0, y: 0, width, height: bottom, class: 'touch', 'data-pick': 'none' }),
        list.map((run, k) => [
          title(run, k),
          run.lines.map(line => [s('text', { x: LEFT - 6, y: lane(k, line) + 15, class: 'end soft' }, line),
            s('rect', { x: LEFT, y: lane(k, line), width: plot, height: LANE, class: 'lane' })]),
          bars(run, b => b.to > from && b.from < from + span).map(b => bar(k, b)),
        ]),
        range(Math.ceil(from / step), Math.floor((from + span) / step) + 1)
          .map(k => s('text', { x: x(k * step), y: bottom + 2, class: 'number soft' }, k * step)),
        s('path', { d: list.map((r, k) => `M${x(p.t)} ${lane(k, r.lines[0]) - 4}v${r.lines.length * APART + 2}`).join(''), class: 'cursor' }),
        now && cause ? arrow() : null,
        legend.map(([kind, text], k) => {
          const y = bottom + 12 + 17 * Math.floor(k / across);
          return [s('rect', { x: legend_x(k), y, width: 11, height: 11, class: kind }), s('text', { x: legend_x(k) + 16, y: y + 10, class: 'soft' }, text)];
        }),
      ],
      side: [s('table', {}, s('tr', {}, s('th', { scope: 'col' }, `cycle ${p.t}`), list.map(r => s('th', { scope: 'col' }, r.name))),
        list[0].lines.map(line => s('tr', {}, s('th', { scope: 'row' }, line), list.map(run => cell(run, line)))))],
      words: now ? about(list[p.run], now) : 'Point at a bar, touch it, or go from wait to wait: what it is, what it waits for, and who waits for it.',
    };
  }

  book.figures.push({
    name: 'timeline',
    presets: ['10'],
    state: () => ({ t: 6500, fine: 6500 / STEP, run: 0, bar: -1, held: false }),
    controls: p => {
      p.fine = round(p.t / STEP);
      return [
        { key: 'fine', label: 'Time', wide: true, range: [0, Math.ceil(Math.max(...runs().map(r => r.cycles)) / STEP)], say: x => `cycle ${x.t}` },
        { label: 'previous wait', press: hop(-1) }, { label: 'next wait', press: hop(1) },
        { key: 'run', label: 'of', choice: runs().map((r, k) => [k, r.name]) },
      ];
    },
    changed(p, key) {
      if (key === 'fine') p.t = p.fine * STEP;
      if (key === 'run') p.run = +p.run;
      if (key) p.bar = -1, p.held = false;
    },
    pick(p, data, sure) {
      if (data === 'none') { if (!sure) return false; p.held = false, p.bar = -1; return; }
      if (p.held && !sure) return false;
      [p.run, p.bar] = data.split(':').map(Number);
      p.held = sure;
    },
    leave(p) { if (!p.held) p.bar = -1; },
    view,
  });
  return { parse, busy };
})();
