// probe.js - looks at the built book, in a page that opens each of its pages in a frame. book.sh writes that page,
// which knows given: { site, files, css }, and reads what is said here: a line a proof, "ok" or "FAIL", and "still
// NAME BASE64".
'use strict';

const said = document.body.appendChild(document.createElement('pre'));
const frame = document.body.appendChild(document.createElement('iframe'));
const say = text => said.append(`${text}\n`);
const verdict = (good, what, why = '') => say(good ? `ok    ${what}` : `FAIL  ${what}: ${why}`);
const soon = () =>
  new Promise(done => setTimeout(done, 50));  // by the browser's virtual clock, which waits for all that loads

async function open(page) {
  await new Promise(done => { frame.onload = done, frame.src = `${given.site}/${page}`; });
  return frame.contentDocument;
}

// Every link of every page leads to a file, and to a name in it; nothing is asked of the network; no page is wider than
// a screen: what is wider scrolls in itself.
async function look_at_pages() {
  const files = new Set(given.files), ids = {}, links = [], asked = [], wide = [], widths = [380, 800, 1200];
  const of_the_book = /^(?!files|_static)/;  // others show a file as it is
  for (const page of given.files.filter(file => file.endsWith('.html'))) {
    const doc = await open(page);
    ids[page] = new Set([...doc.querySelectorAll('[id], [name]')].flatMap(e => [e.id, e.getAttribute('name')]));
    for (const e of doc.querySelectorAll('[href], [src]')) {
      const link = e.getAttribute('href') || e.getAttribute('src');
      if (link && !/^[a-z]+:/.test(link)) links.push([page, link, new URL(link, `${given.site}/${page}`)]);
    }
    asked.push(...frame.contentWindow.performance.getEntriesByType('resource')
                 .filter(r => !r.name.startsWith('file:'))
                 .map(r => r.name));
    for (const width of of_the_book.test(page) ? widths : []) {
      frame.width = width;
      if (doc.querySelector('.moving')) await soon();
      if (doc.documentElement.scrollWidth > width) wide.push(`${page} at ${width}`);
    }
  }
  const broken = links.filter(([, , url]) => {
    const file = decodeURIComponent(url.href.split(/[?#]/)[0]).slice(given.site.length + 1);
    return !files.has(file) || (url.hash && ids[file] && !ids[file].has(decodeURIComponent(url.hash.slice(1))));
  });
  verdict(!broken.length && links.length > 1000,
    `${links.length} links of ${Object.keys(ids).length} pages lead somewhere`,
    broken.slice(0, 20).map(([page, link]) => `${page}: ${link}`).join('; '));
  verdict(!asked.length, 'nothing is asked of the network', asked.slice(0, 5).join(' '));
  verdict(!wide.length, `at ${widths} pixels nothing juts out`, wide.join(', '));
}

async function look_around() {
  const doc = await open('search.html?q=rescale'), found = () => doc.querySelector('#search-results')?.innerHTML || '';
  for (let tries = 0; tries < 50 && !found().includes('problems/03'); tries++) await soon();
  verdict(/problems\/01/.test(found()) && /problems\/03/.test(found()), 'a search for rescale finds lessons 01 and 03',
    found());
  const next =
    [...(await open('problems/04/README.html')).querySelectorAll('.related-pages a')].map(a => a.getAttribute('href'));
  verdict(next.join() === '../05/README.html,../03/README.html', '04 leads to the next lesson and the one before',
    next.join());
}

// ------------------------ figures
// softmax.js: after each tile m, l and O are those of the keys so far, by their definition; at the end O and L are the
// softmax's. Where O is not rescaled, each key still has the factor of its own tile's maximum.
function softmax_numbers({examples, walk, first_wrong}) {
  const near = (a, b) => Math.abs(a - b) <= 1e-12 * Math.max(1, Math.abs(b)), wrong = [];
  for (const [name, {scores, values, two}] of Object.entries(examples))
    for (let tile = 1; tile <= scores.length; tile++)
      for (const forget of [false, true])
        for (const p of walk(examples[name], tile, forget).filter(p => ['accumulate', 'finalize'].includes(p.verb))) {
          const last = p.verb === 'finalize', exp = two ? x => 2 ** x : Math.exp;
          const seen = scores.slice(0, p.j1), top = Math.max(...seen),
                l = seen.reduce((sum, x) => sum + exp(x - top), 0);
          const then = j => (forget ? Math.max(...scores.slice(0, (Math.floor(j / tile) + 1) * tile)) : top);
          const O = values[0].map(
            (_, d) => seen.reduce((sum, x, j) => sum + exp(x - then(j)) * values[j][d], 0) / (last ? l : 1));
          const L = Math.log(scores.reduce((sum, x) => sum + exp(x), 0));
          if (![near(p.m, top), near(p.l, l), !last || near(p.L, L), ...O.map((x, d) => near(p.O[d], x))].every(
                Boolean))
            wrong.push(`${name}, tile ${tile}, ${p.verb} ${p.j0}, ${forget}`);
        }
  // The mistake shows first where lesson 01 says: at the second key, and not at all where the first tile has the
  // largest score.
  const shows = tile => first_wrong(walk(examples.four, tile, true), walk(examples.four, tile));
  if ([1, 2, 4].map(shows).join() !== '5,-1,-1') wrong.push('where the mistake shows');
  verdict(!wrong.length, 'the numbers of softmax', wrong.slice(0, 5).join('; '));
}

// What lessons say of their figures, at the width of a phone and of a screen; and each control does what it is for.
async function look_at_figures(width) {
  const words = name => frame.contentDocument.querySelector(`.${name} .words`).textContent;
  const says = (name, pattern, what) =>
    verdict(pattern.test(words(name)), `${name}, ${width} wide: ${what}`, words(name));
  const slide = to => {
    const input = frame.contentDocument.querySelector('.softmax .panel input');
    input.value = to === 'end' ? input.max : to;
    input.dispatchEvent(new Event('input'));
  };
  frame.width = width;
  await open('problems/03/README.html');
  slide(0);
  says('softmax', /^Before the first tile/, 'the start');
  slide(5);
  says('softmax', /^rescale: a = exp2\(0.7213 − 1.1542\) = 0.7408/, 'the second rescale');
  slide('end');
  says('softmax', /0.4421, 0.5579\], L = .* = 1.6053/, "the end is the lesson's");
  await open('problems/01/README.html');
  frame.contentDocument.querySelector('.softmax input[type=checkbox]').click();
  says('softmax', /Here O goes wrong.$/, 'the mistake is named where it begins');
  slide('end');
  says('softmax', /parts of O sum to 1.6617, not to 1./, 'and how wrong it is at the end');
}

// The still pictures of the figure that no other program draws.
function stills({figures, flat, markup}, css) {
  css = css.split('/* page */')[0]
          .replace(/\n:root:has\(body.*?\n\}/s, '')
          .replace(':root:not(:has(body[data-theme="light"]))', ':root');
  const figure = figures.find(f => f.name === 'softmax');
  for (const preset of figure.presets) {
    const view = figure.view(figure.state(preset), 560), width = view.width + 16, height = view.height + 16;
    const lines = [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 ${width} ${height}" width="${width}" height="${height}">`,
      `<title>${view.words}</title>`, `<style>${css.replace(/\n\s*/g, ' ')}</style>`,
      `<rect x="-8" y="-8" width="${width}" height="${height}" fill="var(--paper)"/>`, ...flat(view.svg).map(markup),
      '</svg>', ''
    ];
    say(`still softmax_${preset}.svg ${btoa(String.fromCharCode(...new TextEncoder().encode(lines.join('\n'))))}`);
  }
}

(async () => {
  frame.height = 900, frame.style.border = 0;
  await look_at_pages();
  await look_around();
  for (const width of [380, 1200]) await look_at_figures(width);
  const book = frame.contentWindow.eval('book');
  softmax_numbers(book.softmax);
  stills(book, given.css);
  say('done');
})();
