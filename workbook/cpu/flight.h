// flight.h - of several ranks: what is queued, what may still be under way, and who waits for it. Streams as clocks.
//
// In a process that is a rank (nccl.cpp) nothing that is put on a stream runs before the host waits for it, or
// something does that the host waits for. A stream's clock says what of every stream is over before a piece of work
// begins. Events carry clocks from stream to stream, waits of the host to all that is queued afterwards. Two pieces of
// which neither's clock covers the other may meet on a GPU; whether they touch the same memory, and one writes, tell
// the ranges of messages and copies and the pages that kernels touch. So a report depends on the program alone.
#pragma once

#include "hooks.h"

namespace cudacpu
{
enum { STREAMS = 64, HOST = STREAMS };  // rows of clocks: streams (0: the default one), and the host
struct flight_clock {
    long at[STREAMS];  // how much of each stream is over
};
extern bool flying;  // this process is a rank; elsewhere nothing of this is kept

void flight_begin();
void flight_end();  // all that is queued has happened

// ------------------------ what is queued

struct flight_range {  // memory that a message or a copy reads or writes
    const char *at;
    size_t bytes;
    bool write;
    const char *call;  // "ncclRecv()"
    call_site site;
    int peer;              // of a message between two ranks, -1 of anything else
    unsigned element = 0;  // of such a message: bytes of a number
};
std::string flight_peer(int peer);                         // "rank 3"
bool meets(const flight_range &a, const flight_range &b);  // the same bytes, and one of them writes

struct flight_item {  // of a group of messages
    bool send, all;   // all: of a collective call
    int peer, turn;   // the turn-th of its kind to or from that peer
    size_t bytes;
    const char *at;  // null: of a sum that is not made yet
    const char *call;
    call_site site;
};

void flight_kernel(const kernel &what, cudaStream_t stream, std::function<void()> run);
void flight_work(const char *call, call_site site, cudaStream_t stream, std::vector<flight_range> ranges,
                 std::function<void()> run);
// Messages that begin together, and are over together. run: they begin.
void flight_messages(const std::vector<cudaStream_t> &streams, std::vector<flight_range> ranges,
                     std::vector<flight_item> items, int group, std::function<void()> run);

void flight_record(flight_clock &event, cudaStream_t stream);
void flight_wait(cudaStream_t stream, const flight_clock &event, void *code, void *recorded);  // instructions
void flight_host_waits(const flight_clock &clock);
void flight_host_waits_for(cudaStream_t stream);
void flight_host_waits_for_all();

bool flight_touched(const char *at, bool write, void *code);  // whether this fault opened a page

void flight_count(wb_asked &since);  // its kernels and messages
// Has something else run that could, while this rank waits; false if there is nothing.
bool flight_another();

// ------------------------ record.cpp
struct flight_row {
    int stream;
    long number;
    flight_clock before;
    const char *kind;  // "attention", "gradients": a kernel that counts; "kernel", "copy"; "messages"
    std::string name;
    call_site site;
    double cost;       // FLOPs of a product; bytes
    const void *keys;  // that a product reads
    std::vector<flight_item> items;
};
bool queued_wanted();  // whether somebody asked for rows (../layer_requests.h), of what is queued now
flight_row *queued_add(const flight_row &row);
void queued_write();  // all that was asked for has happened

// ------------------------ nccl.cpp
bool nccl_available(int group);  // whether all partners of these messages have begun
void nccl_arrive(int group);     // waits for that; the bytes are there
uint64_t nccl_sent();
int nccl_rank();    // -1: there is no other
void nccl_alone();  // this rank is about to report: back if no other has

// ------------------------ runtime_api.cpp
int stream_number(cudaStream_t stream);  // 0: the default one
bool stream_waits(int number);           // for the default one, and that for it

// ------------------------ products.cpp
char *record_room(size_t bytes);  // in the record of products; null: nobody wants it, or there is none

// ------------------------ memory.cpp
// Sets the protection of these bytes' pages; false if they are of no live buffer that is closed.
bool protect_pages_of(const char *at, size_t bytes, int protection);
size_t buffer_bytes(const void *at);  // from there on; 0: it is in none
bool inside_one_buffer(const void *at, size_t bytes, char *why, size_t size);
void poke(void *to, const void *from, size_t bytes);  // the host's way into closed pages; from null: NaN
void peek(void *to, const void *from, size_t bytes);
}
