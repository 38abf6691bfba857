// grown.h - arrays that grow, element by element.
#pragma once

#include <stdio.h>
#include <stdlib.h>

// An array of `count` elements, with room for one more at least. Out of memory it ends the program.
static inline void *grown(void *array, size_t count, size_t size)
{
    if (count & (count - 1)) return array;  // room is a power of two
    array = realloc(array, (count ? 2 * count : 1) * size);
    if (array) return array;
    fprintf(stderr, "timeline: out of memory\n");
    exit(2);
}
