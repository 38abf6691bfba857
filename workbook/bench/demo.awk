# demo.awk - a row of make demo's table, of what bench has measured: awk -f demo.awk FILE.tsv; -v heading=1: its
# heading.
BEGIN {
    FS = "\t"
    row = "%-23s %-24s %9s %10s %10s %7s %10s %10s %8s  %s\n"
    if (heading) {
        printf row, "problem", "shape", "error", "memory", "memory", "less", "time", "time", "speed-up", "backend"
        printf row, "", "", "", "naive", "flash", "", "naive", "flash", "", ""
        exit
    }
}
/^# (problem|backend): / { fact[substr($1, 3, 7)] = substr($1, 12) }
/^#/ { next }
!columns { for (i = columns = NF; i; i--) at[$i] = i; next }
$2 == "roof_sgemm" { fact["backend"] = "this CPU" }
$2 == "key" || $2 == "naive" { bytes[$2] = $at["peak_bytes"]; ms[$2] = $at["ms"] }
$2 == "key" { error = $at["max_error"]; shape = $at["shape"] }

function digits(x) { return x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f" }
function memory(of, MiB) {
    if (!(of in bytes)) return "-"
    MiB = bytes[of] / 1024 / 1024
    return MiB >= 1024 ? sprintf("%.1f GiB", MiB / 1024) : sprintf(digits(MiB) " MiB", MiB)
}
function time(of) {
    if (ms["key"] == "emulated") return ms["key"]
    return of in ms ? sprintf((ms[of] < 1 ? "%.4f" : digits(ms[of])) " ms", ms[of]) : "-"
}
function times(of) { return ("naive" in of) && of["key"] > 0 ? sprintf("%.1fx", of["naive"] / of["key"]) : "-" }

END {
    if (heading) exit
    if (!("key" in ms)) exit 1
    printf row, fact["problem"], shape, sprintf("%.1e", error), memory("naive"), memory("key"), times(bytes),
        time("naive"), time("key"), ms["key"] == "emulated" ? "-" : times(ms), fact["backend"]
}
