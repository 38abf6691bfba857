// wb.h - commands of wb (wb.c says what they do), each with what it is given, up to a null. They return an exit status.
#pragma once

int wb_test(char **given);      // test.c
int wb_watch(char **given);     // watch.c
int wb_sanitize(char **given);  // sanitize.c
int wb_look(char **given);
int wb_suite(char **given);  // suite.c
int wb_list(char **given);
int wb_show(char **given);  // show.c
int wb_plain(char **given);
