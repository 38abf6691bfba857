// known.cu - kernels whose requests are known. A line's numbers stand behind //=, in the order of the record's columns
// (workbook/cpu/profile/lines.cpp); those that are left out are 0. Global memory: requests, sectors, fewest; shared
// memory: requests, passes; then bytes copied, numbers multiplied, exponentials, waits, uneven requests.
#include "tile.cuh"

#include <cuda_pipeline.h>

struct eight {
    float4 low, high;
};
__device__ static float of(float2 v) { return v.x + v.y; }
__device__ static float of(float4 v) { return v.x + v.y + v.z + v.w; }
__device__ static float of(eight v) { return of(v.low) + of(v.high); }

__global__ void global_loads(float *y, const float *x, const bf16 *h, int turns)
{
    const int lane = threadIdx.x;
    float sum = 0;
    sum += x[lane];                                       //= 1 4 4
    sum += x[lane + 1];                                   //= 1 5 4
    sum += x[2 * lane];                                   //= 1 8 4
    sum += x[33 * lane];                                  //= 1 32 4
    sum += x[lane / 8];                                   //= 1 1 1
    sum += ((const float2 *)x)[lane].y;                   //= 1 8 4
    sum += of(((const float4 *)x)[lane]);                 //= 1 16 16
    sum += of(((const float4 *)x)[2 * lane]);             //= 1 32 16
    sum += (float)h[lane];                                //= 1 2 2
    sum += (float)h[8 * lane];                            //= 1 16 2
    if (lane < 16) sum += x[lane + 64];                   //= 1 2 2
    if (lane % 2) sum += x[lane + 96];                    //= 1 4 2
    for (int i = 0; i < 3; i++) sum += x[32 * i + lane];  //= 3 12 12
    for (int i = 0; i < lane; i++) sum += x[i];           //= 31 31 31 0 0 0 0 0 0 31
    sum += of(((const eight *)x)[lane]);                  //= 2 64 32
    for (int turn = 0; turn < turns; turn++) {
        if (lane < 16 || turn) sum += x[64 * turn + lane];  //= 2 6 6
        __syncwarp();
    }
    atomicAdd(&y[2 * lane], 1.0f);  //= 1 8 4
    y[8 * lane] = sum;              //= 1 32 4
}

__global__ void shared_loads(float *y)
{
    __shared__ float4 memory[512];
    float *s = reinterpret_cast<float *>(memory);
    const int lane = threadIdx.x;
    for (int i = lane; i < 2048; i += 32) s[i] = 0;  //= 0 0 0 64 64
    __syncwarp();
    float sum = 0;
    sum += s[lane];                                        //= 0 0 0 1 1
    sum += s[2 * lane];                                    //= 0 0 0 1 2
    sum += s[32 * lane];                                   //= 0 0 0 1 32
    sum += s[33 * lane];                                   //= 0 0 0 1 1
    sum += s[5];                                           //= 0 0 0 1 1
    sum += s[32 * (lane / 16)];                            //= 0 0 0 1 2
    sum += (float)((bf16 *)s)[lane];                       //= 0 0 0 1 1
    sum += of(((float2 *)s)[lane]);                        //= 0 0 0 2 2
    sum += of(memory[lane]) + of(memory[2 * lane]);        //= 0 0 0 8 12
    s[16 * lane] = sum;                                    //= 0 0 0 1 16
    __syncthreads();                                       //= 0 0 0 0 0 0 0 0 1
    y[lane] = sum + expf(sum) + exp2f(sum) + __expf(sum);  //= 1 4 4 0 0 0 0 96
}

// A row of 64 numbers fills all banks: eight rows of one column of blocks lie in the same four.
__global__ void matrices(float *y, const bf16 *h)
{
    __shared__ smem_tile<16, 64> padded;
    __shared__ alignas(128) bf16 bare[16][64];
    const int lane = threadIdx.x;
    bf16 *to = &bare[lane / 8][lane % 8 * 8];
    for (int r = 0; r < 4; r++) __pipeline_memcpy_async(to + 256 * r, h + 256 * r + 8 * lane, 16);  //= 4 64 64 0 0 2048
    load_async<32>(padded, h, 16);                                                                  //= 4 96 64 0 0 2048
    loads_issued();
    loads_arrived<0>();
    __syncwarp();
    uint32_t f[4], g[4];
    tile_machine::load_16x16<tile_machine::down, false>(f, bare, 0, 16);  //= 0 0 0 4 32
    tile_machine::load_16x16<tile_machine::down, true>(g, bare, 0, 16);   //= 0 0 0 4 32
    operand<16, 64> a;
    load(a, padded, 0);  //= 0 0 0 16 16
    reg_tile<16, 16> c = {};
    mma_ABt(c, a, padded);                                                     //= 0 0 0 16 16 0 16384
    each(c, [&](float &x, element e) { y[16 * e.row + e.col] = x; });          //= 8 64 32
    y[lane] = (float)(f[0] + f[1] + f[2] + f[3] + g[0] + g[1] + g[2] + g[3]);  //= 1 4 4
}

int main()
{
    float *x, *y;
    if (cudaMalloc(&x, 1 << 16) != cudaSuccess || cudaMalloc(&y, 1 << 16) != cudaSuccess) return 1;
    cudaMemset(x, 0, 1 << 16);
    global_loads<<<1, 32>>>(y, x, (bf16 *)x, 2);
    shared_loads<<<1, 32>>>(y);
    matrices<<<1, 32>>>(y, (bf16 *)x);
    return cudaDeviceSynchronize() != cudaSuccess;
}
