# 17_flash_ring.gp - speed and memory of problem 17. Drawn by plot.sh.
load 'plots/common.gp'
number_and_name = "17 flash ring"
load 'plots/ring.gp'
