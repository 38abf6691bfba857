#include "spent.h"

#include "score/outcome.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

double spent_now(void) { return seconds_now(CLOCK_MONOTONIC); }

typedef struct tree {
    double cpu;  // of all processes, and of those that they have waited for
    bool awake;  // a thread runs, waits for a processor or for a disk
} tree;

// The fields of a /proc/.../stat behind its name, which may hold anything; false if there is no such process.
static bool read_stat(const char *path, char *state, double ticks[4])
{
    char text[1024];
    FILE *file = fopen(path, "re");
    const size_t size = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file) fclose(file);
    text[size] = 0;
    const char *rest = strrchr(text, ')');
    return rest && sscanf(rest, ") %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %lf %lf %lf %lf", state, ticks, ticks + 1,
                          ticks + 2, ticks + 3) == 5;
}

static bool add_process(tree *t, long process, int depth)
{
    enum { DEEPEST = 64 };
    char path[300], state;
    double ticks[4];
    snprintf(path, sizeof path, "/proc/%ld/stat", process);
    if (depth == DEEPEST || !read_stat(path, &state, ticks)) return false;
    t->cpu += (ticks[0] + ticks[1] + ticks[2] + ticks[3]) / (double)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/%ld/task", process);
    DIR *threads = opendir(path);
    for (struct dirent *entry; threads && (entry = readdir(threads));) {
        const long thread = atol(entry->d_name);
        if (thread < 1) continue;
        snprintf(path, sizeof path, "/proc/%ld/task/%ld/stat", process, thread);
        if (!t->awake && read_stat(path, &state, ticks)) t->awake = state == 'R' || state == 'D';
        snprintf(path, sizeof path, "/proc/%ld/task/%ld/children", process, thread);
        FILE *children = fopen(path, "re");
        for (long child; children && fscanf(children, "%ld", &child) == 1;) add_process(t, child, depth + 1);
        if (children) fclose(children);
    }
    if (threads) closedir(threads);
    return true;
}

void spent_add(spent_time *s, double cpu)
{
    const double more = cpu > s->seen ? cpu - s->seen : 0;  // less: what ended was waited for by nobody
    s->seen = cpu, s->cpu += more, s->seconds += more;
}

void spent_look(spent_time *s, pid_t root, bool asleep)
{
    const double now = spent_now(), since = now - s->looked;
    s->looked = now;
    tree t = {0};
    const bool told = add_process(&t, root, 0);
    if (told) spent_add(s, t.cpu);
    s->awake = t.awake;
    if (asleep && !t.awake) s->seconds += told && since > SPENT_LOOK ? SPENT_LOOK : since;
}

void spent_note(double seconds)
{
    const char *const file = getenv("WB_SPENT");
    FILE *const to = file ? fopen(file, "ae") : NULL;
    if (!to) return;
    fprintf(to, "%.3f\n", seconds);
    fclose(to);
}

enum { CANNOT = 125 };

static volatile pid_t command;

static void on_signal(int signal)
{
    if (command > 0) kill(-command, signal);
    _exit(128 + signal);
}

int spent_within(char **given)
{
    const double most = atof(given[0]), begun = spent_now();
    const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    spent_time own = {.looked = begun};
    siginfo_t ended = {.si_pid = 0};
    int status = 0, verdict = 0;
    if (most <= 0) return fprintf(stderr, "within: %s: not a number of seconds\n", given[0]), CANNOT;
    command = fork();
    if (command < 0) return perror("within"), CANNOT;
    if (command == 0) {
        setpgid(0, 0);  // so that what it starts can be ended with it
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execvp(given[1], given + 1);
        fprintf(stderr, "within: %s: %s\n", given[1], strerror(errno));
        _exit(CANNOT);
    }
    setpgid(command, command);  // whoever is first
    for (int i = 0; i < 3; i++)
        if (signal(signals[i], on_signal) == SIG_IGN) signal(signals[i], SIG_IGN);
    while (!verdict && waitid(P_PID, (id_t)command, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && !ended.si_pid) {
        usleep(own.looked - begun < 1 ? 5000 : 50000);
        spent_look(&own, command, true);
        verdict = own.seconds >= most ? SPENT_LATE : own.looked - begun > SPENT_WALL * most ? SPENT_STARVED : 0;
    }
    if (ended.si_pid) spent_look(&own, command, false);
    kill(-command, SIGKILL);
    while (waitpid(command, &status, 0) < 0 && errno == EINTR) {}
    spent_note(own.seconds);
    if (verdict == SPENT_STARVED)
        fprintf(stderr, "in %.0f s it ran for %.1f s: the machine is too busy\n", spent_now() - begun, own.seconds);
    if (verdict) return verdict;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}
