# code.awk - the code of a C or CUDA source: neither comments nor blank lines. -v gaps=1: but for the marks of its gaps
# and their TODO, which say where there is something to write. -v comments=1: the comments instead, a line each.
{
    at = index($0, "//")
    mark = $0 ~ /^ *\/\/[{}]/ || $0 ~ /^ *\/\/ TODO/
    code = !at || mark && gaps ? $0 : substr($0, 1, at - 1)
    if (comments) code = at && !mark ? substr($0, at) : ""
    sub(/[ \t]+$/, "", code)
    if (code != "") print code
}
