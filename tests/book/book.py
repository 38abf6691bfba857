"""The built book in headless chromium, driven through its debugging pipe, without a library.

    book.py BROWSER SITE TABLES PLOTS [PICTURES]    looks at the site; prints a line a proof. TABLES: what softmax.c and mask.c print, one file
                                                    each; PLOTS: has the still pictures, PLOTS/softmax_NN.svg
    book.py BROWSER SITE --stills PLOTS             draws these anew
"""
import base64
import html.parser
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote

browser, site = sys.argv[1], Path(sys.argv[2]).resolve()
failed = 0


def verdict(good, what, said=""):
    global failed
    print("ok    " + what if good else f"FAIL  {what}: {said}", flush=True)
    failed += not good


class Chromium:
    """One page. Commands go through file 3 of the browser, answers and events come from its file 4, each ended by a 0."""

    def __init__(self, program, profile):
        from_us, to_it = os.pipe()
        from_it, to_us = os.pipe()

        def place():
            os.dup2(os.dup(from_us), 100), os.dup2(os.dup(to_us), 101)
            os.dup2(100, 3), os.dup2(101, 4)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe", f"--user-data-dir={profile}",
             "about:blank"], preexec_fn=place, close_fds=False, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(from_us), os.close(to_us)
        self.to, self.come, self.rest, self.number, self.session, self.events = to_it, from_it, b"", 0, None, []
        page = self("Target.createTarget", url="about:blank")["targetId"]
        self.session = self("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self(domain + ".enable")

    def message(self):
        while b"\0" not in self.rest:
            more = select.select([self.come], [], [], 60)[0] and os.read(self.come, 1 << 20)
            if not more:
                raise SystemExit("FAIL  the browser has ended, or says nothing for a minute")
            self.rest += more
        text, self.rest = self.rest.split(b"\0", 1)
        return json.loads(text)

    def __call__(self, method, **params):
        self.number += 1
        command = {"id": self.number, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.to, json.dumps(command).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            self.events.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def run(self, code):
        result = self("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{code}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def open(self, page, scripts=True):
        begun = len(self.events)
        self("Page.navigate", url=f"file://{site}/{page}")
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events[begun:]):
            self.events.append(self.message())
        if scripts:
            self.run("new Promise(done => requestAnimationFrame(() => setTimeout(done, 30)))")

    def key(self, name, times=1):
        code = {"ArrowRight": 39, "ArrowLeft": 37, "Home": 36, "End": 35}[name]
        for _ in range(times):
            for kind in ("keyDown", "keyUp"):
                self("Input.dispatchKeyEvent", type=kind, key=name, code=name, windowsVirtualKeyCode=code)

    def touch(self, selector):
        x, y = self.run(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{ block: 'center', behavior: 'instant' }}); "
                        "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        self("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
        time.sleep(0.1)

    def look(self, width, dark, motion=True):
        self("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self("Emulation.setTouchEmulationEnabled", enabled=width < 500)
        self("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
                                                     {"name": "prefers-reduced-motion", "value": "no-preference" if motion else "reduce"}])

    def picture(self, path, selector=None):
        clip = {}
        if selector:
            self.run(f"document.querySelector({json.dumps(selector)}).scrollIntoView({{ block: 'center', behavior: 'instant' }})")
            time.sleep(0.5)
        path.write_bytes(base64.b64decode(self("Page.captureScreenshot", format="png", **clip)["data"]))

    def end(self):
        self.process.kill()
        self.process.wait()


# ------------------------------------------------------------------------------------------------------------------- links
class Links(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.ids, self.links = set(), []
        self.feed(path.read_text())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.ids.update(attrs[name] for name in ("id", "name") if name in attrs)
        self.links += [attrs[name] for name in ("href", "src") if attrs.get(name)]


def check_links():
    pages = {path: Links(path) for path in site.rglob("*.html")}
    broken, count = [], 0
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link):
                continue
            count += 1
            file, _, name = unquote(link).partition("#")
            to = (path.parent / file.split("?")[0]).resolve() if file else path
            if not to.is_file() or name and to in pages and name not in pages[to].ids:
                broken.append(f"{path.relative_to(site)}: {link}")
    verdict(not broken and count > 1000, f"{count} links of {len(pages)} pages lead somewhere", "; ".join(broken[:20]))


# ------------------------------------------------------------------------------------------------------------------- pages
def check_pages(page):
    written = sorted(str(p.relative_to(site)) for p in site.rglob("*.html") if p.relative_to(site).parts[0] not in ("files", "_static"))
    for width, dark in ((380, False), (800, True), (1200, False)):
        page.look(width, dark)
        wide = []
        for name in written:
            page.open(name)
            # What is wider than its column scrolls in itself, and never the page.
            if page.run("document.documentElement.scrollWidth") > width:
                wide.append(f"{name} {page.run('document.documentElement.scrollWidth')}")
        verdict(not wide, f"{len(written)} pages, {width} pixels wide, {'dark' if dark else 'light'}: nothing juts out", ", ".join(wide))
    page.open("search.html?q=rescale")
    found = []
    for _ in range(50):
        found = page.run("[...document.querySelectorAll('#search-results li a')].map(a => a.getAttribute('href'))")
        if any("problems/03" in f for f in found):
            break
        time.sleep(0.1)
    verdict(any("problems/01" in f for f in found) and any("problems/03" in f for f in found), "a search for rescale finds lessons 01 and 03", str(found))
    page.open("problems/04/README.html")
    around = page.run("[...document.querySelectorAll('.related-pages a')].map(a => a.getAttribute('href'))")
    verdict(around == ["../05/README.html", "../03/README.html"], "04 leads to the next lesson and the one before", str(around))


# ----------------------------------------------------------------------------------------------------------------- figures
def check_numbers(page, tables):
    page.open("problems/10/README.html")
    page.run(Path(__file__).with_name("numbers.js").read_text())
    result = page.run(f"numbers({json.dumps({p.name: p.read_text() for p in tables.iterdir()})})")
    verdict(not result["wrong"] and result["checked"] > 5000, f"{result['checked']} numbers of the figures are those of the programs", "; ".join(result["wrong"][:5]))


def check_figures(page, pictures):
    def words(name):
        return page.run(f"document.querySelector('.{name} .words').textContent")

    def says(name, pattern, what):
        verdict(re.search(pattern, words(name)), f"{what} ({width}, {'dark' if dark else 'light'})", words(name))

    def shot(name):
        if pictures:
            page.picture(pictures / f"{name}_{width}_{'dark' if dark else 'light'}.png", f".{name.split('_')[0]}")

    for width, dark in ((380, False), (380, True), (800, True), (1200, False), (1200, True)):
        page.look(width, dark, motion=not dark)
        page.open("problems/03/README.html")
        page.run("document.querySelector('.softmax .panel input').focus()")
        page.key("Home")
        says("softmax", "^Before the first tile", "softmax: the start")
        page.key("ArrowRight", 5)
        says("softmax", "^rescale: a = exp2\\(0.7213 \u2212 1.1542\\) = 0.7408", "softmax: five keys to the second rescale")
        page.key("End")
        says("softmax", "0.4421, 0.5579\\], L = .* = 1.6053", "softmax: the end is the lesson's")
        page.open("problems/01/README.html")
        moves = page.run("getComputedStyle(document.querySelector('.softmax svg rect')).transitionDuration") != "0s"
        verdict(moves == (not dark), "softmax: moves unless less motion is wanted")
        page.touch(".softmax input[type=checkbox]") if width == 380 else page.run("document.querySelector('.softmax input[type=checkbox]').click()")
        says("softmax", "Here O goes wrong.$", "softmax: the mistake is named where it begins")
        shot("softmax")
        page.run("document.querySelector('.softmax .panel input').focus()")
        page.key("End")
        says("softmax", "parts of O sum to 1.6617, not to 1.", "softmax: and how wrong it is at the end")
        page.open("problems/07/README.html")
        says("mask", "^63 of 144 pairs", "mask: the lesson's 63 pairs")
        side = page.run("document.querySelector('.mask .side').innerText")
        verdict(re.search("first = 1.*sink_end = 1.*full = 3.*end = 4", side, re.S), "mask: rows 8 to 11 as in the lesson", side)
        shot("mask")
        page.run("(() => { const f = book.made.mask_07; Object.assign(f.state, { kind: 'tree', N: 64, BR: 16, BC: 8, size: 14, row: 2 }); f.draw(); })()")
        shot("mask_tree")
        page.open("problems/10/README.html")
        shot("timeline")
        next_wait = ".timeline .panel > button:nth-of-type(2)"
        page.touch(next_wait) if width == 380 else page.run(f"document.querySelector('{next_wait}').click()")
        says("timeline", "waits \\d+ for .*It goes on when", "timeline: a wait says for whom")
        shot("timeline_wait")
        verdict(page.run("document.documentElement.scrollWidth") <= width, "timeline: nothing juts out")
    page("Emulation.setScriptExecutionDisabled", value=True)
    page.open("problems/07/README.html", scripts=False)
    verdict(page.run("document.querySelector('img[src*=mask_07]').naturalWidth > 300"), "without script the still picture is there")
    page("Emulation.setScriptExecutionDisabled", value=False)


def stills(page):
    """The still pictures of figures that no other program draws: name and text."""
    css = re.split(r"/\* page \*/", (site / "_static/figures.css").read_text())[0]
    css = re.sub(r"\n:root:has\(body.*?\n\}", "", css, flags=re.S).replace(':root:not(:has(body[data-theme="light"]))', ":root")
    css = re.sub(r"\n\s*", " ", css)
    page.open("problems/10/README.html")
    for preset in ("01", "03"):
        width, height, words, drawn = page.run(
            "(() => { const f = book.figures.find(f => f.name === 'softmax'), v = f.view(f.state('" + preset + "'), 560); "
            "return [v.width, v.height, v.words, book.flat(v.svg).map(book.markup).join('\\n')]; })()")
        box = f"-8 -8 {width + 16} {height + 16}"
        yield f"softmax_{preset}.svg", (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" width="{width + 16}" height="{height + 16}">\n<title>{words}</title>\n'
            f'<style>{css}</style>\n<rect x="-8" y="-8" width="{width + 16}" height="{height + 16}" fill="var(--paper)"/>\n{drawn}\n</svg>\n')


with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
    page = Chromium(browser, profile)
    try:
        if sys.argv[3] == "--stills":
            for name, text in stills(page):
                (Path(sys.argv[4]) / name).write_text(text)
            sys.exit(0)
        check_links()
        check_pages(page)
        check_numbers(page, Path(sys.argv[3]))
        check_figures(page, Path(sys.argv[5]) if len(sys.argv) > 5 else None)
        for name, text in stills(page):
            path = Path(sys.argv[4]) / name
            verdict(path.is_file() and path.read_text() == text, f"{path} is what the figure draws", "tests/book.sh --stills draws it anew")
        bad = [e["params"] for e in page.events if e.get("method") == "Runtime.exceptionThrown"
               or e.get("method") == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"
               or e.get("method") == "Runtime.consoleAPICalled" and e["params"]["type"] == "error"]
        verdict(not bad, "no page complains", json.dumps(bad[:2]))
        asked = {e["params"]["request"]["url"] for e in page.events if e.get("method") == "Network.requestWillBeSent"}
        verdict(not any(url.startswith("http") for url in asked), "nothing is asked of the network", " ".join(sorted(asked)[:3]))
    finally:
        page.end()
sys.exit(failed > 0)
