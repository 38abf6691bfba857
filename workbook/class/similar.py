#!/usr/bin/env python3
"""similar.py OUT [NN] - the pairs of a graded class whose work is most alike, those to read first on top. A ranking, no verdict.

Compared is what grade.sh took (OUT/reports/NAME/sources), without the lines that the skeleton has too, whatever names, spaces and comments
are. A pair's share: of the shorter one's runs of 8 tokens those which the other has. All pairs go to OUT/similar.csv, 20 are shown.
Exit status: 0; 1 there is nothing to compare; 2 usage.
"""
import csv
import glob
import itertools
import os
import re
import sys

sys.dont_write_bytecode = True
from roster import shown

RUN = 8
FALSE_FRIENDS = """similar: this says what to read, not who copied. A few lines have few right answers: in 03 an honest variant shares 65 % of
  the key. What the lesson prints and what a pair may hand in together is alike, too; nor is anything seen of who wrote first."""


def own_lines(skeleton, source):
    """What a source has and the skeleton has not."""
    lines = lambda path: open(path, encoding="utf-8", errors="replace").read().splitlines()
    shipped = {"".join(line.split()) for line in lines(skeleton)}
    return [line for line in lines(source) if "".join(line.split()) not in shipped]


def runs(lines):
    """Runs of 8 tokens: a name is a name, whatever it is; comments are none."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", "\n".join(lines), flags=re.S)
    tokens = ["n" if re.match(r"[A-Za-z_]", token) else "0" if token[0].isdigit() else token
              for token in re.findall(r'[A-Za-z_]\w*|\d[\w.]*|"(?:\\.|[^"\\\n])*"|\S', text)]
    return {tuple(tokens[i : i + RUN]) for i in range(len(tokens) - RUN + 1)}


def compare(number, skeleton, reports):
    """[share, lines of the shorter, number, name, name] of each pair that has a share."""
    work = []
    for name, folder in reports.items():
        source = os.path.join(folder, number)
        own = own_lines(skeleton, source) if os.path.isfile(source) else []
        if found := runs(own):
            work.append((name, len(own), found))
    for (one, lines, a), (other, more, b) in itertools.combinations(work, 2):
        if share := 100 * len(a & b) // min(len(a), len(b)):
            yield [share, min(lines, more), number, one, other]


def main(out, wanted=None):
    reports = {shown(os.fsencode(name).decode("utf-8", "backslashreplace")): f"{out}/reports/{name}/sources"
               for name in sorted(os.listdir(out + "/reports") if os.path.isdir(out + "/reports") else [])}
    pairs = []
    for skeleton in sorted(glob.glob(out + "/base/problems/[0-9][0-9]/*.c*")):  # as it was shipped
        number = skeleton.split("/")[-2]
        if wanted in (None, "", number):
            pairs += compare(number, skeleton, reports)
    if not pairs:
        print(f"similar: nothing is alike in {out}/reports{', problem ' + wanted if wanted else ''}, or nothing is graded there", file=sys.stderr)
        return 1
    pairs.sort(key=lambda pair: (-pair[0], -pair[1], pair))
    table = [["share", "lines", "problem", "one", "other"], *pairs]
    with open(out + "/similar.csv", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(table)
    for share, lines, number, one, other in table[:21]:
        print(f"{share:>5}  {lines:>5}  {number:>7}  {one}  {other}")
    print(f"similar: {len(pairs)} pairs in {out}/similar.csv")
    print(FALSE_FRIENDS)
    return 0


if __name__ == "__main__":
    os.umask(0o077)
    if len(sys.argv) not in (2, 3):
        print(__doc__, file=sys.stderr)
        sys.exit(2)
    sys.exit(main(*sys.argv[1:]))
