"""pages.py SOURCE KEYS - makes what the repository has no Markdown for: of each header of words a page that shows it,
in each lesson the step to it as the first figure, of cover.md, the map and the table of problems the book's first page,
and, if KEYS is yes, of each problem a page of its wrong solutions."""
import re
import subprocess
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


def file_of(folder, number):
    stem = next(source.glob(f"tests/{number}_*.c")).stem[3:]
    return next(p for end in ("cu", "c") if (p := source / folder / number / f"{stem}.{end}").is_file())


# Under the sentence that says how long a step is, the step: from skeleton to skeleton, as they were shipped, and, if
# KEYS is yes, from key to key; one under the other, since a page has no room for two beside one another.
def step(match):
    figure = [match[0], ""]
    for folder, what in [("problems", "what you are given"), ("solutions", "the two reference solutions")][:1 + keys]:
        old, new = (file_of(folder, number).relative_to(source) for number in match.groups())
        lines = subprocess.run(["diff", "-U", "3", "--label", old, "--label", new, old, new],
                               capture_output=True, text=True, cwd=source).stdout
        figure += [f"<details><summary>From {match[1]} to {match[2]}: {what}</summary>", "", "```diff",
                   lines.rstrip("\n"), "```", "", "</details>", ""]
    return "\n".join(figure)


for lesson in source.glob("problems/[0-9][0-9]/README.md"):
    lesson.write_text(re.sub(r"^The step from (\d\d) changes .*; `make step-(\d\d)` shows them\.$", step, lesson.read_text(),
                             flags=re.M))

# The numbers on the map lead to their lessons. No space is lost where it has several.
drawing = re.search(r"<!-- map: .*?```text\n(.*?)```", (source / "problems/README.md").read_text(), re.S)[1]
drawing = re.sub(r"\d\d", lambda n: f"[{n[0]}](problems/{n[0]}/README.md)" if (source / f"problems/{n[0]}").is_dir()
                 else n[0], drawing.replace(" ", "\u00a0"))
table = re.findall(r"^\| (?:# |\[\d\d\]).*\n(?:\|---.*\n)?", (source / "README.md").read_text(), re.M)
cover = re.sub(r"\]\((\.\./)?", lambda up: "](" if up[1] else "](problems/", (source / "problems/cover.md").read_text())
(source / "index.md").write_text(cover.replace("<!-- map -->", f"```{{parsed-literal}}\n{drawing}```")
                                 .replace("<!-- problems -->", "".join(table)))

if keys:
    (source / "wrong").mkdir()
    for number in sorted(p.parent.name for p in source.glob("solutions/*/wrong.diff")):
        lesson = f"[problem {number}](../problems/{number}/README.md)"
        page = [f"# {number} · Wrong solutions", "", f"Edits of the reference solution of {lesson} that its suite must reject.", ""]
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
