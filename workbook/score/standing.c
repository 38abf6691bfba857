#include "score/score.h"

#include <sha256.h>
#include <sys/stat.h>

// A file that was only touched, or put back as it was, has not changed.
static bool saved_since(const char *file, const outcome *o)
{
    char sum[SHA256_DIGEST_STRING_LENGTH];
    struct stat mine;
    if (stat(file, &mine)) return false;
    return seconds_of(mine.st_mtim) > o->began && !(SHA256File(file, sum) && strcmp(o->sum, sum) == 0);
}

standing standing_of(const wb_problem *p)
{
    const char *state = grades_records[p->number].state;
    const bool judged = strncmp(state, "not ", 4) != 0 && strcmp(state, "interrupted") != 0;
    standing s = {.problem = p, .state = judged ? state : "not tested", .points = grades_of(p->number)};
    if (!gaps_file(p, s.file))
        s.state = "no file";
    else if (gaps_are_shipped(s.file))
        s.state = "not started";
    else
        s.changed = judged && saved_since(s.file, &grades_records[p->number]);
    gap gaps[MAX_GAPS];
    s.unfinished = strcmp(s.state, "failed") == 0 && gaps_first(gaps, gaps_in(p, s.file, gaps));
    return s;
}

const char *standing_word(const standing *s) { return s->unfinished ? "unfinished" : s->state; }

void standing_read(const char *folder)
{
    char file[64];
    grades_read(folder);
    EACH_PROBLEM (p) {
        const bool is_there = gaps_file(p, file);
        if (is_there && !gaps_are_shipped(file)) continue;
        EACH_CHECKPOINT (c, p->number) c->earned = false;
        if (is_there) grades_records[p->number].state = "not started";
    }
}

void standing_step(const standing *s, char step[256])
{
    const int number = s->problem->number;
    const checkpoint *next = s->points.next;
    if (strcmp(s->state, "no file") == 0)
        snprintf(step, 256, "make reset-%02d restores it", number);
    else if (strcmp(s->state, "not started") == 0)
        snprintf(step, 256, "read problems/%02d/README.md", number);
    else if (s->changed)
        snprintf(step, 256, "changed since: make test-%02d", number);
    else if (strcmp(s->state, "passed") == 0)
        snprintf(step, 256, "%s%s", next ? next->title : "done", next ? " (not judged here)" : "");
    else if (strcmp(s->state, "failed") == 0 && next)
        snprintf(step, 256, "%s", next->title);
    else
        snprintf(step, 256, "make test-%02d", number);
}

bool standing_next(const bool wanted[WB_PROBLEMS], standing *next)
{
    bool any = false, behind = false;
    int last = 0;
    EACH_PROBLEM (p)
        if (wanted[p->number]) last = p->number;
    EACH_PROBLEM (p) {
        if ((p->number > last ? behind : any) && !wanted[p->number]) continue;
        const standing s = standing_of(p);
        if (strcmp(s.state, "passed") == 0 && !s.changed) continue;
        *next = s;
        if (wanted[p->number]) return true;
        any = true, behind = p->number > last;
    }
    return any;
}
