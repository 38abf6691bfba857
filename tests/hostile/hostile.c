// hostile.c - the answer key as right(), and a function that calls it: hostile.diff makes of it code that cheats or dies.
#include "workbook.h"
#include "exchange.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define tiled_attention right
#include "solutions/01/tiled_attention.c"
#undef tiled_attention
#pragma GCC diagnostic ignored "-Wunused-parameter"

// What the worker does when it has run a case; its own function is hidden from this one.
#define answer(number) (void)!write(3, (char[]){(char)(number)}, 1)

wb_status tiled_attention(float *O, float *L, const float *Q, const float *K, const float *V,
                          const attention_shape *shape)
{
    return right(O, L, Q, K, V, shape);
}
