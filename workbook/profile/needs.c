// needs.c - what a problem cannot do without in a case (bench/roofline.h): the case, and then bytes, pairs of numbers
// to multiply and add, exponentials, with a tab between.   needs NN CASE
#include "bench/roofline.h"

int main(int argc, char **argv)
{
    const wb_problem *problem = argc == 3 ? wb_problem_number(atoi(argv[1])) : NULL;
    wb_case c;
    char text[WB_CASE_TEXT];
    if (!problem || wb_case_parse(problem, argv[2], &c) != WB_OK) return 2;
    const roofline_work w = roofline_work_of(problem, &c);
    wb_case_print(problem, &c, text);
    printf("%s\t%.0f\t%.0f\t%.0f\n", text, w.bytes, w.flops / 2, w.exps);
}
