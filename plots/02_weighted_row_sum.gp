# 02_weighted_row_sum.gp - speed and memory of problem 02. Drawn by plot.sh.
load 'plots/common.gp'

where = "rows=cols"
x_column = "cols"
x_title = "N, of a matrix N x N"

chart_title = "02 weighted row sum: y = x w, bf16"
y_column = "gbps"
y_title = "GB/s, higher is better"
roof_name = "roof_copy"
roof_title = "copy in device memory: %.0f GB/s"
load 'plots/speed.gp'

chart_title = "02 weighted row sum: the matrix is all there is"
load 'plots/memory.gp'
