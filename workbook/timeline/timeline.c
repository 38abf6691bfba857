// timeline.c - draws what a block did over time, or what several ranks did, from the record that a worker made of it: `make timeline-10`,
// `make timeline-17`.
//
//   timeline RECORD [TITLE] [--svg FILE] [--tsv FILE] [--as N]        in the terminal; as a drawing and as rows as well; of ranks, as long as N
#include "draw.h"
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

typedef struct outputs {
    const char *title, *svg, *tsv;
} outputs;

// The file that was asked for, or null; false if it cannot be written.
static bool open_output(const char *path, FILE **f)
{
    *f = path ? fopen(path, "w") : NULL;
    if (path && !*f) perror(path);
    return !path || *f;
}

static int draw_block(const char *record, const outputs *to)
{
    timeline t;
    FILE *f;
    if (!timeline_replay(record, &t)) return 1;
    if (!t.group_count) {
        fprintf(stderr, "timeline: no warpgroup of this block multiplies with the words of hopper.cuh\n");
        return 1;
    }
    timeline_print(&t, to->title, stdout);
    if (!open_output(to->svg, &f)) return 1;
    if (f) timeline_draw(&t, to->title, f), fclose(f), printf("drawn: %s\n", to->svg);
    if (!open_output(to->tsv, &f)) return 1;
    if (f) timeline_write(&t, to->title, f), fclose(f), printf("written: %s\n", to->tsv);
    free(t.bars);
    return 0;
}

static int draw_ranks(const char *record, int as, const outputs *to)
{
    rank_timeline t;
    FILE *f;
    if (!ranks_replay(record, as, &t)) {
        ranks_free(&t);
        return 1;
    }
    ranks_print(&t, to->title, stdout);
    if (!open_output(to->svg, &f)) return 1;
    if (f) ranks_draw(&t, to->title, f), fclose(f), printf("drawn: %s\n", to->svg);
    if (!open_output(to->tsv, &f)) return 1;
    if (f) ranks_write(&t, to->title, f), fclose(f), printf("written: %s\n", to->tsv);
    ranks_free(&t);
    return 0;
}

int main(int argc, char **argv)
{
    const char *record = NULL;
    outputs to = {"a block", NULL, NULL};
    long as = DRAWN_N;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            to.svg = argv[++i];
        else if (strcmp(argv[i], "--tsv") == 0 && i + 1 < argc)
            to.tsv = argv[++i];
        else if (strcmp(argv[i], "--as") == 0 && i + 1 < argc) {
            char *end;
            as = strtol(argv[++i], &end, 10);
            if (*end || as < 1 || as > MOST_N) {
                fprintf(stderr, "timeline: AS=%s: a length is needed, 1 to %d\n", argv[i], MOST_N);
                return 2;
            }
        } else if (!record)
            record = argv[i];
        else
            to.title = argv[i];
    }
    if (!record) {
        fprintf(stderr, "usage: timeline RECORD [TITLE] [--svg FILE] [--tsv FILE] [--as N]   RECORD: what NN_worker "
                        "--record FILE wrote\n");
        return 2;
    }
    return ranks_recorded(record) ? draw_ranks(record, (int)as, &to) : draw_block(record, &to);
}
