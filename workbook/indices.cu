// indices.cu - lengths and page numbers that a caller may have wrong, before flash_decode follows them: what is out of
// range is brought into it, and told. One thread an entry of the table.
#include "tile.cuh"

namespace
{
constexpr int THREADS = 128;

// What is wrong, as wb_check_indices tells it. Any of several: one store of 8 bytes.
TILE_FN void tell(volatile uint64_t *found, int value, int sequence, int what)
{
    *found = (uint64_t)(uint32_t)value << 32 | (uint64_t)sequence << 16 | (uint64_t)min(what, 65535);
}

TILE_FN int brought_into(int value, int most, uint64_t *found, int sequence, int what)
{
    if (value < 0 || value > most) tell(found, value, sequence, what);
    return min(max(value, 0), most);
}

__global__ __launch_bounds__(THREADS) void check_indices_kernel(int *table_out, int *len_out, const int *table,
                                                                const int *len, const int *rows, int table_rows,
                                                                int new_keys, uint64_t *found, decode_shape shape)
{
    const int b = blockIdx.y, column = blockIdx.x * THREADS + threadIdx.x;
    if (column >= shape.max_pages) return;
    uint64_t elsewhere = 0;  // an entry's first thread tells
    uint64_t *const ours = column == 0 ? found : &elsewhere;
    const int row = rows ? brought_into(rows[b], table_rows - 1, ours, b, WB_BAD_ROW) : b;
    const int most = shape.max_pages * shape.page_size - new_keys;
    const int keys = brought_into(len[b], most, ours, b, WB_BAD_LENGTH) + new_keys;
    const int page = table[(size_t)row * shape.max_pages + column];
    const bool is_used = column * shape.page_size < keys;
    table_out[(size_t)b * shape.max_pages + column] =
        is_used ? brought_into(page, shape.pages - 1, found, b, WB_BAD_PAGE + column) : 0;
    if (column == 0) len_out[b] = keys;
}
}  // namespace

wb_status wb_check_indices(int *table_out, int *len_out, const int *table, const int *len, uint64_t *found,
                           const int *rows, int table_rows, int new_keys, const decode_shape *shape, wb_stream stream)
{
    const char *const us = "wb_check_indices";
    decode_shape pages = shape ? *shape : decode_shape{};
    if (pages.page_size > 0) pages.page_size = 16;  // here a page has any size
    const wb_status status = wb_check_decode_shape("flash_decode", shape ? &pages : shape);
    if (status != WB_OK) return status;
    if (!table_out || !len_out || !table || !len || !found) return wb_fail(WB_BAD_ARGUMENT, "%s: a null pointer", us);
    if (rows && table_rows < 1) return wb_fail(WB_BAD_ARGUMENT, "%s: table_rows = %d", us, table_rows);
    const long long most = (long long)shape->max_pages * shape->page_size;
    if (new_keys < 0 || new_keys > most) return wb_fail(WB_BAD_ARGUMENT, "%s: new_keys = %d", us, new_keys);
    if (most > INT_MAX) return wb_fail(WB_UNSUPPORTED, "%s: %lld keys a sequence", us, most);
    const dim3 grid((unsigned)((shape->max_pages - 1) / THREADS + 1), (unsigned)shape->batch);
    check_indices_kernel<<<grid, THREADS, 0, stream>>>(table_out, len_out, table, len, rows, table_rows, new_keys,
                                                       found, *shape);
    WB_CUDA(cudaGetLastError());
    return WB_OK;
}
