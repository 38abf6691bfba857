#!/usr/bin/env python3
"""roster.py ROSTER [GRADES POINTS OUT] - grades.csv for a course's own system: who handed what in, as Canvas and Moodle import it.

ROSTER is a table, .csv, with the columns name, id, email, and as you like submission, section, login, handed_in. A submission belongs to the
one person whose login, id, email or name it is called by, with or without .zip; where the column submission is filled, to who is
there. What fits nobody or two, and who has none or two, is named and left out: nothing is guessed.
POINTS is what `score possible` prints. OUT gets canvas.csv and moodle.csv. With DUE=2026-11-20T23:59 days late are counted from
handed_in, each begun one, in a column; they change no grade. With ROSTER alone it is only read.
Exit status: 0; 1 something was left out; 2 a table cannot be used.
"""
import csv
import os
import re
import sys
import unicodedata
from datetime import datetime, timedelta

COLUMNS = "name id email submission section login handed_in".split()
INVISIBLE = "\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"


def give_up(why):
    print("roster:", why, file=sys.stderr)
    sys.exit(2)


def shown(text):
    """As grades.csv has a name: no control characters, nothing invisible, nothing that a spreadsheet takes for a formula."""
    text = re.sub(f"[\\0-\\x1f\\x7f-\\x9f%{INVISIBLE}]", lambda c: "".join(f"%{b:02X}" for b in c[0].encode()), text)
    return "'" + text if re.match("[=+\\-@;\uff1d\uff0b\uff0d\uff20]", text) else text


def called(text):
    return unicodedata.normalize("NFC", shown(text))


def moment(text, where):
    try:
        return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))
    except ValueError:
        give_up(f"{where}: {shown(text)} is no time such as 2026-11-20T23:59")


def rows(path, needed):
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            head = file.readline()
            file.seek(0)
            reader = csv.reader(file, strict=True, delimiter=";" if ";" in head and "," not in head else ",")
            columns = [column.strip() for column in next(reader, [])]
            if missing := [column for column in needed if column not in columns]:
                give_up(f"{path} has no column {' and no '.join(missing)}: its first line is to name them")
            if len(set(columns)) < len(columns):
                give_up(f"{path} has a column twice")
            table = []
            for row in reader:
                if len(row) != len(columns) and row:
                    give_up(f"{path}, line {reader.line_num}: {len(row)} cells, and {len(columns)} columns")
                if any(row):
                    table.append({"": f"{path}, line {reader.line_num}", **zip_cells(columns, row)})
            return columns, table
    except (OSError, UnicodeError, csv.Error) as error:
        give_up(f"{path} cannot be read as a table in UTF-8: {error}")


def zip_cells(columns, row):
    return {column: cell.strip() for column, cell in zip(columns, row)}


def days_late(person):
    if not person["handed_in"]:
        return ""
    handed_in = moment(person["handed_in"], person[""])
    if not os.environ.get("DUE"):
        return ""
    due = moment(os.environ["DUE"], "DUE")
    if (due.tzinfo is None) != (handed_in.tzinfo is None):
        give_up(f"{person['']}: of DUE and handed_in one says its time zone")
    return max(0, -((due - handed_in) // timedelta(days=1)))


def read_roster(path):
    columns, people = rows(path, COLUMNS[:3])
    for column in columns:
        if column not in COLUMNS:
            print(f"roster: nothing is made of the column {shown(column)}; those that count: {', '.join(COLUMNS)}")
    if not people:
        give_up(f"{path} has nobody in it")
    seen = {}
    for person in people:
        for column in COLUMNS:
            person.setdefault(column, "")
        if not person["id"] and not person["email"]:
            give_up(f"{person['']}: neither an id nor an email")
        for column in "id email login submission".split():
            if person[column] and (other := seen.setdefault((column, called(person[column])), person)) is not person:
                give_up(f"{person['']}: the {column} {shown(person[column])} is in {other['']}, too")
        person["late"] = days_late(person)
    return people


def matched(people, submissions):
    """Pairs of a person and a submission that fit each other and nobody else; says what is left."""
    names = {}
    for person in people:
        for column in ["submission"] if person["submission"] else "login id email name".split():
            if person[column]:
                names.setdefault(called(person[column]), {})[id(person)] = person
    pairs, left = [], []
    for submission in submissions:
        name = unicodedata.normalize("NFC", submission["name"])
        stem = re.sub(r"(?i)\.(zip|7z|tgz|txz|tbz2?|tar(\.\w+)?)$", "", name)
        fit = {**names.get(name, {}), **names.get(stem, {})}.values()
        pairs += [(person, submission) for person in fit]
        if len(fit) != 1:
            left.append(f"{submission['name']} is of " + (" or of ".join(shown(person["name"]) for person in fit) or "nobody in the roster"))
    kept = []
    for person in people:
        mine = [submission for who, submission in pairs if who is person]
        others = [who for who, submission in pairs if submission in mine and who is not person]
        if len(mine) != 1 or others:
            left.append(f"{shown(person['name'])} has {' or '.join(s['name'] for s in mine) or 'no submission'}")
        elif not mine[0]["score"]:
            left.append(f"{shown(person['name'])}: {mine[0]['name']} has no grade: {mine[0]['reason']}")
        else:
            kept.append((person, mine[0]))
    return kept, left


def write(path, table):
    with open(path + ".new", "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([[shown(cell) if isinstance(cell, str) else cell for cell in row] for row in table])
    os.replace(path + ".new", path)


def main(given):
    if len(given) not in (1, 4):
        give_up(__doc__.split("\n")[0])
    people = read_roster(given[0])
    if len(given) == 1:
        return 0
    columns, submissions = rows(given[1], ["name", "score", "reason"])
    possible = [int(line.split()[1]) for line in given[2].splitlines()]
    groups = columns[1 : 1 + len(possible)]
    problems = [column for column in columns if column.isdigit()]
    kept, left = matched(people, submissions)
    # A bonus is an assignment of 0 points, what is more of which counts as extra. Days late are no points: Canvas is told to ignore that column.
    titles = ["Workbook"] + [f"Workbook {group}" for group in groups[1:]]
    canvas = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles, "Days late (no points)"],
              ["    Points Possible", "", "", "", "", possible[0], *[0] * len(groups[1:]), ""]]
    moodle = [["Email address", "ID number", *titles, "Days late", "Feedback"]]
    for person, s in kept:
        grades = [int(s[group]) for group in groups]
        states = "; ".join(f"{p}: {s[p]} points, {s[p + ' state']}" for p in problems if s[p + " state"] != "not started")
        canvas.append([person["name"], "", person["id"], person["login"], person["section"], *grades, person["late"]])
        moodle.append([person["email"], person["id"], *grades, person["late"], states or "not started"])
    write(given[3] + "/canvas.csv", canvas)
    write(given[3] + "/moodle.csv", moodle)
    for line in left:
        print("roster: left out:", line)
    print(f"roster: {len(kept)} of {len(people)} people have a grade in canvas.csv and moodle.csv, in {given[3]}")
    return 1 if left else 0


if __name__ == "__main__":
    os.umask(0o077)
    sys.exit(main(sys.argv[1:]))
