# help.awk - the targets of the Makefile that carry a comment, under its headings, and what they would work on.
#   awk -v backend=cpu -v impl=problems -v refused="demo tune-%" -f help.awk Makefile
# refused: not listed
BEGIN {
    print "FlashAttention workbook. Backend: " backend ". Implementation: " impl \
        ". Next: make next, or read problems/README.md"
}
/^#   / && !/^#    *[^A-Z]/ && !(refused && /IMPL=/) { options = options substr($0, 3) "\n" }
/^# ---/ {
    heading = $0
    sub(/^# -* */, "", heading)
    heading = toupper(substr(heading, 1, 1)) substr(heading, 2)
}
/^[a-z][a-z0-9%_.-]*:[^#]*## / {
    target = $0
    sub(/:.*/, "", target)
    if (index(" " refused " ", " " target " ")) next
    text = $0
    sub(/^[^#]*## /, "", text)
    if (refused) gsub(/ and reference solution \(WITH_VARIANTS=1: variants\)/, "", text)
    if (heading) printf "\n%s\n", heading
    heading = ""
    sub(/%/, "NN", target)
    printf "  make %-12s %s\n", target, text
}
END { printf "\n%s", options }
