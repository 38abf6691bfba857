// safe_text.h - text that a student's program may have printed, in a form that the file it goes into survives.
#ifndef WORKBOOK_SAFE_TEXT_H
#define WORKBOOK_SAFE_TEXT_H

#include <stdbool.h>
#include <stdio.h>

typedef enum text_form { PLAIN, JSON, XML } text_form;

// Writes text, which ends with 0 and may hold any other bytes, as valid UTF-8: what is none becomes U+FFFD, control characters other
// than newline and tab become '?', what the form gives a meaning is escaped. At most TEXT_LIMIT bytes of it, then a line that says so.
void write_text(FILE *f, const char *text, text_form form);

enum { TEXT_LIMIT = 65536 };

#endif
