// timeline.c - draws what a block did over time, from the record that a worker made of it: `make timeline-10`.
//
//   timeline RECORD [TITLE] [--svg FILE] [--tsv FILE]        in the terminal; as a drawing and as rows as well
#include "draw.h"

#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *record = NULL, *title = "a block", *svg = NULL, *tsv = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--svg") == 0 && i + 1 < argc)
            svg = argv[++i];
        else if (strcmp(argv[i], "--tsv") == 0 && i + 1 < argc)
            tsv = argv[++i];
        else if (!record)
            record = argv[i];
        else
            title = argv[i];
    }
    if (!record) {
        fprintf(
            stderr,
            "usage: timeline RECORD [TITLE] [--svg FILE] [--tsv FILE]   RECORD: what NN_worker --record FILE wrote\n");
        return 2;
    }
    timeline t;
    if (!timeline_replay(record, &t)) return 1;
    if (!t.group_count) {
        fprintf(stderr, "timeline: no warpgroup of this block multiplies with the words of hopper.cuh\n");
        return 1;
    }
    timeline_print(&t, title, stdout);
    FILE *f = svg ? fopen(svg, "w") : NULL;
    if (svg && !f) {
        perror(svg);
        return 1;
    }
    if (f) timeline_draw(&t, title, f), fclose(f), printf("drawn: %s\n", svg);
    if (tsv && !(f = fopen(tsv, "w"))) {
        perror(tsv);
        return 1;
    }
    if (tsv) timeline_write(&t, title, f), fclose(f), printf("written: %s\n", tsv);
    free(t.bars);
    return 0;
}
