// safe_text.h - text that a student's program may have printed, in a form that the file it goes into survives.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// LINE: of a single line, newlines and tabs are spaces.
typedef enum text_form { PLAIN, LINE } text_form;

// Writes any bytes up to a 0 as valid UTF-8: what is none becomes U+FFFD, control characters but newline and tab, and
// utf8_invisible ones, become '?'. At most TEXT_LIMIT bytes, then a line that says so.
void write_text(FILE *f, const char *text, text_form form);

// The same in memory, to be freed by the caller.
char *safe_text(const char *text, text_form form);

// A file in memory: once it is closed, *text is what was written, to be freed by the caller.
FILE *text_in_memory(char **text);

// The line after this one, or the end of the text.
const char *next_line(const char *line);

// The length of the UTF-8 character at s, 1 to 4; 0 if it is none (RFC 3629).
int utf8_length(const char *s);

// Whether it orders or hides what stands beside it: U+061C, 200B to 200F, 202A to 202E, 2060 to 206F, FEFF.
bool utf8_invisible(const char *s);

enum { TEXT_LIMIT = 65536 };
