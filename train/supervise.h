// supervise.h - on a GPU the kernels share a process with the training, for their arrays do: another process watches over it.
#ifndef TRAIN_SUPERVISE_H
#define TRAIN_SUPERVISE_H

#ifdef TRAIN_CUDA
// From here on this is a process of its own. Its parent waits for it, says in a sentence if a signal ended it or if nobody called
// still_alive(), which a model does once a layer, for WB_TIMEOUT seconds (20 unless set; 120 while the GPU is set up), and ends with its exit status, or 1.
void supervise(void);
void still_alive(void);
#else
static inline void supervise(void) {}  // kernels are in processes of their own (attention_worker.c)
static inline void still_alive(void) {}
#endif

#endif
