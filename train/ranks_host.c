// ranks_host.c - see ranks.h. Ranks are processes of this machine, and what they add up lies on a board in shared
// memory, a piece at a time.
#include "ranks.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

enum { PIECE = 1 << 14 };
static struct board {
    pthread_barrier_t all_here;
    double number[MAX_RANKS];
    real mean[PIECE], of_rank[][PIECE];
} * board;

static void meet(void) { pthread_barrier_wait(&board->all_here); }  // if a rank has died, all are ended here (ranks.c)

void ranks_prepare(int count)
{
    const size_t bytes = sizeof *board + (size_t)count * sizeof *board->of_rank;
    pthread_barrierattr_t shared;
    board = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (board == MAP_FAILED) FAIL("no memory that %d ranks could share", count);
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&board->all_here, &shared, (unsigned)count);
}
void ranks_connect(void) {}
void ranks_end(void)
{
    if (ranks.all > 1) meet();
    ranks = (struct ranks){0, 1};
}

void ranks_average(real *x, size_t n)
{
    if (ranks.all == 1) return;
    for (size_t count; n > 0; x += count, n -= count) {
        count = n < PIECE ? n : PIECE;
        memcpy(board->of_rank[ranks.mine], x, count * sizeof *x);
        meet();  // all have put theirs there
        const size_t share = (count + (size_t)ranks.all - 1) / (size_t)ranks.all, begin = share * (size_t)ranks.mine;
        for (size_t i = begin; i < count && i < begin + share; i++) {
            real sum = board->of_rank[0][i];
            for (int r = 1; r < ranks.all; r++) sum += board->of_rank[r][i];
            board->mean[i] = sum / (real)ranks.all;
        }
        meet();  // the mean is whole, and stays until all have put their next piece there
        memcpy(x, board->mean, count * sizeof *x);
    }
}
void ranks_move(const move *moves, int count)
{
    for (const move *m = moves; m < moves + count; m++) {
        const bool leaves = m->from == ranks.mine, comes = m->to == ranks.mine;
        if (leaves && comes) memcpy(m->in, m->out, m->n * sizeof *m->in);
        if (m->from == m->to) continue;
        for (size_t at = 0, now; at < m->n; at += now) {
            now = m->n - at < PIECE ? m->n - at : PIECE;
            if (leaves) memcpy(board->of_rank[m->from], m->out + at, now * sizeof *m->out);
            meet();  // it lies there
            if (comes) memcpy(m->in + at, board->of_rank[m->from], now * sizeof *m->in);
            meet();  // it has been taken
        }
    }
}

double ranks_mean(double x)
{
    if (ranks.all == 1) return x;
    board->number[ranks.mine] = x;
    meet();  // all numbers are there
    double sum = 0;
    for (int r = 0; r < ranks.all; r++) sum += board->number[r];
    meet();  // all have read them
    return sum / ranks.all;
}
