# variants.awk - of series.awk's rows, the implementations that are neither ours, the key, the library, a quantiser nor
# a peer: variants of the key, by the names of their files, in the order of the rows.
BEGIN { FS = "\t" }
NR > 1 && $2 !~ /^ring$|^one_gpu$|_fa2$|^(naive|yours|key|library|torch_ring_cudnn|torch_allgather_cudnn|ulysses_cudnn|fa2|fa3|fa4|cudnn|flex|flashinfer|bf16|torch|quantise|quantise_hadamard)$/ && !seen[$2]++ { printf "%s ", $2 }
