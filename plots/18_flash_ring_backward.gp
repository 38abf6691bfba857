# 18_flash_ring_backward.gp - speed and memory of problem 18. Drawn by plot.sh.
load 'plots/common.gp'
number_and_name = "18 flash ring backward"
load 'plots/ring.gp'
