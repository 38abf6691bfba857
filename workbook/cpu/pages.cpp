// pages.cpp - the numbers in the tables of a paged cache are looked at where a kernel reads them: see pages.h.
#include "report.h"

using namespace cudacpu;

void expect_page(int page, int pages, int sequence, int key, call_site site)
{
    const int sequences = current ? current->sequences : 0;  // 0: no tile was sought
    if (sequences && sequence >= sequences)
        report("no such tile", site,
               "gap share: first_of(total, teams, teams) must equal total, but the last team's share ends past the "
               "last tile. Detected at this page lookup:");
    if (page >= 0 && page < pages) return;
    report("no such page", site,
           "page %d was looked up for key %d of sequence %d, but the cache has only pages 0 to %d: another index of "
           "page_table belongs here, or the table is wrong",
           page, key, sequence, pages - 1);
}

void expect_keys(int keys, int most, int sequence, call_site site)
{
    if (keys >= 0 && keys <= most) return;
    report("no such length", site,
           "kv_len of sequence %d is %d, but must be 0 to %d: the pages in its row of page_table hold no more keys",
           sequence, keys, most);
}

void expect_tile(int sequence, int sequences, call_site site)
{
    if (current) current->sequences = sequences;
    if (sequence < sequences) return;
    report("no such tile", site,
           "the block looks up a tile past the last one. Either its team has no share (team >= teams) and should have "
           "returned, or gap share is wrong: first_of(total, k, teams) must be less than total for each k < teams.");
}
