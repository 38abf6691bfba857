"""pages.py SOURCE - makes what the repository has no Markdown for: of each header of words a page that shows it, in
each lesson the step to it as the first figure, and of cover.md, the map and the table of problems the book's first
page."""
import re
import subprocess
import sys
from pathlib import Path

source = Path(sys.argv[1])
# And where a lesson begins to use them.
HEADERS = {"tile": "03", "hopper": "10", "paged": "13", "int8": "14", "e4m3": "16"}


(source / "words").mkdir()
for header, problem in HEADERS.items():
    file = next(source.glob(f"workbook/**/{header}.cuh")).relative_to(source)
    (source / f"words/{header}.md").write_text(
        f"# {header}.cuh\n\nWhat lessons from {problem} on call words.\n\n"
        f"```{{literalinclude}} ../{file}\n:language: cuda\n```\n")


def file_of(number):
    stem = next(source.glob(f"tests/{number}_*.c")).stem[3:]
    file = next(p for end in ("cu", "c") if (p := source / f"problems/{number}/{stem}.{end}").is_file())
    return file.relative_to(source)


# Under the sentence that says how long a step is, the step from skeleton to skeleton, as they were shipped.
def step(match):
    old, new = (file_of(number) for number in match.groups())
    lines = subprocess.run(["diff", "-U", "3", "--label", old, "--label", new, old, new],
                           capture_output=True, text=True, cwd=source).stdout
    return "\n".join([match[0], "", f"<details><summary>From {match[1]} to {match[2]}</summary>", "", "```diff",
                      lines.rstrip("\n"), "```", "", "</details>", ""])


for lesson in source.glob("problems/[0-9][0-9]/README.md"):
    lesson.write_text(re.sub(r"^The step from (\d\d) changes .*; `make step-(\d\d)` shows them\.$", step,
                             lesson.read_text(), flags=re.M))

# The numbers on the map lead to their lessons. No space is lost where it has several.
drawing = re.search(r"<!-- map: .*?```text\n(.*?)```", (source / "problems/README.md").read_text(), re.S)[1]
drawing = re.sub(r"\d\d", lambda n: f"[{n[0]}](problems/{n[0]}/README.md)" if (source / f"problems/{n[0]}").is_dir()
                 else n[0], drawing.replace(" ", "\u00a0"))
table = re.findall(r"^\| (?:# |\[\d\d\]).*\n(?:\|---.*\n)?", (source / "README.md").read_text(), re.M)
cover = re.sub(r"\]\((\.\./)?", lambda up: "](" if up[1] else "](problems/", (source / "problems/cover.md").read_text())
(source / "index.md").write_text(cover.replace("<!-- map -->", f"```{{parsed-literal}}\n{drawing}```")
                                 .replace("<!-- problems -->", "".join(table)))
