"""pages.py SOURCE KEYS - makes the pages that the repository has no Markdown for: of each header of words a page of its words, and, if KEYS is
yes, of each problem a page of its wrong solutions."""
import re
import sys
from pathlib import Path

source, keys = Path(sys.argv[1]), sys.argv[2] == "yes"
HEADERS = {"tile": "03", "hopper": "10", "paged": "13", "int8": "14", "e4m3": "16"}  # and where a lesson begins to use them


def plain(text):
    return re.sub(r"([*<>_|\[\]])", r"\\\1", text)


def comment(lines):
    """Lines of a comment as Markdown. Two columns become a list; a drawing among them makes all of them one block."""
    lines = [re.sub(r"^// ?", "", line) for line in lines]
    columns = [re.match(r" +(\S.*?) {2,}(\S.*)$", line) for line in lines]
    if all(c or not line.startswith(" ") for c, line in zip(columns, lines)) and any(columns):
        listed = [(f"- `{c[1]}`: {plain(c[2])}" if c else plain(line), bool(c)) for c, line in zip(columns, lines)]
        return "\n".join(("\n" if k and is_list != listed[k - 1][1] else "") + text for k, (text, is_list) in enumerate(listed))
    drawn = any(re.search(r"^ |\S {3,}\S", line) for line in lines)
    return "\n".join(["```output", *lines, "```"] if drawn else [plain(line) for line in lines])


def words(text):
    """Of a header: its head, and (section, name, comment, signature) of each word that is not the machine's."""
    lines, inside, section, above, found = text.split("\n"), False, "words", [], []
    head = [line for line in lines[1:next(k for k, line in enumerate(lines) if not line.startswith("//"))]]
    k = len(head) + 1
    while k < len(lines):
        line = lines[k]
        k += 1
        if re.match(r"namespace \w+", line):
            inside = True
        elif line.startswith("}  // namespace"):
            inside = False
        elif inside:
            continue
        elif title := re.match(r"// -{9,} (.+)", line):
            section, above = title[1], []
            if "machine" in section:
                break
        elif line.startswith("//"):
            above.append(line)
            continue
        elif re.match(r"(template|struct|TILE_FN|TILE_BOTH|inline|typedef|__device__|__host__|constexpr)\b", line):
            said = line
            while not re.search(r"[{;]", said):
                said += " " + lines[k].strip()
                k += 1
            if "struct" in said and "{" in said:  # with what is in it, if that is short
                body = next(n for n, end in enumerate(lines[k:]) if end.startswith("};"))
                said = "\n".join([line, *lines[k:k + body + 1]]) if body < 12 else said
            if "\n" not in said:
                said = re.sub(r"\s*(\{|//).*|;.*", "", said)
            name = re.search(r"struct (?:alignas\(\w+\) )?(\w+)|(operator\S+?)\(|(\w+)\(|(\w+)(?: =.*)?$", re.sub(r"^template <.*?> (?=TILE|struct|__|inline)|__launch_bounds__\(.*?\)", "", said))
            if name:
                found.append((section, next(n for n in name.groups() if n), above, re.sub(r"\b(TILE_FN|TILE_BOTH|TILE_ROLLED)\s+", "", said)))
        elif line.startswith((" ", "}")):
            continue
        above = []
    return head, found


(source / "words").mkdir()
for header, problem in HEADERS.items():
    text = (source / f"workbook/{header}.cuh").read_text()
    head, found = words(text)
    title = re.sub(r"^// \S+ - (\w)", lambda first: first[1].upper(), head[0])
    page = [f"# {header}.cuh", "", f"What lessons from {problem} on call words, in the order of [the file](../workbook/{header}.cuh): what is said of each there.", ""]
    page += [comment([f"// {title}", *head[1:]]), ""]
    section = name = None
    for at, word, above, signature in found:
        if at != section:
            section, name = at, None
            page += [f"## {section[0].upper()}{section[1:]}", ""]
        if word != name:
            name = word
            page += [f"### `{word}`", ""]
        page += ([comment(above), ""] if above else []) + ["```cuda", signature, "```", ""]
    (source / f"words/{header}.md").write_text("\n".join(page))

if keys:
    (source / "wrong").mkdir()
    for number in sorted(p.parent.name for p in source.glob("solutions/*/wrong.diff")):
        page = [f"# {number} · Wrong solutions", "", f"Edits of the key of [problem {number}](../problems/{number}/README.md) that its suite must reject.", ""]
        for entry in re.split(r"^@@ ", (source / f"solutions/{number}/wrong.diff").read_text(), flags=re.M)[1:]:
            name, tests, why = re.match(r"(\S+)(?: \((.*?)\))?:? ?(.*)", entry.split("\n")[0]).groups()
            lines = entry.rstrip("\n").split("\n")[1:]
            edit = next((k for k, line in enumerate(lines) if line.startswith(("-", "+", " "))), len(lines))
            page += [f"## `{name}`", "", plain(" ".join([why, *lines[:edit]])), ""]
            test, _, named = (tests or "").partition(", ")
            if test:
                page += [f"Caught by `{test}`" + (f"; diagnose names `{named}`." if named.strip("-") else "."), ""]
            page += ["```diff", *lines[edit:], "```", ""]
        (source / f"wrong/{number}.md").write_text("\n".join(page))
