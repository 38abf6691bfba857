// cases.c - what a function is run on to find its mistake.
#include "evidence.h"

#include "case/small_cases.h"

// By the number of the problem for which they were chosen.
// clang-format off
#define OF_RANKS {"Hq=2,Hkv=1,Nq=12,D=64,causal=1,scale=0.3,prior=255", "Hq=2,Hkv=1,Nq=9,D=64,scale=0.3,prior=255", \
    "ranks=2,Hq=2,Hkv=1,Nq=16,D=64,causal=1,scale=0.3,prior=255", \
    "ranks=3,B=2,Hq=2,Hkv=1,Nq=18,D=64,causal=1,scale=0.3,prior=255", "ranks=3,Hq=2,Nq=18,D=64,scale=0.3,prior=255", \
    "ranks=4,Hq=2,Hkv=1,Nq=16,D=64,scale=0.3,prior=255", \
    "ranks=2,Hq=2,Hkv=1,Nq=15,D=64,causal=1,scale=0.3,prior=255", "ranks=3,Hq=2,Hkv=1,Nq=16,D=64,scale=0.3,prior=255"}
static const char *const chosen[][MAX_CASES] = {
    [1] = {"Nq=150,D=64,causal=1,scale=0.002,input=tiny", "Hq=2,Nq=20,Nk=13,D=16,scale=0.4",
        "B=2,Hq=2,Nq=40,Nk=300,D=16,input=stairs", "Nq=33,Nk=421,D=16,input=late_max",
        "Hq=2,Nq=150,Nk=200,D=32,scale=0.35", "Nq=33,Nk=256,D=64,scale=0.2,input=early_max",
        "B=2,Hq=3,Nq=20,Nk=128,D=16", "Nq=16,Nk=300,D=16,input=huge", "Nq=16,Nk=300,D=16,input=tiny",
        "Nq=16,Nk=400,D=16,input=falling", "B=2,Hq=2,Nq=70,D=16,causal=1,scale=0.4",
        "Nq=300,D=16,causal=1,input=stairs", "Hq=2,Nq=290,D=16,causal=1", "Nq=200,D=16,causal=1,input=rising",
        "Nq=16,Nk=260,D=16,scale=0.01", "Nq=16,Nk=400,D=16,input=rising"},
    [3] = {"Nq=70,Nk=200,D=64,scale=0.002,input=tiny", "Hq=2,Nq=20,Nk=13,D=16,scale=0.4",
        "B=2,Hq=2,Nq=40,Nk=300,D=16,input=stairs", "Nq=33,Nk=321,D=16,input=late_max",
        "Hq=2,Nq=70,Nk=200,D=32,scale=0.35", "Nq=33,Nk=256,D=64,scale=0.2,input=early_max",
        "B=2,Hq=3,Nq=130,Nk=64,D=16", "Nq=16,Nk=300,D=16,input=huge", "Nq=16,Nk=300,D=16,input=tiny",
        "Nq=16,Nk=400,D=16,input=falling", "Nq=16,Nk=260,D=16,scale=0.01", "Nq=16,Nk=400,D=16,input=rising"},
    [4] = {"Nq=150,D=64,scale=0.002,input=tiny", "Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=2,Nq=70,D=16,scale=0.35",
        "Nq=300,D=16,input=stairs", "Nq=290,D=32", "Nq=200,D=64,input=early_max", "Nq=150,D=16,input=huge",
        "Nq=150,D=16,input=tiny", "Nq=200,D=16,input=rising", "Nq=330,D=16,input=falling", "B=2,Hq=3,Nq=40,D=16"},
    [5] = {"Nq=150,D=64,scale=0.002,input=tiny", "Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,scale=0.35",
        "Nq=300,D=16,input=stairs", "B=2,Hq=6,Hkv=3,Nq=33,D=16", "Hq=8,Hkv=1,Nq=70,D=16", "Nq=290,D=32",
        "Nq=200,D=64,input=early_max", "B=3,Hq=8,Hkv=4,Nq=20,D=16", "Nq=150,D=16,input=huge",
        "Nq=150,D=16,input=tiny", "Nq=200,D=16,input=rising", "Nq=330,D=16,input=falling"},
    [6] = {"Nq=150,D=64,W=40,scale=0.002,input=tiny", "Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7",
        "Nq=300,D=16,W=100,input=stairs", "Nq=140,D=16,W=1", "Nq=300,D=16,W=5", "Nq=300,D=16,W=70,scale=0.35",
        "Nq=290,D=32", "Nq=300,D=64,W=33", "Nq=400,D=16,W=64", "Nq=500,D=16,W=200", "B=2,Hq=6,Hkv=3,Nq=33,D=16,W=12",
        "Nq=150,D=16,W=40,input=huge", "Nq=150,D=16,W=40,input=tiny", "Nq=200,D=16,W=40,input=rising",
        "Nq=330,D=16,W=40,input=falling"},
    [7] = {"Nq=150,D=64,W=40,sinks=5,scale=0.002,input=tiny", "Hq=2,Nq=20,D=16,scale=0.4",
        "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7,sinks=3", "Nq=300,D=16,W=100,sinks=6,input=stairs", "Nq=140,D=16,W=1,sinks=1",
        "Nq=300,D=16,W=5,sinks=2", "Nq=300,D=16,W=30,sinks=4,scale=0.35", "Nq=290,D=32", "Nq=300,D=64,W=33,sinks=20",
        "Nq=400,D=16,W=64,sinks=100", "Nq=500,D=16,W=150,sinks=70", "Nq=330,D=16,W=10,sinks=150",
        "B=2,Hq=6,Hkv=3,Nq=33,D=16,W=12,sinks=5", "Nq=150,D=16,W=40,sinks=5,input=huge",
        "Nq=150,D=16,W=40,sinks=5,input=tiny", "Nq=200,D=16,W=40,sinks=5,input=rising",
        "Nq=330,D=16,W=40,sinks=5,input=falling"},
    [8] = {"Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16", "Nq=150,D=16,scale=0.35",
        "B=2,Hq=6,Hkv=3,Nq=21,D=16,scale=0.4", "Hq=4,Hkv=1,Nq=70,D=32", "Nq=130,D=64", "Hq=4,Hkv=2,Nq=150,D=16",
        "Hq=4,Hkv=2,Nq=128,D=16", "Nq=100,D=16,input=huge", "Nq=100,D=16,input=rising", "Nq=200,D=16"},
    [9] = {"Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7,sinks=3",
        "Nq=150,D=16,scale=0.35,W=40,sinks=5", "B=2,Hq=6,Hkv=3,Nq=21,D=16,scale=0.4,W=9,sinks=2",
        "Hq=4,Hkv=1,Nq=70,D=32,W=20,sinks=1", "Nq=130,D=64,W=33,sinks=20", "Nq=100,D=16,W=100,sinks=1",
        "Nq=100,D=16,W=30,sinks=4,input=rising", "Nq=260,D=16,W=30,sinks=70", "Nq=220,D=16,W=1,sinks=1",
        "Nq=260,D=16,W=100,sinks=3", "Hq=2,Hkv=1,Nq=300,D=32,W=20,sinks=4", "Hq=4,Hkv=2,Nq=260,D=32,W=10,sinks=40"},
    [10] = {"Hq=2,Nq=20,D=64,scale=0.2", "B=2,Hq=6,Hkv=2,Nq=70,Nk=200,D=64,scale=0.15",
        "Nq=300,Nk=421,D=64,input=stairs", "Hq=2,Hkv=1,Nq=300,D=64,causal=1", "Nq=400,D=64,causal=1,input=stairs",
        "B=2,Hq=4,Hkv=2,Nq=140,Nk=260,D=128", "Nq=300,D=128,causal=1", "Nq=100,Nk=400,D=64,input=early_max",
        "Nq=200,D=64,causal=1,input=rising", "Hq=16,Hkv=4,Nq=20,Nk=13,D=64", "Hq=24,Nq=20,D=64,causal=1"},
    [11] = {"Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7", "Hq=6,Hkv=3,Nq=60,D=16,W=60,logits=mixed",
        "Nq=300,D=16,W=100", "Nq=290,D=32", "Nq=300,D=64,W=33", "Nq=50,D=16,logits=0", "Nq=50,D=16,logits=-inf",
        "Nq=70,D=16,logits=1000", "Nq=70,D=16,logits=80,input=tiny", "Nq=70,D=16,logits=144,input=huge",
        "Nq=70,D=16,logits=-135,input=tiny", "Nq=150,D=16,W=40,logits=-3"},
    [12] = {"Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7", "B=3,Hq=4,Hkv=2,Nq=1,D=16,W=1",
        "Nq=150,D=16,scale=0.35,W=40", "B=2,Hq=6,Hkv=3,Nq=21,D=16,scale=0.4,W=9", "Hq=4,Hkv=1,Nq=70,D=32,W=20",
        "Nq=130,D=64,W=33", "Hq=2,Hkv=1,Nq=100,D=16,W=30,logits=0", "Hq=2,Hkv=1,Nq=50,D=16,W=30,logits=-inf",
        "Hq=2,Hkv=1,Nq=50,D=16,W=30,logits=100", "B=2,Hq=6,Hkv=2,Nq=60,D=16,W=20,logits=mixed",
        "Nq=100,D=16,W=30,input=rising", "Nq=220,D=16,W=1", "Hq=2,Hkv=1,Nq=300,D=32,W=20", "Nq=1100,D=16,W=5"},
    [13] = {"Nq=1,Nk=64,D=16", "Nq=1,Nk=3000,D=16,scale=0.4", "B=3,Hq=4,Hkv=2,Nq=1,Nk=300,D=16,lens=mixed",
        "B=5,Hq=4,Hkv=2,Nq=3,Nk=700,D=16,page=32,lens=edges", "B=2,Hq=16,Hkv=2,Nq=5,Nk=200,D=16,page=64",
        "Nq=16,Nk=5,D=16", "Nq=16,Nk=513,D=16", "Hq=2,Hkv=1,Nq=2,Nk=2000,D=16,input=huge",
        "Hq=2,Hkv=1,Nq=2,Nk=2000,D=16,input=tiny", "B=2,Hq=2,Nq=1,Nk=1500,D=16,page=128,input=stairs",
        "B=3,Hq=3,Hkv=1,Nq=7,Nk=450,D=32,page=256", "Hq=2,Nq=4,Nk=1000,D=64", "Hq=5,Nq=1,Nk=100,D=16"},
    [15] = {"Nq=192,D=128,mask=causal,scale=0.002,input=tiny", "Nq=128,Nk=64,D=16,mask=full",
        "Hq=2,Nq=300,Nk=700,D=16,mask=full", "Nq=200,D=16,mask=causal,scale=0.4", "Nq=300,D=16,mask=window/1",
        "B=3,Hq=2,Hkv=1,Nq=260,D=16,mask=documents/60,masks=3", "Nq=400,Nk=500,D=16,mask=random",
        "Nq=260,D=16,mask=gaps", "B=2,Hq=2,Hkv=1,Nq=260,D=32,mask=prefix/150,masks=2,q_tile=64",
        "Nq=300,D=32,mask=strided/100,q_tile=64", "Nq=64,Nk=500,D=64,mask=tree/64",
        "Nq=300,Nk=420,D=64,mask=random,q_tile=64", "Nq=300,D=32,mask=padded/90",
        "Nq=200,D=16,mask=causal,input=rising"},
    [16] = {"Hq=2,Nq=40,Nk=300,D=64,input=sizes", "B=2,Hq=6,Hkv=2,Nq=70,Nk=200,D=64,input=sizes",
        "Nq=100,Nk=420,D=64,input=leftward", "Hq=2,Hkv=1,Nq=300,D=64,causal=1,input=sizes",
        "B=2,Hq=4,Hkv=2,Nq=140,Nk=260,D=128,input=sizes", "Nq=64,Nk=1800,D=64,input=mean_one",
        "Nq=192,Nk=3300,D=64,input=falling", "Nq=200,D=64,causal=1,input=leftward",
        "B=2,Hq=4,Hkv=2,Nq=140,Nk=260,D=128,input=outliers"},
    [17] = OF_RANKS, [18] = OF_RANKS};
// clang-format on

static bool alike(const wb_problem *a, const wb_problem *b)
{
    return a->signature == b->signature && a->on_host == b->on_host && a->mask == b->mask && a->grouped == b->grouped &&
           a->window == b->window && a->sinks == b->sinks && a->sink_logits == b->sink_logits &&
           a->head_dims == b->head_dims;
}

int diagnose_cases(const wb_problem *problem, char cases[MAX_CASES][WB_CASE_TEXT])
{
    int count = 0;
    for (int n = 1; n < (int)(sizeof chosen / sizeof *chosen) && count == 0; n++) {
        const wb_problem *other = wb_problem_number(n);
        if (!other || !alike(problem, other)) continue;
        for (; chosen[n][count]; count++) snprintf(cases[count], WB_CASE_TEXT, "%s", chosen[n][count]);
    }
    if (count > 0) return count;
    wb_case small[MAX_CASES];
    count = wb_small_cases(problem, small, MAX_CASES);
    for (int n = 0; n < count; n++) wb_case_print(problem, &small[n], cases[n]);
    return count;
}
