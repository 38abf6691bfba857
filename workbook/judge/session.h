// session.h - one worker process: started, asked case after case over a socket, ended. It can neither hang nor harm who
// judges it: every wait has an end, by the worker's own time (spent.h), and what it prints is kept up to a fixed size.
#pragma once

#include "worker/exchange.h"
#include "spent.h"

typedef struct session {
    pid_t pid;       // 0: there is no worker
    int life;        // where its end is told, if it was forked by one that is kept (exchange.h); -1: it is a child
    int socket;      // the judge's end
    int output;      // the end of the pipe that it prints to; -1: closed
    int finding;     // where a report of the layer says what it is of
    int coverage;    // where it writes what ran of the function (exchange.h)
    int served;      // how many cases it has answered
    spent_time own;  // what it has cost
    double before;   // what it had cost when the case under way began, and
    double since;    // when that was, and
    double limit;    // how many seconds of its own it has for it
    size_t peak;     // after session_end: the most memory that it, or a child, had resident; at first it is the judge's
} session;

typedef struct session_said {
    char text[4096];           // what it printed, the beginning of it
    size_t count;              // how much it printed in all
    char finding[WB_FINDING];  // what a report is of (wb_report_to); "" if there is none
} session_said;

extern bool session_exact;  // workers get buffers that end with their tensors, without guards; nothing else is counted

double session_timeout(void);  // seconds of its own that a worker has for each call of a case: WB_TIMEOUT, or 20

// Whether it answered or ended by itself; used up its time; or got none of the machine: then nothing is known of it.
typedef enum session_outcome { SESSION_IN_TIME, SESSION_LATE, SESSION_STARVED } session_outcome;

// An anonymous file that a worker can map, whose size is sealed. -1, with errno, if the system has none.
int session_memory(size_t bytes);

// Keeps a worker of which session_start forks others (exchange.h), if the program can be one such: not where a sandbox
// stands in between, nor where it has printed or started threads before main.
void session_keep(const char *path);

// Starts a worker; false, with errno, if the system cannot.
bool session_start(session *s, const char *path);

// Tells it to end, waits for that as for a case, unless `at_once`, and ends whatever it started. *status: of waitpid.
session_outcome session_end(session *s, bool at_once, session_said *said, int *status);

// Writes in one sentence how a worker ended that got as far as this stage of its case, and returns it.
const char *session_ending(const session *s, char *text, size_t size, wb_stage stage, int status, session_outcome how);

// What one of several workers has to do that run a case together.
typedef struct session_turn {
    session *s;
    const wb_case *c;
    int file;
    session_said *said;
} session_turn;

// Gives them the case, and a board if that is not -1, and waits for all answers; the first that does not answer as it
// should ends all of them. Their time is one: that of all processors, and that in which all slept. Returns "" or, in
// `ending`, what happened instead; and to which of them, *whose.
const char *session_serve(const session_turn turns[], int count, const wb_problem *problem, int board, char ending[256],
                          session_outcome *how, int *whose);
