// draw.h - a timeline as text, and as a drawing for a lesson.
#pragma once

#include "replay.h"

#include <stdio.h>

void timeline_print(const timeline *t, const char *title, FILE *f);
void timeline_draw(const timeline *t, const char *title, FILE *f);
