// cases.c - what a function is run on to find its mistake.
#include "evidence.h"

// One list for all problems that are alike. A problem's cases lack the words that it has no use for.
// clang-format off
static const char *const no_mask[] = {"Nq=150,Nk=200,D=64,scale=0.002,input=tiny", "Hq=2,Nq=20,Nk=13,D=16,scale=0.4",
    "Nq=40,Nk=70,D=16,scale=0.0001", "B=2,Hq=2,Nq=40,Nk=300,D=16,input=stairs", "Nq=33,Nk=421,D=16,input=late_max",
    "Hq=2,Nq=150,Nk=200,D=32,scale=0.35", "B=2,Hq=3,Nq=130,Nk=128,D=16", "Nq=16,Nk=300,D=16,input=huge",
    "Nq=16,Nk=300,D=16,input=tiny", "Nq=16,Nk=400,D=16,input=falling", "B=2,Hq=2,Nq=70,D=16,causal=1,scale=0.4",
    "Nq=300,D=16,causal=1,input=stairs", "Nq=200,D=16,causal=1,input=rising", 0};
static const char *const causal[] = {"Nq=150,D=64,W=40,sinks=5,scale=0.002,input=tiny", "Hq=2,Nq=20,D=16,scale=0.4",
    "Nq=100,D=16,W=40,sinks=5,scale=0.0001", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7,sinks=3",
    "Hq=6,Hkv=3,Nq=60,D=16,W=60,logits=mixed", "Nq=300,D=16,W=100,sinks=6,input=stairs", "Nq=140,D=16,W=1,sinks=1",
    "Nq=300,D=16,W=5,sinks=2", "Nq=300,D=16,W=30,sinks=4,scale=0.35", "Nq=300,D=64,W=33,sinks=20",
    "Nq=400,D=16,W=64,sinks=100", "Nq=500,D=16,W=150,sinks=70", "Nq=330,D=16,W=10,sinks=150",
    "B=3,Hq=8,Hkv=4,Nq=20,D=16,W=12", "Nq=150,D=16,W=40,sinks=5,input=huge,logits=144",
    "Nq=330,D=16,W=40,sinks=5,input=falling", "Nq=200,D=64,input=early_max", "Nq=50,D=16,logits=-inf",
    "Nq=70,D=16,logits=1000,input=stairs", "Nq=200,D=16,W=2147483647,sinks=3", "Nq=200,D=16,W=20,sinks=2147483647", 0};
static const char *const backward[] = {"Hq=2,Nq=20,D=16,scale=0.4", "B=2,Hq=6,Hkv=2,Nq=40,D=16,W=7,sinks=3",
    "B=3,Hq=4,Hkv=2,Nq=1,D=16,W=1", "Nq=150,D=16,scale=0.35,W=40,sinks=5", "Hq=4,Hkv=1,Nq=70,D=32,W=20,sinks=1",
    "Nq=130,D=64,W=33,sinks=20", "Hq=2,Hkv=1,Nq=100,D=16,W=100,sinks=1,logits=0", "Nq=260,D=16,W=30,sinks=70",
    "B=2,Hq=2,Hkv=1,Nq=300,D=32,W=20,sinks=4", "Hq=4,Hkv=2,Nq=260,D=32,W=10,sinks=40",
    "Hq=2,Hkv=1,Nq=50,D=16,W=30,logits=-inf", "Hq=2,Hkv=1,Nq=50,D=16,W=30,logits=100",
    "B=2,Hq=6,Hkv=2,Nq=60,D=16,W=20,logits=mixed", "Hq=2,Nq=1060,D=16,W=5,logits=3", "Nq=100,D=16,input=huge",
    "Hq=2,Nq=150,D=16,W=2147483647", "Hq=2,Nq=150,D=16,W=20,sinks=2147483647", 0};
static const char *const hopper[] = {"Hq=2,Nq=20,D=64,scale=0.2", "B=2,Hq=6,Hkv=2,Nq=70,Nk=200,D=64,scale=0.15",
    "Nq=300,Nk=421,D=64,input=stairs", "Hq=2,Hkv=1,Nq=300,D=64,causal=1", "Nq=400,D=64,causal=1,input=stairs",
    "B=2,Hq=4,Hkv=2,Nq=140,Nk=260,D=128", "Nq=300,D=128,causal=1", "Nq=100,Nk=400,D=64,input=early_max",
    "Nq=200,D=64,causal=1,input=rising", "Hq=16,Hkv=4,Nq=20,Nk=13,D=64", "Hq=24,Nq=20,D=64,causal=1", 0};
