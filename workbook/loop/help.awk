# help.awk - the targets of the Makefile that carry a comment, by what one wants to do, and what they would work on.
#   awk -v backend=cpu -v impl=problems -v refused="demo tune-%" -f help.awk Makefile OTHER...
# refused: not listed
FNR == NR && /^#   / && !/^#    *[^A-Z]/ && !(refused && /IMPL=/) { options = options substr($0, 3) "\n" }
/^[a-z][a-z0-9%_.-]*:[^#]*## / {
    target = $0
    sub(/:.*/, "", target)
    text = $0
    sub(/^[^#]*## /, "", text)
    if (refused) gsub(/; EDITION=instructors: and the wrong solutions| and key \(WITH_VARIANTS=1: variants\)/, "", text)
    says[target] = text
    order[++targets] = target
}
function show(target,    name) {
    if (!(target in says) || index(" " refused " ", " " target " ")) return
    name = target
    sub(/%/, "NN", name)
    printf "  make %-12s %s\n", name, says[target]
    delete says[target]
}
function group(title, list,    i, n, member) {
    n = split(list, member, " ")
    for (i = 1; i <= n; i++) if (member[i] in says && !index(" " refused " ", " " member[i] " ")) break
    if (i > n) return
    printf "\n%s\n", title
    for (i = 1; i <= n; i++) show(member[i])
}
END {
    print "FlashAttention workbook. Backend: " backend ". Implementation: " impl \
        ". Next: make next, or read problems/README.md"
    group("Begin", "demo setup next progress book")
    group("Work on a problem", "test-% watch hint-% run-% ring sanitize-% mask-% timeline-% reset-% blank-% diff-%" \
        " step-% start-% predict-% test sanitize report compile_commands.json")
    group("Measure", "bench-% plot-% bench plot tune-% record duel bundle compile-gpu")
    group("Use the kernels", "train which gpt-oss lib install torch")
    group("Run a class (workbook/class/README.md)", "class-copy grade-all grade gradescope")
    group("The workbook itself", "check check-all mutants class-test new-problem tables format clean help")
    left = 0
    for (i = 1; i <= targets; i++) {
        if (!(order[i] in says) || index(" " refused " ", " " order[i] " ")) continue
        if (!left++) print ""
        show(order[i])
    }
    printf "\n%s", options
}
