# draw.sh - read by plot.sh, make mask-NN and timeline-NN, which end here without gnuplot.
command -v gnuplot >/dev/null || { echo "plot: gnuplot is not installed; ./setup.sh installs it"; exit 1; }
field() { sed -n "s/^# $2: //p" "$1" | head -n 1; } # TABLE NAME: what a line at the table's beginning says
plain() { tr -d "'\"{}" | tr '_@^&' '    '; }       # without what gnuplot takes for markup
draw() { # SCRIPT OUT SETTINGS: OUT_*.svg and .png; with TERM=dumb in the terminal as well
    mkdir -p "$(dirname "$2")"
    for term in svg png $([ "${TERM:-}" != dumb ] || echo dumb); do
        gnuplot -e "term='$term'; out='$2'; $3" "$1" || { echo "plot: gnuplot could not draw $1"; exit 1; }
    done
}
picture() { gnuplot -e "data='$2'; out='$3'" "$1" && echo "drawn: $3"; } # SCRIPT DATA OUT.svg
