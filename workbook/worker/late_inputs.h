// late_inputs.h - a stream of its own on which a function's inputs arrive only some time after it was called: work that
// the function queues elsewhere reads NaN.
#pragma once

#include "workbook.h"

__BEGIN_DECLS

// Takes the contents of `count` buffers away, leaves NaN, and queues their return on a new stream that waits for no
// other. May be called five times.
wb_status wb_late_begin(void *const buffers[], const size_t bytes[], int count, wb_stream *stream);
wb_status wb_late_end(wb_stream stream);  // after everything

// Of several ranks. Queues the return of all contents once more; swapped: of the last two each other's, which are as
// large.
wb_status wb_late_again(void *const buffers[], const size_t bytes[], int count, int swapped, wb_stream stream);

__END_DECLS
