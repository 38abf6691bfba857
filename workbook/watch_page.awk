# watch_page.awk - one page of make watch from the report of a suite: heading, one failure, what it may come from, counts,
# footing.
#   -v heading= -v footing= -v next_step= -v wanted=TEST: whose failure is shown, else the first
#   -v rows=24 -v columns=80: the page has at most that many rows; rows=: no terminal, as long as it gets
function height(line) { return columns > 0 && length(line) > columns ? int((length(line) - 1) / columns) + 1 : 1 }
# Prints the block's lines that fit into `room` rows. Of a failure that is too long the middle goes, mostly a mask: its
# beginning says what is wrong, the line "test again" what to type.
function print_some(block, room,    i, total, again, left) {
    for (i = 1; i <= size[block]; i++) {
        total += height(line[block, i])
        if (line[block, i] ~ /^ *test again /) again = line[block, i]
    }
    left = total <= room ? total : room - 1 - (again != "" ? height(again) : 0)
    for (i = 1; i <= size[block] && left >= height(line[block, i]); i++) {
        left -= height(line[block, i])
        print line[block, i]
    }
    if (total <= room) return
    print "          ..."
    if (again != "") print again
}
function add(block) { line[block, ++size[block]] = $0 }

BEGIN { here = "other" }  # blocks: a failed test's name; "said", behind the counts; "other", such as a compiler's errors
{ lines_read = 1 }
/^  (ok  |SKIP)  / { here = "passed" }
/^  FAIL  / { here = $2; names[++failed] = here }
/^  \(the first two failures/ { next }
/^[0-9]+ passed, [0-9]+ failed/ { counts = $0; here = "said"; next }
NF { add(here) }

END {
    print heading
    if (!lines_read) exit
    print ""
    shown = wanted != "" && wanted in size ? wanted : failed ? names[1] : "other"
    for (i = 1; i <= failed && others < 3; i++)
        if (names[i] != shown) { also = also " " names[i]; others++ }
    if (others) counts = counts ". Also failing:" also (failed - 1 > others ? " and " failed - 1 - others " more" : "")
    if (next_step != "") counts = counts (counts == "" ? "" : "\n") next_step
    n = split(counts, summary, "\n")
    room = rows > 0 ? rows - 3 - (n > 0) : 1000000
    for (i = 1; i <= n; i++) room -= height(summary[i])
    for (i = 1; i <= size["said"]; i++) for_said += height(line["said", i])
    if (for_said > room / 2) for_said = int(room / 2)
    print_some(shown, room - for_said)
    print_some("said", for_said)
    if (counts != "") print "\n" counts
    printf "%s", footing (rows > 0 ? "" : "\n")
}
