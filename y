x: examples/../solutions/17/flash_ring.cu
examples/../solutions/17/flash_ring.cu:
x: examples/../solutions/10/flash_hopper.cu
examples/../solutions/10/flash_hopper.cu:
