// timeline.c - draws what a block did over time, or what the ranks of a ring did, from the record that a worker
// made of it: `make timeline-10`, `make timeline-17`.
//
//   timeline RECORD TITLE [FILE]     in the terminal; FILE: also there, as trace events
#include "timeline.h"

#include <string.h>

static bool write_trace(const timeline *t, const char *title, const char *path)
{
    FILE *f = fopen(path, "w");
    if (f) timeline_trace(t, title, f);
    if (!f || fclose(f)) return perror(path), false;
    printf("written: %s\n", path);
    return true;
}

int main(int argc, char **argv)
{
    static timeline t;
    if (argc < 3) {
        fprintf(stderr, "usage: timeline RECORD TITLE [FILE]   RECORD: what NN_worker --record RECORD wrote\n");
        return 2;
    }
    if (strpbrk(argv[2], "\"\\<>&")) return fprintf(stderr, "timeline: a title has none of \" \\ < > &\n"), 2;
    if (!timeline_replay(argv[1], &t)) return 1;
    if (!t.of_ring && t.lane_count == 2) {
        fprintf(stderr, "timeline: no warpgroup of this block uses the products of hopper.cuh\n");
        return 1;
    }
    timeline_print(&t, argv[2], stdout);
    return argc > 3 && !write_trace(&t, argv[2], argv[3]);
}
