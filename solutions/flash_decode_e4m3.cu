// flash_decode_e4m3.cu - 14's kernel for a cache of e4m3 with a scale for each sequence and head, as FlashAttention-3
// and vLLM have it: the key's own text, with another way from a byte to bf16 and other scales in its tiles.
#include "workbook.h"
#include "in_this_name.h"
#include "paged.cuh"

#define STORED e4m3_bytes
struct e4m3_bytes {
    static constexpr float unit = 1;
    static constexpr uint32_t turned = 0;

    // An e4m3, s eeee fff, is the bf16 with the bits s0000eee efff0000, times 2^120, for exponents count from 2^-7 and
    // from 2^-127. That is so below 2^-6 as well, where both have no leading bit. 2^120 times it is exact, and takes no
    // instruction of a later GPU: from sm_89 on there is one, but to fp16. The NaN, 1111 111, becomes 480.
    static TILE_FN uint32_t bytes_to_bf16(uint32_t four, int odd)
    {
        using namespace tile_machine;
        const uint32_t high = odd ? four : four << 8;  // the two are the upper halves of 16 bits
        const uint32_t two = (high & 0x80008000u) | (high >> 4 & 0x07f007f0u);
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800  // has no arithmetic in bf16
        return pack(__uint_as_float(two << 16) * 0x1p120f, __uint_as_float(two & 0xffff0000u) * 0x1p120f);
#else
        __nv_bfloat162 x;
        memcpy(&x, &two, 4);
        return bits(__hfma2(x, __float2bfloat162_rn(0x1p120f), __float2bfloat162_rn(-0.0f)));
#endif
    }
};
#include "int8.cuh"

// Sends for the scale that 32 keys have in common.
TILE_FN void load_scale_async(float (&to)[32], const float *src) { __pipeline_memcpy_async(&to[lane_id()], src, 4); }

// Where the key sends for the scales of a tile's keys, `scale` elements behind the first of its tensor, these get that
// of their sequence and head, [B, Hkv].
#define load_scales_async(to, src, rows) load_scale_async(to, (src)-scale + ((size_t)ahead.b * heads + me.head))
#define flash_decode_int8                decode_bytes
#define flash_decode_int8_workspace      decode_bytes_workspace
#include "14/flash_decode_int8.cu"

size_t flash_decode_e4m3_workspace(const decode_shape *shape)
{
    const size_t bytes = decode_bytes_workspace(shape);
    if (!bytes) in_this_name("flash_decode_e4m3", wb_check_decode_shape("flash_decode_int8", shape));
    return bytes;
}

wb_status flash_decode_e4m3(
    bf16 *O, float *L, const bf16 *Q, const uint8_t *K, const uint8_t *V, const float *K_scale, const float *V_scale,
    const int *page_table, const int *kv_len, void *workspace, size_t workspace_bytes, const decode_shape *shape,
    wb_stream stream)
{
    const wb_status status = in_this_name(
        "flash_decode_e4m3", wb_check_decode_int8(
                                 "flash_decode_int8", O, L, Q, K, V, K_scale, V_scale, page_table, kv_len, workspace,
                                 workspace_bytes, decode_bytes_workspace(shape), shape));
    return status != WB_OK ? status
                           : decode_bytes(
                                 O, L, Q, (const int8_t *)K, (const int8_t *)V, K_scale, V_scale, page_table, kv_len,
                                 workspace, workspace_bytes, shape, stream);
}
