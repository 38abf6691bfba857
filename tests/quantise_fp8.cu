// quantise_fp8.cu - the quantiser of 16 on the device gives the bits of the one on the host, whatever is drawn, and
// touches nothing else.
#include "e4m3.cuh"
#include "case/case.h"
#include "on_device.cuh"

#include <criterion/criterion.h>

static void start(void)
{
    if (check_hopper("this word") != WB_OK) cr_skip_test("sm_90 or the CPU execution layer is needed");
}
TestSuite(quantise_fp8, .init = start);

// Sizes of rows differ by powers of two; some rows are zeros, and some numbers much larger than the rest of their row.
static std::vector<uint16_t> drawn(int heads, int N, int D)
{
    std::vector<uint16_t> x;
    for (int row = 0; row < heads * N; row++) {
        const float size = below(16) ? ldexpf(1, below(5) ? below(20) - 10 : below(230) - 120) : 0;
        for (int d = 0; d < D; d++) {
            const float drawn = (float)noise();
            x.push_back(wb_to_bf16(drawn * size * (below(50) ? 1 : 30)));
        }
    }
    return x;
}

constexpr int EDGE = 64;  // bytes on both sides of an output that stay what they are

struct output {
    std::vector<uint8_t> want, got;
    output(size_t count) : want(count + 2 * EDGE), got(count + 2 * EDGE)
    {
        for (size_t i = 0; i < want.size(); i++) want[i] = got[i] = (uint8_t)(dice() >> 40);
    }
    uint8_t *operator()(size_t i) { return &want[EDGE + i]; }
};

// What the host makes of it. of: 'Q', 'K' or 'V'.
static void quantise(output &q, output &e, char of, const std::vector<uint16_t> &x, int heads, int N, int D,
                     bool spread)
{
    const int most = of == 'Q' ? 1 : 64, tiles = (N - 1) / most + 1;
    std::vector<float> rows((size_t)most * (size_t)D);
    for (int t = 0; t < heads * tiles; t++) {
        const int first = t % tiles * most, count = N - first < most ? N - first : most;
        const size_t from = ((size_t)(t / tiles) * (size_t)N + (size_t)first) * (size_t)D;
        for (int i = 0; i < count * D; i++) rows[(size_t)i] = wb_from_bf16(x[from + (size_t)i]);
        for (int r = 0; spread && of != 'V' && r < count; r++) {
            wb_hadamard(&rows[(size_t)r * (size_t)D], D);
            for (int d = 0; of == 'Q' && d < D; d++) rows[(size_t)(r * D + d)] /= (float)D;
        }
        *e((size_t)t) =
            (uint8_t)(of == 'V' ? wb_quantise_fp8_values(q((size_t)t * 64 * (size_t)D), rows.data(), count, D)
                                : wb_quantise_fp8(q(from), rows.data(), count, D));
    }
}

struct input {
    char name;
    int heads, N, D, tiles;
    std::vector<uint16_t> x;
    output q, e;
    input(char of, int heads_, int N_, int D_)
        : name(of), heads(heads_), N(N_), D(D_), tiles(of == 'Q' ? N : (N - 1) / 64 + 1), x(drawn(heads, N, D)),
          q((size_t)heads * (size_t)(of == 'V' ? tiles * 64 : N) * (size_t)D), e((size_t)heads * (size_t)tiles)
    {
    }
    void compare(const attention_shape &s, bool wanted, bool spread)
    {
        if (wanted) quantise(q, e, name, x, heads, N, D, spread);
        for (size_t i = 0; i < q.want.size() || i < e.want.size(); i++) {
            const bool of_q = i < q.want.size() && q.want[i] != q.got[i],
                       of_e = i < e.want.size() && e.want[i] != e.got[i];
            cr_assert(
                !of_q && !of_e, "%c of B=%d Hq=%d Hkv=%d Nq=%d Nk=%d D=%d hadamard=%d: %s byte %zu is %d, should be %d",
                name, s.batch, s.q_heads, s.kv_heads, s.q_len, s.kv_len, s.head_dim, spread,
                of_e ? "exponents'" : "numbers'", i - EDGE, of_e ? e.got[i] : q.got[i], of_e ? e.want[i] : q.want[i]);
        }
    }
};

