#!/bin/sh
# tables.sh [--check] - fills the tables of h200.md and of the lessons with what is recorded in plots/data/h200, of
# several GPUs in h200x2, and of an H100 in h100, as their comments ask (plots/tables.awk); in README.md what the duel
# says of speed, too.
# --check changes nothing, shows what would change, and fails if anything would.
set -u
cd "$(dirname "$0")/.." || exit 2
text=$(mktemp) || exit 2
trap 'rm -f "$text"' EXIT
status=0
for file in README.md plots/h200.md problems/*/*.md; do
    grep -q '<!-- \(recorded\|duel\): ' "$file" || continue
    awk -f plots/tables.awk plots/data/h200/*.tsv plots/data/h200x2/*.tsv plots/data/h100/*.tsv "$file" >"$text" ||
        { status=1; continue; }
    if [ "${1:-}" = --check ]; then
        diff -u "$file" "$text" || status=1
    else
        cmp -s "$file" "$text" || cat "$text" >"$file"
    fi
done
exit $status
