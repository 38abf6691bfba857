"""The book: the repository's own Markdown, and what Markdown on GitHub cannot say. book.sh starts Sphinx with this
file, in a copy of the repository. What lies in solutions/ is not shown."""
import os
import re
import subprocess
from pathlib import Path

import ziamath
from docutils import nodes
from pygments.lexers import get_lexer_for_filename
from pygments.util import ClassNotFound
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

project = html_title = "The FlashAttention workbook"
extensions = ["myst_parser"]
root_doc = "index"  # made of cover.md
of_teachers = ["workbook/class/README.md", "workbook/class/threats.md"]
exclude_patterns = ["AGENTS.md", "**/shipped", "problems/cover.md", *of_teachers]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = {"math"}  # GitHub shows ```math as an equation too, and leaves its backslashes alone
myst_heading_anchors = 4
suppress_warnings = ["myst.header", "toc.not_included"]  # a page may be reached by links alone
highlight_language = "text"
html_theme = "furo"
html_math_renderer = "svg"
html_static_path = ["_static"]
html_css_files = ["book.css", "figures.css"]
html_copy_source = html_show_sphinx = html_show_copyright = False
html_search_scorer = str(Path(__file__).with_name("search.js"))
html_show_search_summary = False  # from the disk a page may not read others
pygments_style, pygments_dark_style = "default", "github-dark"


# Headers of primitives, and where a lesson begins to use them.
HEADERS = {"tile": "03", "hopper": "10", "paged": "13", "int8": "14", "e4m3": "16"}


def after_its_words(page):
    """The order of lessons; a page on Hopper, for those who have done 10, comes after them all."""
    return page.endswith("hopper.md"), page[9:11], not page.endswith("README.md"), page


def chapters(root):
    """The book's parts in their order; what a class's copy lacks is left out."""
    parts = {
        "Begin": ["problems/README.md", "problems/glossary.md", "problems/when-it-is-wrong-but-runs.md",
                  "problems/with-a-gpu.md", "problems/ladder.md"],
        "Problems": [*sorted((str(p.relative_to(root)) for p in root.glob("problems/[0-9][0-9]/*.md")),
                             key=after_its_words), "problems/lab.md", "problems/capstone/README.md",
                     "problems/capstone/ranks.md"],
        "Words": [f"words/{header}.md" for header in HEADERS],
        "How fast": ["plots/h200.md", "plots/README.md"],
        "The library": ["solutions/README.md", "reference/README.md", "workbook/compatibility.md"],
        "Carrying on": ["README.md", "workbook/README.md", "tests/README.md", "CHANGELOG.md"],
    }
    for name, pages in parts.items():
        pages = ["The repository <README>" if p == "README.md" else p[:-3] for p in pages if (root / p).is_file()]
        if pages:
            yield f"\n```{{toctree}}\n:caption: {name}\n:hidden:\n\n" + "\n".join(pages) + "\n```\n"


# ------------------------ pages for which there is no Markdown


def make_pages(root):
    """Of each header a page that shows it; and of cover.md the first page, with the map and the table of problems."""
    (root / "words").mkdir()
    for header, problem in HEADERS.items():
        file = next(root.glob(f"workbook/**/{header}.cuh")).relative_to(root)
        (root / f"words/{header}.md").write_text(
            f"# {header}.cuh\n\nWhat lessons from {problem} on call words.\n\n"
            f"```{{literalinclude}} ../{file}\n:language: cuda\n```\n")
    # The numbers on the map lead to their lessons. No space is lost where it has several.
    drawing = re.search(r"<!-- map: .*?```text\n(.*?)```", (root / "problems/README.md").read_text(), re.S)[1]
    drawing = re.sub(r"\d\d", lambda n: f"[{n[0]}](problems/{n[0]}/README.md)" if (root / f"problems/{n[0]}").is_dir()
                     else n[0], drawing.replace(" ", "\u00a0"))
    table = re.findall(r"^\| (?:# |\[\d\d\]).*\n(?:\|---.*\n)?", (root / "README.md").read_text(), re.M)
    cover = re.sub(r"\]\((\.\./)?", lambda up: "](" if up[1] else "](problems/",
                   (root / "problems/cover.md").read_text())
    (root / "index.md").write_text(cover.replace("<!-- map -->", f"```{{parsed-literal}}\n{drawing}```")
                                   .replace("<!-- problems -->", "".join(table)))


def file_of(root, number):
    stem = next(root.glob(f"tests/{number}_*.c")).stem[3:]
    return next(root.glob(f"problems/{number}/{stem}.c*")).relative_to(root)


# ------------------------ Markdown
# Under the sentence that says how long a step is, the step from skeleton to skeleton, as they were shipped.
STEP = re.compile(r"^The step from (\d\d) changes .*; `make step-(\d\d)` shows them\.$", re.M)


def step(root, match):
    old, new = (file_of(root, number) for number in match.groups())
    lines = subprocess.run(["diff", "-U", "3", "--label", old, "--label", new, old, new],
                           capture_output=True, text=True, cwd=root).stdout
    return "\n".join([match[0], "", f"<details><summary>From {match[1]} to {match[2]}</summary>", "", "```diff",
                      lines.rstrip("\n"), "```", "", "</details>", ""])


# <!-- code: FILE, from TEXT, to TEXT --> (or: before TEXT) and the fence under it, which GitHub shows.
# The book takes the file itself.
CODE = re.compile(r"<!-- code: (\S+), from (.+?), (to|before) (.+?) -->\n```(\w+)\n.*?```\n", re.S)


