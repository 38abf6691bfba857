# drawn.awk - cases of problem n, of any input and size: awk -v n=NN -v seed=NUMBER -v count=NUMBER -f drawn.awk
function from(a, b) { return a + int(rand() * (b - a + 1)) }
function one(words,    list, k) { k = split(words, list, " "); return list[from(1, k)] }
BEGIN {
    srand(seed)
    inputs = "normal huge tiny early_max late_max stairs rising falling flat ones tower abyss worked_2 zero_dO " \
        "twice_dO zero_rows outliers any_bytes summit trench sizes leftward mean_one" \
        (n == 8 || n == 9 || n == 12 || n == 18 ? "" : " wide_scales")  # dO V^T would be infinite
    masks = "causal full random gaps window/9 window/60 documents/70 prefix/90 strided/50 padded/40 tree/20"
    while (count-- > 0) {
        few = rand() < 0.1  # many sequences of few keys
        B = few ? from(50, 1030) : from(1, 3)
        Nq = from(1, few ? 3 : one("20 330"))
        Nk = from(1, few ? 9 : one("20 450"))
        Hkv = from(1, 3)
        group = n == 1 || n == 3 || n == 4 ? 1 : from(1, 4)
        D = n == 10 ? one("64 128") : n == 16 ? one("64 128 256") : one("16 32 64")
        decode = n == 13 || n == 14
        if (decode) Nq = (Nq - 1) % 16 + 1
        says = "B=" B ",Hq=" Hkv * group ",Hkv=" Hkv ",Nq=" Nq ",D=" D
        optional = n == 1 || n == 10 || n == 16  # a mask is
        if (optional && rand() < 0.5) says = says ",causal=1"
        else if (optional || n == 3 || n > 12) says = says ",Nk=" Nk * (decode && Nk > 20 ? 4 : 1)
        windows = n == 6 || n == 7 || n == 9 || n == 11 || n == 12
        if (windows) says = says ",W=" one("1 2 " from(3, 100) " " from(3, 400))
        if (n == 7 || n == 9) says = says ",sinks=" one("0 1 4 " from(1, 150))
        if (n == 11 || n == 12) says = says ",logits=" one("normal mixed 0 -inf 80 -80 1000 " from(-30, 30))
        if (n == 15) says = says ",mask=" one(masks) ",q_tile=" one("64 128") ",masks=" one("1 " B)
        if (n == 16) says = says ",levels=" from(1, 2)
        if (decode) says = says ",page=" 2 ^ from(4, 8) ",lens=" one("same mixed zipf edges empty")
        print says (rand() < 0.15 ? ",scale=" 0.6 * rand() : "") ",seed=" from(1, 999) ",input=" one(inputs)
    }
}
