#!/bin/sh
# tables.sh - what is made of a class's grades: a roster's import files, from rosters that are drawn (SEED=n, another each time if not
# given), and the list of who is alike. Exit status: 0, or 1 after saying what is wrong.
set -u
cd "$(dirname "$0")/../.." || exit 1
command -v python3 >/dev/null || { echo "skip  rosters and similar work: there is no python3"; exit 0; }
scratch=$(mktemp -d) && mkdir "$scratch/base" || exit 1
trap 'rm -rf "$scratch"' EXIT
failed=0
verdict() { # STATUS WHAT
    if [ "$1" -eq 0 ]; then echo "ok    $2"; else echo "FAIL  $2"; failed=1; cat "$scratch/said"; fi
}

python3 - "$scratch" "${SEED:-}" >"$scratch/said" 2>&1 <<'END_OF_PROGRAM'
import csv, os, random, subprocess, sys
folder, seed = sys.argv[1], int(sys.argv[2] or random.randrange(10**6))
print("SEED", seed)
draw = random.Random(seed)
points = "required\t750\nbonus\t400\nbeyond\t850\n"
header = "name score bonus beyond 01|01 state|reason".replace("|", "\t").split("\t")
header = header[0].split() + header[1:]
odd = ['O\'Neil, "Dora"', "Zoë", "=1+1", "-2", "陳 大文", "a;b", "50%", "tab\there", "\u202egnp", "@sum(a1)", "A. B-C"]
for trial in range(25):
    people, grades, want, left = [], [], {}, set()
    for i in range(draw.randrange(1, 40)):
        name = draw.choice(odd) + str(i)
        person = dict(name=name, id=str(5000 + i), email=f"p{i}@x.edu", login=f"log{i}", section=draw.choice("AB"), submission="",
                      handed_in=draw.choice(["", "2026-11-20T23:59", "2026-11-21T00:00", "2026-11-22T23:59:01"]))
        called, fate = draw.choice(["id", "email", "login"]), draw.choice(["one"] * 6 + ["none", "two", "renamed", "ungraded"])
        file = person[called] + draw.choice(["", ".zip", ".tar.gz", ".TGZ"])
        if fate == "renamed":
            person["submission"] = file = f"renamed {i}.zip"
        score = draw.randrange(751)
        if fate != "none":
            grades.append([file, "" if fate == "ungraded" else score, 0, 5, score, "passed", ""])
        if fate == "two":
            grades.append([person["login"] + ".7z", 1, 0, 0, 1, "passed", ""])
        late = {"": "", "2026-11-20T23:59": "0", "2026-11-21T00:00": "1", "2026-11-22T23:59:01": "3"}[person["handed_in"]]
        if fate in ("one", "renamed"):
            want[person["id"]] = [str(score), "0", "5", late]
        people.append(person)
    grades.append(["nobody.zip", 750, 0, 0, 0, "passed", ""])
    draw.shuffle(people), draw.shuffle(grades)
    columns = list(people[0])
    draw.shuffle(columns)
    with open(folder + "/roster", "w", encoding=draw.choice(["utf-8", "utf-8-sig"]), newline="") as f:
        csv.writer(f, delimiter=draw.choice(",;")).writerows([columns] + [[p[c] for c in columns] for p in people])
    with open(folder + "/grades", "w", encoding="utf-8", newline="") as f:
        csv.writer(f).writerows([header] + grades)
    run = subprocess.run(["workbook/class/roster.py", folder + "/roster", folder + "/grades", points, folder],
                         capture_output=True, text=True, env={**os.environ, "DUE": "2026-11-20T23:59"})
    assert run.returncode == 1 and "nobody.zip is of nobody" in run.stdout, run
    canvas, moodle = (list(csv.reader(open(f"{folder}/{x}.csv", encoding="utf-8", newline=""))) for x in ("canvas", "moodle"))
    assert canvas[0][:5] == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section"] and canvas[1][0] == "    Points Possible"
    assert canvas[1][5:8] == ["750", "0", "0"] and moodle[0][:3] == ["Email address", "ID number", "Workbook"]
    assert {row[2]: row[5:] for row in canvas[2:]} == want == {row[1]: row[2:6] for row in moodle[1:]}, (want, canvas)
    assert all(row[0] == f"p{int(row[1]) - 5000}@x.edu" for row in moodle[1:])
    assert all(row[3] == f"log{int(row[2]) - 5000}" for row in canvas[2:])
    for cell in (cell for row in canvas + moodle for cell in row):
        assert cell[:1] not in tuple("=+-@;") and not any(c in cell for c in "\t\u202e"), cell
    assert run.stdout.count("left out") == 1 + len(people) - len(want), run.stdout
END_OF_PROGRAM
verdict $? "drawn rosters: each grade is its owner's, and what fits nobody or two is left out ($(head -n 1 "$scratch/said"))"

refused() { # TABLE SENTENCE
    printf "$1" >"$scratch/roster"
    DUE=2026-11-20 workbook/class/roster.py "$scratch/roster" >"$scratch/said" 2>&1
    [ $? -eq 2 ] && grep -q "$2" "$scratch/said"
    verdict $? "refused: $(tail -n 1 "$scratch/said" | sed "s|$scratch/||")"
}
refused 'name,id\nada,1\n' 'no column email'
refused 'name,id,email\nada,1,a@x\nbob,1,b@x\n' 'the id 1 is in .*line 2, too'
refused 'name,id,email\nada,1\n' 'line 2: 2 cells, and 3 columns'
refused 'name,id,email,handed_in\nada,1,a@x,yesterday\n' 'yesterday is no time'
refused 'name,id,email,handed_in\nada,1,a@x,2026-11-20T10:00Z\n' 'time zone'
refused 'name,id,email\nS\366ren,1,a@x\n' 'in UTF-8'

# The key, honest kernels by other hands, a copy of one with other names, spaces and comments, and one that has not begun.
mkdir "$scratch/base/problems" && cp -R problems/03 "$scratch/base/problems/"
workbook/loop/shipped.sh 03 "$scratch/base/problems/03/flash_forward.cu"
put() { mkdir -p "$scratch/reports/$1/sources" && cp "$2" "$scratch/reports/$1/sources/03"; }
put key solutions/03/flash_forward.cu
put begun "$scratch/base/problems/03/flash_forward.cu"
for honest in tests/honest/03_*.cu solutions/03/variants/*.cu; do put "$(basename "$honest" .cu)" "$honest"; done
sed 's|//.*||; s/\bS_max\b/largest/g; s/\balpha\b/factor/g; s/\bm_new\b/now/g; s/    /\t/g' solutions/03/flash_forward.cu >"$scratch/copy"
put "copy
=1" "$scratch/copy"
workbook/class/similar.py "$scratch" 03 >"$scratch/said"
grep -v share "$scratch/said" | head -n 1 | grep -q '^  100 .*copy%0A=1  key$' && ! grep -q begun "$scratch/similar.csv" && grep -q 'not who copied' "$scratch/said" &&
    [ "$(awk -F, 'NR == 3 { print $1 }' "$scratch/similar.csv")" -le 70 ]
verdict $? "a renamed copy ranks first, honest work far below: $(sed -n '2p; 3p' "$scratch/said" | tr -s ' \n' ' ')"
exit $failed