// `wanted`: bits for Q, K and V.
static void check_one(const attention_shape &s, bool spread, int wanted)
{
    input Q('Q', s.batch * s.q_heads, s.q_len, s.head_dim), K('K', s.batch * s.kv_heads, s.kv_len, s.head_dim),
        V('V', s.batch * s.kv_heads, s.kv_len, s.head_dim);
    input *const all[] = {&Q, &K, &V};
    {
        const on_device<bf16> x[] = {as_bf16(const_cast<const std::vector<uint16_t> &>(Q.x)),
                                     as_bf16(const_cast<const std::vector<uint16_t> &>(K.x)),
                                     as_bf16(const_cast<const std::vector<uint16_t> &>(V.x))};
        const on_device<uint8_t> q[] = {on_device<uint8_t>(Q.q.got), on_device<uint8_t>(K.q.got),
                                        on_device<uint8_t>(V.q.got)};
        const on_device<uint8_t> e[] = {on_device<uint8_t>(Q.e.got), on_device<uint8_t>(K.e.got),
                                        on_device<uint8_t>(V.e.got)};
        uint8_t *to[3];
        int8_t *exponents[3];
        const bf16 *from[3];
        for (int k = 0; k < 3; k++) {
            const bool is = wanted >> k & 1;
            to[k] = is ? q[k].at + EDGE : nullptr, from[k] = is ? x[k].at : nullptr;
            exponents[k] = is ? (int8_t *)e[k].at + EDGE : nullptr;
        }
        cr_assert(wb_quantise_fp8_inputs(to[0], to[1], to[2], exponents[0], exponents[1], exponents[2], from[0],
                                         from[1], from[2], spread, &s, nullptr) == WB_OK,
                  "%s", wb_last_message());
    }
    for (int k = 0; k < 3; k++) all[k]->compare(s, wanted >> k & 1, spread);
}

Test(quantise_fp8, drawn_shapes)
{
    const char *seed = getenv("SEED");
    if (seed) dice_state += strtoull(seed, nullptr, 0);
    for (int k = 0; k < 40; k++) {
        attention_shape s = {
            1 + below(3), 1, 1 + below(3), 1 + below(200), 1 + below(300), 64 << below(3), 0.1f, 0, 0, 0};
        s.q_heads = s.kv_heads * (1 + below(3));
        check_one(s, below(2), k < 8 ? k : 7);
    }
}

Test(quantise_fp8, bad_input)
{
    const attention_shape s = {1, 1, 1, 5, 5, 64, 0.1f, 0, 0, 0};
    attention_shape of_80 = s;
    of_80.head_dim = 80;
    alignas(16) static uint8_t q[5 * 64 + 16];
    int8_t e[5];
    const bf16 *x = reinterpret_cast<const bf16 *>(q);  // never read
#define REFUSED(status, word, ...) \
    cr_expect(wb_quantise_fp8_inputs(__VA_ARGS__) == status && strstr(wb_last_message(), word), "%s", wb_last_message())
    REFUSED(WB_BAD_ARGUMENT, "V_exponent", q, q, q, e, e, nullptr, x, x, x, 0, &s, nullptr);
    REFUSED(WB_BAD_ARGUMENT, "aligned", q + 8, nullptr, nullptr, e, nullptr, nullptr, x, nullptr, nullptr, 0, &s,
            nullptr);
    REFUSED(WB_UNSUPPORTED, "head_dim", q, q, q, e, e, e, x, x, x, 0, &of_80, nullptr);
    REFUSED(WB_BAD_ARGUMENT, "shape", q, q, q, e, e, e, x, x, x, 0, nullptr, nullptr);
}
