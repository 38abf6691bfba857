// say.h - what a run says: to the screen, and to the report of the problem that it is about.
#pragma once

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

// Text that nobody trusts, as safe_text.h makes it, line by line, with this before each.
void say_plain(const char *before, const char *text);

// For now alone, on stderr: it stands in no report.
void say_now(const char *format, ...) __attribute__((format(printf, 1, 2)));

// What is said from the one to the other is a report, to be freed by the caller.
void say_begin(void);
char *say_end(void);
