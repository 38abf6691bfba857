#!/bin/sh
# where.sh BACKEND - where and when a suite runs, as make report shows it: a line a field, its name, a tab, its value.
machine=$(sed -n 's/^model name[^:]*: *//p' /proc/cpuinfo 2>/dev/null | head -n 1)
[ -n "$machine" ] || machine=$(sysctl -n machdep.cpu.brand_string 2>/dev/null || uname -m)
machine="$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) x $machine"
gpu=
[ "$1" = cpu ] || gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
printf '%s\t%s\n' date "$(date -u '+%Y-%m-%d %H:%M UTC')" backend "$1" seed "${WB_SEED:-1}" machine "$machine${gpu:+, $gpu}"
