// ring.js - a figure: what the ranks of a ring compute and send, step by step, as the reference solutions of 17
// (forward) and 18 (back) queue it. tests/book holds its times and sentences against the lessons.
'use strict';

book.ring = (() => {
  const {s, fixed, range} = book, sum = (list, of) => list.reduce((all, x) => all + of(x), 0);
  const most = (list, of) => list.reduce((a, b) => (of(b) > of(a) ? b : a)), end = list => list.at(-1)?.to || 0;

  // The calls of each rank in their order: messages { step, to, items: [{ sums, owner, bytes }], after }, where `after`
  // counts the rank's products that are over before, and products { step, owner, mine, theirs, half, after }, of
  // two chunks, where it counts messages. `other`: the wrong solution contiguous_chunks of 17,
  // nothing_under_the_way_home of 18.
  function plan({back, ranks: R, causal, N, Hkv, D, other}) {
    const rows = chunk => Math.floor(N / (2 * R)) + (chunk < N % (2 * R));
    const chunks = rank => (other && !back ? [2 * rank, 2 * rank + 1] : [rank, 2 * R - 1 - rank]);
    const numbers = rank => sum(chunks(rank), rows) * Hkv * D;
    return range(0, R).map(me => {
      const calls = [];
      for (let step = 0, products = 0; step < R + back; step++) {
        const owner = (me - step + R) % R, left = (owner + 1) % R, items = [];
        if (step + 1 < R) items.push(...[2, 2].map(size => ({owner, bytes: size * numbers(owner)})));  // K, V
        if (back && step > 0 && R > 1) items.push({sums: true, owner: left, bytes: 8 * numbers(left)});
        if (items.length) calls.push({step, to: (me + 1) % R, items, after: back || step > 1 ? products : 0});
        for (const [a, b] of [[0, 0], [0, 1], [1, 0], [1, 1]]) {
          const mine = chunks(me)[a], theirs = chunks(owner)[b], half = causal && mine === theirs;
          const kept = other ? step > 0 : (a === b) !== (step === 0);  // for the other step with one's own keys
          if (causal && theirs > mine || back && owner === me && kept) continue;
          calls.push({step, owner, mine, theirs, half, after: R > 1 ? step : 0});
          products++;
        }
      }
      return calls;
    });
  }

  // When each call begins and ends, where a pair of whole chunks takes 1, and a rank's K and V take `wire`. A message
  // begins when the ranks on both its sides have come to theirs. And what is hidden: the part of a message that is
  // `bare` has no product of its rank beside it, the rest those of some steps.
  function clock(ranks, wire) {
    const lanes = ranks.map(() => ({messages: [], products: []})), R = ranks.length;
    for (const step of range(0, R + 1)) {
      const now = ranks.map(calls => calls.filter(c => c.step === step));
      const ready = lanes.map((l, r) => Math.max(end(l.messages), end(l.products.slice(0, now[r][0]?.after))));
      now.forEach((calls, r) => calls.forEach(c => {
        const {messages, products} = lanes[r];
        const from = c.items ? Math.max(...[r, (r + 1) % R, (r + R - 1) % R].map(k => ready[k]))
                             : Math.max(end(products), end(messages.slice(0, c.after)));
        const takes = c.items ? wire * sum(c.items, i => (i.sums ? 2 : 0.5)) : c.half ? 0.5 : 1;
        (c.items ? messages : products).push({...c, rank: r, from, to: from + takes});
      }));
    }
    for (const lane of lanes) {
      const {messages, products} = lane;
      lane.end = Math.max(end(messages), end(products));
      for (const m of messages) {
        const under = products.filter(p => p.from < m.to && p.to > m.from);
        m.steps = under.map(p => p.step);
        m.bare = m.to - m.from - sum(under, p => Math.min(p.to, m.to) - Math.max(p.from, m.from));
      }
    }
    return lanes;
  }

  const shape = {N: 131072, Hkv: 8, D: 128};
  const of_step = (lane, step) => lane.messages.filter(m => m.step === step);
  const names = items => [...new Set(items.map(i => `${i.sums ? 'dK' : 'K'}${i.owner}`))].join(', ') || '\u2013';
  const MiB = messages => fixed(sum(messages.flatMap(m => m.items), i => i.bytes) / 2 ** 20, 1);

  function sentence({back, ranks: R, step, wire}, lanes, total) {
    const now = lanes.flatMap(l => of_step(l, step)), keys = step + 1 < R, sums = back && step > 0 && R > 1;
    const has = step % R ? `the keys of the rank ${step > 1 ? `${step} places ` : ''}before it` : 'its own keys';
    const gradients = `${keys ? ', with' : ', and sends on'} the gradients of the step before`;
    const moves = (keys ? ', and sends them on' : '') +
      (!sums ? '' : step < R ? gradients : ': gradients return to their owner');
    let hidden = '';
    if (now.length && wire) {
      const {from, to, rank, bare} = most(now, m => m.bare), steps = [...new Set(now.flatMap(m => m.steps))].sort();
      const under = steps.length ? `under products of step${steps[1] >= 0 ? 's' : ''} ${steps.join(' and ')}` : '';
      hidden = ` Each message takes ${fixed(to - from, 2)}, ${!bare ? 'all of it ' :
        `and ${fixed(bare, 2)} of that on rank ${rank} under no product${under && ', the rest '}`}${under}.`;
    }
    const idle = lanes.map((l, rank) => ({rank, for: total - sum(l.products, p => p.to - p.from)}));
    const worst = most(idle, l => l.for), same = idle.every(l => l.for === worst.for), all = lanes[0].messages;
    const waits = `${same ? 'each rank' : `rank ${worst.rank}`} computes nothing for ${fixed(worst.for, 2)} of them`;
    const sent = R > 1 ? ` Of ${shape.N} rows with ${shape.Hkv} key heads of D = ${shape.D}, rank 0 has sent ${
      MiB(all.filter(m => m.step <= step))} of ${MiB(all)} MiB.` : '';
    return `Step ${step}: each rank has ${has}${moves}.${hidden} All steps take as long as ${
      fixed(total, 2)} whole pairs of chunks: ${worst.for ? waits : 'no rank waits'}.${sent}`;
  }

  function view(state, width) {
    const {ranks: R, step} = state, lanes = clock(plan({...shape, ...state}), state.wire / 4);
    const wide = Math.min(width, 460), x0 = 44, top = 34, tall = 34, low = top + R * tall + 34, c = R > 4 ? 13 : 18;
    const total = Math.max(...lanes.map(l => l.end)), scale = (wide - x0 - 4) / total;
    const x = t => x0 + t * scale, y = rank => top + rank * tall, low_of = chunk => low + chunk * c;
    const kind = call => (call.step > step ? 'later' : call.step < step ? 'past' : 'now');
    const box = (x, y, width, height, more) => s('rect', {x, y, width, height, class: `bar ${more}`});
    const bar = (from, to, at, high, more) => box(x(from), at, Math.max(0, (to - from) * scale - 1), high, more);
    const text = (from, to, at, more, ...words) => {
      const fits = words.find(word => word.length * 7 < (to - from) * scale);
      return fits && s('text', {x: x((from + to) / 2) - 0.5, y: at, class: `number ${more}`}, fits);
    };
    const owner = chunk => lanes.findIndex(l => l.products.some(p => p.mine === chunk));
    return {
      width: wide,
      height: low + 2 * R * c + 4,
      svg: [
        s('text', {x: 0, y: 12, class: 'title'}, 'products, by the rank of their keys; messages'),
        lanes.map(({products, messages}, r) => [
          s('text', {x: 0, y: y(r) + 12, class: 'soft'}, `rank ${r}`),
          [...products, {from: total}].map(({from: to}, k) => [end(products.slice(0, k)), to]).map(([from, to]) =>
            to > from && s('path', {d: `M${x(from)} ${y(r) + 7.5}H${x(to)}`, class: 'idle'})),
          products.map(p => bar(p.from, p.to, y(r), 15, kind(p))),
          range(0, R + 1).map(k => products.filter(p => p.step === k)).filter(list => list.length).map(list =>
            text(list[0].from, end(list), y(r) + 12, `on ${kind(list[0])}`, `K${list[0].owner}`, list[0].owner)),
          messages.map(m => m.items.filter((i, k) => i.sums || k === 0).map(i => {
            const from = i.sums ? m.to - state.wire / 2 : m.from, to = i.sums ? m.to : m.from + state.wire / 4;
            return [bar(from, to, y(r) + 16, 11, `${kind(m)}${i.sums ? ' sums' : ''}`),
              text(from, to, y(r) + 25.5, i.sums ? '' : `on ${kind(m)}`, names([i]), i.owner)];
          })),
        ]),
        lanes.map((lane, r) => of_step(lane, step).map(m => {
          const head = 'm-3 -5l3 5l3 -5', home = r + 1 < R ? '' : `M${x(m.to)} ${top - 12}v11${head}`;
          return s('path', {d: `M${x(m.to)} ${y(r) + 22}V${y(r + 1) - 2}${head}${home}`, class: 'm'});
        })),
        s('text', {x: 0, y: low - 18, class: 'title'}, 'chunks by rank: queries down, keys across'),
        range(0, 2 * R).map(k => [s('text', {x: x0 - 8, y: low_of(k) + c - 3, class: 'soft end'}, owner(k)),
          s('text', {x: x0 + (k + 0.5) * c, y: low - 4, class: 'soft number'}, owner(k))]),
        lanes.flatMap(l => l.products).map(p => s('path', {
          d: `M${x0 + p.theirs * c + 1} ${low_of(p.mine) + 1}v${c - 2}h${c - 2}${p.half ? '' : `v${2 - c}`}z`,
          class: `bar ${kind(p)}`
        })),
        [['now', 'this step'], ['past', 'before'], ['later', 'to come']].map(([kind, word], k) => [
          box(x0 + 2 * R * c + 16, low + 18 * k, 11, 11, kind),
          s('text', {x: x0 + 2 * R * c + 32, y: low + 18 * k + 10, class: 'soft'}, word)])
      ],
      side: [s('table', {}, s('tr', {}, ['rank', 'has', 'leaves', 'comes'].map(t => s('th', {scope: 'col'}, t))),
        lanes.map((lane, r) => {
          const [leaves, comes] = [r, (r + R - 1) % R].map(k => names(of_step(lanes[k], step).flatMap(m => m.items)));
          return s('tr', {}, [r, `K${(r - step + R) % R}`, leaves, comes].map(t => s('td', {}, t)));
        }))],
      words: sentence(state, lanes, total),
    };
  }

  book.figures.push({
    name: 'ring',
    presets: ['17', '18'],
    state: n => ({back: n === '18', ranks: 4, causal: true, other: false, wire: n === '18' ? 2 : 4, step: 2}),
    controls: ({back, ranks}) => [
      {key: 'step', label: 'Step', wide: true, range: [0, ranks - 1 + back]},
      {key: 'ranks', label: 'Ranks', range: [1, 8]},
      {key: 'wire', label: 'K and V take', range: [0, 16], say: x => fixed(x.wire / 4, 2)},  // quarters
      {key: 'causal', label: 'causal', check: true},
      {key: 'other', label: back ? 'all own work in step 0' : 'chunks in order, no zigzag', check: true},
    ],
    view,
  });
  return {plan, clock};
})();
