// report_pictures.c - the pictures of the page of make report, with their words.
#include "score/safe_text.h"
#include "score/score.h"

#include <stdlib.h>
#include <string.h>

static void write_base64(const char *content)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t left = strlen(content); left > 0; content += 3, left = left > 3 ? left - 3 : 0) {
        unsigned group = 0;
        for (size_t k = 0; k < 3; k++) group = group << 8 | (k < left ? (unsigned char)content[k] : 0);
        for (size_t k = 0; k < 4; k++) putchar(k <= left ? digits[group >> (18 - 6 * k) & 63] : '=');
    }
}

// A picture with its words; false if there is no such file.
static bool picture(const char *kind, const char *what, const char *of, const char *path)
{
    char *const svg = grades_read_file("%s", path);
    const bool there = *svg && strlen(svg) < FILE_LIMIT;
    if (there) {
        write_form(stdout, XML, "<figure class=\"%s\"><div><img alt=\"%s, %s\" src=\"data:image/svg+xml;base64,", kind,
                   what, of);
        write_base64(svg);
        write_form(stdout, XML, "\"/></div>\n<figcaption>%s</figcaption></figure>\n", what);
    }
    free(svg);
    return there;
}

void score_show_pictures(const wb_problem *p, const char *plots)
{
    static const char *const kinds[][2] = {
        {"speed", "Speed against size"}, {"time", "Time against size"}, {"memory", "Memory against size"}};
    char path[4096];
    bool any = false;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        snprintf(path, sizeof path, "%s/%02d_%s_%s.svg", plots, p->number, p->name, kinds[k][0]);
        any |= picture("chart", kinds[k][1], p->name, path);
    }
    snprintf(path, sizeof path, "plots/%02d_%s.svg", p->number, p->name);
    if (!any) picture("chart", "Speed against size. Not measured here: the recorded chart", p->name, path);
    snprintf(path, sizeof path, "%s/mask_%02d.svg", plots, p->number);
    if (p->mask == WB_CAUSAL)
        picture("mask", "Mask: which query sees which key, and the tiles that are visited", p->name, path);
}

void score_show_roofline(const char *plots)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/roofline_chart.svg", plots);
    picture("chart", "Roofline", "all problems", path);
}
