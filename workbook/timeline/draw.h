// draw.h - a timeline as text, and as a drawing for a lesson.
#pragma once

#include "replay.h"

#include <stdio.h>

void timeline_print(const timeline *t, const char *title, FILE *f);
void timeline_draw(const timeline *t, const char *title, FILE *f);
// The bars that are drawn as rows: bar line group kind label from to reason after source. After two lines, "# title" and "cycles N".
void timeline_write(const timeline *t, const char *title, FILE *f);
