#!/bin/sh
# train.sh TABLE [OUT] - draws the curves of a training run (train/train.sh) to OUT.svg and OUT.png, build/plots/train
# unless given.
set -u
. "$(dirname "$0")/draw.sh"
table=$1 out=${2:-build/plots/train} TERM= # the script draws in no terminal
source=$(echo "$(field "$table" machine), $(field "$table" date), commit $(field "$table" commit)" | plain)
draw plots/train.gp "$out" "data='$table'; source='$source'"
echo "drawn: $out.svg and .png"
