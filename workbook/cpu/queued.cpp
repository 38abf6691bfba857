// queued.cpp - what a rank queues, in the order of the host's calls: rows for a picture of what computes and what
// travels (../timeline). Only where somebody asked (../layer_requests.h). A piece of work waits for what the clock of
// its stream names (flight.h); its own phase is its rank, its stream and its number there. A message is a phase to
// which both ranks arrive.
#include "flight.h"

#include <deque>

namespace cudacpu
{
static bool wanted;
static std::deque<flight_row> &all_rows = *new std::deque<flight_row>;

bool queued_wanted() { return record_file && wanted; }

flight_row *queued_add(const flight_row &row)
{
    all_rows.push_back(row);
    return &all_rows.back();
}

static int rank() { return std::max(0, nccl_rank()); }

static std::string phase_of(int stream, long number)
{
    return std::to_string(rank()) + "." + std::to_string(stream) + "#" + std::to_string(number);
}

static std::string phase_of(const flight_item &i)
{
    const int from = i.send ? rank() : i.peer, to = i.send ? i.peer : rank();
    return std::to_string(from) + " to " + std::to_string(to) + (i.all ? " of all#" : "#") + std::to_string(i.turn);
}

// What is over before this begins: of each other stream the last piece of work that there is a row of.
static std::string phases_before(const flight_row &w)
{
    std::string phases;
    for (int k = 0; k < STREAMS; k++) {
        long last = 0;
        for (const flight_row &o : all_rows)
            if (k != w.stream && o.stream == k && o.number <= w.before.at[k]) last = std::max(last, o.number);
        if (last) phases += "\t" + phase_of(k, last);
    }
    return phases;
}

static std::string row(const flight_row &w, const char *event, const std::string &what, double amount, const void *at,
                       call_site site, const std::string &phases)
{
    return std::to_string(rank()) + "." + std::to_string(w.stream) + "\tffffffff\t" +
           record_text(event, what, amount, at, site, phases);
}

// A group of messages begins when all partners' groups have, and is over after its bytes.
static std::string rows_of_messages(const flight_row &w)
{
    std::string arrivals, received, phases;
    double bytes[2] = {0, 0};  // in and out
    const flight_item *named = &w.items[0];
    for (const flight_item &i : w.items) {
        const std::string phase = phase_of(i);
        const double amount = static_cast<double>(i.bytes);
        arrivals += row(w, "arrive", flight_peer(rank()), 0, i.send ? i.at : nullptr, i.site, phase);
        if (!i.send) received += row(w, "receive", "", amount, i.at, i.site, phase);
        if (!i.send && named->send) named = &i;
        if (i.peer != rank()) bytes[i.send] += amount;
        phases += "\t" + phase;
    }
    const std::string what = named->call + std::string(named->send ? " to " : " from ") + flight_peer(named->peer);
    return row(w, "idle", "", 0, nullptr, w.site, phases_before(w)) + arrivals +
           row(w, "wait", "", 0, nullptr, named->site, phases) + received +
           row(w, "messages", what, std::max(bytes[0], bytes[1]), nullptr, named->site, phase_of(w.stream, w.number));
}

static std::string rows_of_work(const flight_row &w)
{
    const std::string name = w.name.substr(0, w.name.find('<'));
    return row(w, "wait", "", 0, nullptr, w.site, phases_before(w)) +
           row(w, w.kind, name, w.cost, w.keys, w.site, phase_of(w.stream, w.number));
}

// In one write: ranks that end at the same time share the file.
void queued_write()
{
    if (!record_file) return;
    std::string all;
    for (const flight_row &w : all_rows) all += w.items.empty() ? rows_of_work(w) : rows_of_messages(w);
    const ssize_t written = write(fileno(record_file), all.data(), all.size());
    if (written != static_cast<ssize_t>(all.size())) perror("rows of a rank");
    all_rows.clear();
}
}

extern "C" void wb_record_queued(bool from_here_on) { cudacpu::wanted = from_here_on; }
