"""pages.py SOURCE KEYS - makes the pages that the repository has no Markdown for: of each header of words one that
shows it, and, if KEYS is yes, of each problem a page of its wrong solutions."""
import re
import sys
from pathlib import Path

source, keys = Path(sys.argv[1]), sys.argv[2] == "yes"
# And where a lesson begins to use them.
HEADERS = {"tile": "03", "hopper": "10", "paged": "13", "int8": "14", "e4m3": "16"}


def plain(text):
    return re.sub(r"([*<>_|\[\]])", r"\\\1", text)


(source / "words").mkdir()
for header, problem in HEADERS.items():
    file = next(source.glob(f"workbook/**/{header}.cuh")).relative_to(source)
    (source / f"words/{header}.md").write_text(
        f"# {header}.cuh\n\nWhat lessons from {problem} on call words.\n\n"
        f"```{{literalinclude}} ../{file}\n:language: cuda\n```\n")

if keys:
    (source / "wrong").mkdir()
    for number in sorted(p.parent.name for p in source.glob("solutions/*/wrong.diff")):
        lesson = f"[problem {number}](../problems/{number}/README.md)"
        page = [f"# {number} · Wrong solutions", "", f"Edits of the key of {lesson} that its suite must reject.", ""]
        for entry in re.split(r"^@@ ", (source / f"solutions/{number}/wrong.diff").read_text(), flags=re.M)[1:]:
            name, tests, why = re.match(r"(\S+)(?: \((.*?)\))?:? ?(.*)", entry.split("\n")[0]).groups()
            lines = entry.rstrip("\n").split("\n")[1:]
            edit = next((k for k, line in enumerate(lines) if line.startswith(("-", "+", " ", "~"))), len(lines))
            page += [f"## `{name}`", "", plain(" ".join([why, *lines[:edit]])), ""]
            test, _, named = (tests or "").partition(", ")
            if test:
                page += [f"Caught by `{test}`" + (f"; diagnose names `{named}`." if named.strip("-") else "."), ""]
            page += ["```diff", *lines[edit:], "```", ""]
        (source / f"wrong/{number}.md").write_text("\n".join(page))
