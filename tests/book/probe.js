// probe.js - looks at the built book, in a page that opens each of its pages in a frame. book.sh writes that page,
// which knows given: { site, files, css }, and reads what is said here: a line a proof, "ok" or "FAIL", and
// "still NAME BASE64".
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
  const doc = await open('search.html?q=what+is+rescale');
  const found = () => doc.querySelector('#search-results')?.innerHTML || '';
  for (let tries = 0; tries < 50 && !found().includes('problems/03'); tries++) await soon();
  const first = doc.querySelector('#search-results a')?.getAttribute('href') === 'problems/glossary.html#rescale';
  verdict(first && /problems\/01/.test(found()) && /problems\/03/.test(found()),
    'a search for what is rescale finds the word and lessons 01 and 03', found());
}

// ------------------------ figures
// What lessons say of their figures, at the width of a phone and of a screen; and each control does what it is for.
async function look_at_figures(width) {
  const words = name => frame.contentDocument.querySelector(`.${name} .words`).textContent;
  const says = (name, pattern, what) =>
    verdict(pattern.test(words(name)), `${name}, ${width} wide: ${what}`, words(name));
  const slide = (to, label = 'Step') => {
    const labels = [...frame.contentDocument.querySelectorAll('.moving label')];
    const input = labels.find(l => l.textContent.includes(label)).querySelector('input');
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
  await open('problems/19/README.html');
  says('fragments', /^Lane 13 .* supplies row 13, columns 0 to 7; .* in one pass.$/, "the lesson's lane");
  slide(22, 'Lane');
  frame.contentDocument.querySelectorAll('.fragments select')[1].selectedIndex = 0;
  frame.contentDocument.querySelectorAll('.fragments select')[1].dispatchEvent(new Event('change'));
  says('fragments', /^Lane 22 holds .5, 4.* in 8 passes.$/, 'another, without a swizzle');
  await open('problems/17/README.html');
  slide('end');
  says('ring', /as 8 whole .* no rank waits.* 131072 .* 384 of 384 MiB.$/, "what 18's lesson says of 17");
  frame.contentDocument.querySelectorAll('.ring input[type=checkbox]')[1].click();
  says('ring', /as 14 whole .* rank 0 computes nothing for 12 of them/, 'chunks in order');
  slide(8, 'Ranks');
  says('ring', /as 30 whole/, 'on eight ranks');
  await open('problems/18/README.html');
  slide('end');
  says('ring', /return to their owner. .* takes 1, all of it under products of step 4. .* of 1408 MiB/, 'the way home');
  frame.contentDocument.querySelectorAll('.ring input[type=checkbox]')[1].click();
  says('ring', /and 1 of that on rank 0 under no product/, 'with nothing over it');
}

// The still pictures, which no other program draws.
function stills(name, {figures, flat, markup}, css) {
  css = css.split('/* page */')[0]
          .replace(/\n:root:has\(body.*?\n\}/s, '')
          .replace(':root:not(:has(body[data-theme="light"]))', ':root');
  const figure = figures.find(f => f.name === name);
  for (const preset of figure.presets) {
    const view = figure.view(figure.state(preset), 560), width = view.width + 16, height = view.height + 16;
    const lines = [
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="-8 -8 ${width} ${height}" width="${width}" height="${height}">`,
      `<title>${view.words}</title>`, `<style>${css.replace(/\n\s*/g, ' ')}</style>`,
      `<rect x="-8" y="-8" width="${width}" height="${height}" fill="var(--paper)"/>`, ...flat(view.svg).map(markup),
      '</svg>', ''
    ];
    say(`still ${name}_${preset}.svg ${btoa(String.fromCharCode(...new TextEncoder().encode(lines.join('\n'))))}`);
  }
}

(async () => {
  frame.height = 900, frame.style.border = 0;
  await look_at_pages();
  await look_around();
  for (const width of [380, 1200]) await look_at_figures(width);
  for (const [name, page] of [['softmax', '01'], ['ring', '17'], ['fragments', '19']]) {
    await open(`problems/${page}/README.html`);
    stills(name, frame.contentWindow.eval('book'), given.css);
  }
  say('done');
})();
