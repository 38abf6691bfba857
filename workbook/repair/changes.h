// changes.h - all changes of a source in one place, and the source that has them all (choice.h).
#pragma once

#include "repair/shared.h"

#include <stdbool.h>
#include <stdio.h>

// How likely a change is what was forgotten: those of the first kind are tried first.
typedef enum change_kind {
    CHANGE_MISSING,    // a statement of the reference solution's that the source has not
    CHANGE_OPERAND,    // another operand, another comparison
    CHANGE_NEAR,       // one more or less, 0, another operator
    CHANGE_CONDITION,  // another name; a term less
    CHANGE_FACTOR,     // a factor or a term; a condition that always or never holds
    CHANGE_TURNED,     // the opposite: another sign, another direction
    CHANGE_KINDS,
    CHANGE_SWAP  // another text in place of a part, or a probe, which is no edit
} change_kind;

typedef struct change {
    int line;      // of the source
    int at, end;   // there: what it replaces
    int site;      // changes of one place have one number
    int theirs;    // CHANGE_MISSING: its line in the reference solution's text
    int as_it_is;  // the id whose hash this one's is to differ from; 0: it only has to be reached
    change_kind kind;
    const char *put, *of;  // `BC` in place of `cols`
} change;

// Reads a source and its skeleton ("" for none). False if there is nothing to change, or too much: swaps are possible.
bool changes_read(const char *source, const char *skeleton);

// Swap n is the reference solution's text in place of a gap, from text[at] to text[end], with probes (probe.h) at the
// end of both: `of` of the changes behind the swap's is what they are of. A statement that the gap has not is one, too.
// alone: a swap behind it is not on if it is, since the gap's names are used there. False: it is not possible.
bool changes_swap(int n, int at, int end, const char *other, int length, bool *alone);

// Writes the source with all changes that are still there; its lines are remembered.
void changes_write(FILE *to);

// What stands in the place of what a change replaces; and how the line where that begins then reads.
const char *changes_text(const change *c), *changes_quote(const change *c);

// Drops what no change needs of which wanted[id] is true.
void changes_keep(const bool *wanted);

// Drops what stands in line `line` of what was written last; false if nothing does.
bool changes_drop(int line);

extern change changes[REPAIR_IDS];
extern int change_count;  // ids run from 1
