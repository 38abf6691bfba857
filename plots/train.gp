# train.gp - the loss of a training run against its step: with naive attention, and with kernels. Drawn by plot.sh.
load 'plots/common.gp'
unset logscale x
unset format x
set xtics autofreq
set offsets 0, 0, 0, 0

loss(run) = sprintf("< awk -F'\\t' '/^#/ { next } $1 == \"run\" || $1 == \"%s\"' '%s'", run, data)
held(run) = sprintf("< awk -F'\\t' '/^#/ { next } $1 == \"run\" || ($1 == \"%s\" && $5 != \"-\")' '%s'", run, data)
runs = system(sprintf("awk -F'\\t' '!/^#/ && $1 != \"run\" && !seen[$1]++ { printf \"%%s \", $1 }' '%s'", data))
title_of(run) = run eq "naive" ? "naive attention" : run eq "problems" ? "your kernels" : run eq "solutions" \
    ? "reference solutions" \
              : run eq "wrong" ? "a wrong kernel" : run eq "device" ? "kernels" : run
look(run) = run eq "naive" ? 1 : run eq "problems" ? 2 : run eq "wrong" || run eq "A" ? 8 : run eq "B" ? 2 : 3

set title "A language model of bytes learns the lessons".source_line(source)
set xlabel "step"
set ylabel "loss, nats per byte"
set key maxrows 2
if (words(runs) > 2) set key inside top right maxrows 4
eval output_to("loss")
set output sprintf("%s.%s", out, term)
plot for [run in runs] loss(run) using "step":"loss" with lines linestyle look(run) title title_of(run), \
     for [run in runs] held(run) using "step":"held_out" with points linestyle look(run) pointsize 1.3 \
         title title_of(run).", held out"