def include(match):
    file, begin, word, end, language = match.groups()
    at = "at" if word == "to" else "before"
    return (f"```{{literalinclude}} {file}\n:language: {language}\n:start-at: '{begin}'\n:end-{at}: '{end}'\n"
            f":lineno-match:\n:dedent:\n:caption: {os.path.basename(file)}\n```\n")


def read_source(app, name, source):
    source[0] = CODE.sub(include, STEP.sub(lambda match: step(app.srcdir, match), source[0]))
    source[0] = re.sub(r"!\[[^]]*\]", lambda name: name[0].replace("\n", " "), source[0])
    if name == root_doc:
        source[0] += "".join(chapters(Path(app.srcdir)))


class Captions(SphinxTransform):
    """A paragraph that is one picture becomes a figure. Its caption is the paragraph under it, if that is all emphasis,
    or else what the picture is called."""
    default_priority = 400

    def apply(self):
        for number, picture in enumerate(list(self.document.findall(nodes.image)), 1):
            p = picture.parent
            if not isinstance(p, nodes.paragraph) or len(p) != 1:
                continue
            after = p.next_node(descend=False, siblings=True)
            figure = nodes.figure("", picture.deepcopy(), ids=[f"figure-{number}"])
            if isinstance(after, nodes.paragraph) and len(after) == 1 and isinstance(after[0], nodes.emphasis):
                figure += nodes.caption("", "", *[c.deepcopy() for c in after[0].children])
                after.parent.remove(after)
            else:
                figure += nodes.caption("", picture["alt"])
                figure["classes"] = ["named"]
            p.replace_self(figure)


class Drawings(SphinxTransform):
    """How wide one is, for book.css: on a narrow screen it is drawn smaller, and whole."""
    default_priority = 402

    def apply(self):
        for block in self.document.findall(nodes.literal_block):
            if block.get("language", "text") == "text":
                block["classes"].append(f"wide-{max(map(len, block.astext().splitlines())) // 10}")


# ------------------------ files
# A link to a file that is no page leads to one that shows it; to a folder, or to a key, it is none.
class Files(SphinxTransform):
    default_priority = 401

    def apply(self):
        folder, root = os.path.dirname(self.env.docname), Path(self.env.srcdir)
        whole = (root / "solutions").is_dir()  # a class's copy lacks some of what texts link to
        for link in list(self.document.findall(nodes.Element)):
            download = isinstance(link, addnodes.download_reference)
            if link.get("refdomain") == "doc" and f"{link['reftarget'].lstrip('/')}.md" in of_teachers:
                link.replace_self(link.children)
            if not download and (link.get("reftype") != "myst" or link.get("refdomain") == "doc"):
                continue
            path = os.path.normpath(os.path.join(folder, link["reftarget"].split("#")[0]))
            if ((root / path).is_dir() or path in of_teachers or not whole and not (root / path).exists()
                    or path.startswith("solutions/")):
                link.replace_self(link.children)
            elif download:
                self.env.shown_files.setdefault(self.env.docname, set()).add(path)
                to = f"words/{Path(path).stem}"
                has_words = path.endswith(".cuh") and (root / f"{to}.md").is_file()
                uri = os.path.relpath(f"{to if has_words else f'files/{path}'}.html", folder)
                link.replace_self(nodes.reference("", "", *link.children, refuri=uri, internal=True))


def start(app, env, *_):
    if not hasattr(env, "shown_files"):
        env.shown_files = {}


def file_pages(app):
    for path in sorted(set().union(*app.env.shown_files.values())):
        text = (Path(app.srcdir) / path).read_text()
        try:
            language = "cuda" if path.endswith((".cu", ".cuh")) else get_lexer_for_filename(path).aliases[0]
        except ClassNotFound:
            language = "text"
        body = app.builder.highlighter.highlight_block(text, language, force=True, linenos="inline", location=path)
        yield f"files/{path}", {"title": path, "body": f"<h1>{path}</h1>\n{body}"}, "page.html"


# ------------------------ figures
# A page with a picture of a figure that moves gets its script.
MOVING = re.compile(r"(softmax|ring|fragments)_\d\d\.svg$")


def scripts(app, page, template, context, doctree):
    pictures = doctree.findall(nodes.image) if app.builder.name == "html" and doctree else []
    for name in sorted({match[1] for image in pictures if (match := MOVING.search(image["uri"]))}):
        app.add_js_file("figures.js")
        app.add_js_file(f"{name}.js")


# ------------------------ equations
# Drawn when the book is built: no script, and no font that a reader may lack.
def equation(self, node, block):
    mathml = ziamath.tex.tex2mml(node.astext(), inline=not block)
    rows_apart = re.sub(r'rowspacing="[^"]*"', 'rowspacing="0.8em"', mathml)
    drawn = ziamath.Math(rows_apart, size=18 if block else 16.5)
    svg = drawn.svg().replace("<svg ", f'<svg role="img" aria-label="{self.attval(node.astext())}" ', 1)
    svg = svg.replace('fill="black"', 'fill="currentColor"').replace('stroke="black"', 'stroke="currentColor"')
    if block:
        self.body.append(f'<div class="equation">{svg}</div>')
    else:
        self.body.append(svg.replace("<svg ", f'<svg style="vertical-align: {drawn.getyofst():.1f}px" ', 1))
    raise nodes.SkipNode


def setup(app):
    make_pages(Path(app.srcdir))
    app.add_html_math_renderer("svg", inline_renderers=(lambda s, n: equation(s, n, False), None),
                               block_renderers=(lambda s, n: equation(s, n, True), None))
    app.add_transform(Captions)
    app.add_transform(Drawings)
    app.add_transform(Files)
    app.connect("source-read", read_source)
    app.connect("env-before-read-docs", start)
    app.connect("html-collect-pages", file_pages)
    app.connect("html-page-context", scripts)