static const char *const decode[] = {"Nq=1,Nk=64,D=16", "Nq=1,Nk=3000,D=16,scale=0.4",
    "B=3,Hq=4,Hkv=2,Nq=1,Nk=300,D=16,lens=mixed", "B=5,Hq=4,Hkv=2,Nq=3,Nk=700,D=16,page=32,lens=edges",
    "B=2,Hq=16,Hkv=2,Nq=5,Nk=200,D=16,page=64", "Nq=16,Nk=5,D=16", "Nq=16,Nk=513,D=16",
    "Hq=2,Hkv=1,Nq=2,Nk=2000,D=16,input=huge", "Hq=2,Hkv=1,Nq=2,Nk=2000,D=16,input=tiny",
    "B=2,Hq=2,Nq=1,Nk=1500,D=16,page=128,input=stairs", "B=3,Hq=3,Hkv=1,Nq=7,Nk=450,D=32,page=256",
    "Hq=2,Nq=4,Nk=1000,D=64", "Hq=5,Nq=1,Nk=100,D=16", "B=4,Hq=2,Nq=1,Nk=300,D=16,lens=mixed,processors=1", 0};
static const char *const listed[] = {"Nq=192,D=128,mask=causal,scale=0.002,input=tiny", "Nq=128,Nk=64,D=16,mask=full",
    "Hq=2,Nq=300,Nk=700,D=16,mask=full", "Nq=200,D=16,mask=causal,scale=0.4", "Nq=300,D=16,mask=window/1",
    "B=3,Hq=2,Hkv=1,Nq=260,D=16,mask=documents/60,masks=3", "Nq=400,Nk=500,D=16,mask=random", "Nq=260,D=16,mask=gaps",
    "B=2,Hq=2,Hkv=1,Nq=256,D=32,mask=prefix/150,masks=2,q_tile=64", "Nq=300,D=32,mask=strided/100,q_tile=64",
    "Nq=64,Nk=500,D=64,mask=tree/64", "Nq=300,Nk=420,D=64,mask=random,q_tile=64", "Nq=300,D=32,mask=padded/90",
    "Nq=200,D=16,mask=causal,input=rising", 0};
static const char *const e4m3[] = {"Hq=2,Nq=40,Nk=300,D=64,input=sizes",
    "Hq=4,Hkv=2,Nq=40,Nk=300,D=64,scale=0.002,input=sizes", "B=2,Hq=4,Hkv=2,Nq=70,Nk=130,D=64,input=sizes",
    "Nq=100,Nk=420,D=64,input=leftward", "Nq=300,D=64,causal=1,input=sizes",
    "Hq=2,Hkv=1,Nq=140,Nk=260,D=128,input=sizes", "Nq=256,Nk=2048,D=64,seed=2,input=sizes", 0};
static const char *const ranks[] = {"Hq=2,Hkv=1,Nq=12,D=64,causal=1,scale=0.3,prior=255",
    "Hq=2,Hkv=1,Nq=9,D=64,scale=0.3,prior=255", "ranks=2,Hq=2,Hkv=1,Nq=16,D=64,causal=1,scale=0.3,prior=255",
    "ranks=3,B=2,Hq=2,Hkv=1,Nq=18,D=64,causal=1,scale=0.3,prior=255", "ranks=3,Hq=2,Nq=18,D=64,scale=0.3,prior=255",
    "ranks=4,Hq=2,Hkv=1,Nq=16,D=64,scale=0.3,prior=255", "ranks=2,Hq=2,Hkv=1,Nq=15,D=64,causal=1,scale=0.3,prior=255",
    "ranks=3,Hq=2,Hkv=1,Nq=16,D=64,scale=0.3,prior=255", 0};
static const char *const rows[] = {"rows=160,cols=1024", "rows=304,cols=32", "rows=400,cols=37",
    "rows=160,cols=100", 0};
// clang-format on

static const char *const *list_for(const wb_problem *p)
{
    return wb_has_ranks(p)                 ? ranks
           : p->signature == WB_ROW_SUM    ? rows
           : p->signature == WB_BACKWARD   ? backward
           : p->signature == WB_DECODE     ? decode
           : p->signature == WB_BLOCK_MASK ? listed
           : p->signature == WB_FP8        ? e4m3
           : p->mask == WB_CAUSAL          ? causal
           : p->head_dims[0] == 64         ? hopper
                                           : no_mask;
}

static bool has_use_for(const wb_problem *p, const char *word)
{
    return strncmp(word, "Hkv", 3) == 0      ? p->grouped
           : strncmp(word, "W=", 2) == 0     ? p->window
           : strncmp(word, "sinks", 5) == 0  ? p->sinks
           : strncmp(word, "logits", 6) == 0 ? p->sink_logits
           : strncmp(word, "causal", 6) == 0 ? p->mask == WB_CAUSAL_OPTIONAL
                                             : true;
}

int diagnose_cases(const wb_problem *problem, char cases[MAX_CASES][WB_CASE_TEXT])
{
    int count = 0;
    for (const char *const *all = list_for(problem); all[count]; count++) {
        char text[WB_CASE_TEXT], *rest = text;
        snprintf(text, sizeof text, "%s", all[count]);
        *cases[count] = 0;
        for (const char *word; (word = strsep(&rest, ","));)
            if (has_use_for(problem, word)) APPEND(cases[count], "%s%s", *cases[count] ? "," : "", word);
    }
    return count;
}
