// wb.h - what the files of wb know of each other: the commands that have a file of their own (wb.c says what they do),
// each with what it is given, up to a null, and its exit status; and what a run says.
#pragma once

int wb_test(char **given);         // test.c
int wb_watch_saves(char **given);  // watch.c
int wb_sanitize(char **given);     // sanitize.c
int wb_look(char **given);
int wb_suite(char **given);  // suite.c

// What a run says, to the screen, and to the report of the problem that it is about.
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Text that nobody trusts, as safe_text.h makes it, line by line, with this before each.
void say_plain(const char *before, const char *text);

// For now alone, on stderr: it stands in no report.
void say_now(const char *format, ...) __attribute__((format(printf, 1, 2)));

// What is said from the one to the other is a report, to be freed by the caller.
void say_begin(void);
char *say_end(void);
