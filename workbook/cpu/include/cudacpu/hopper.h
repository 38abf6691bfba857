// hopper.h - what workbook/hopper.cuh calls here: signals, the copy engine, products that run on their own,
// warpgroups. Everything asynchronous happens as late as the hardware may do it: see ../../engine.h.
#pragma once

#include "keywords.h"

namespace cudacpu
{
// Rows row0 ... row0 + rows - 1 of a tile: in panels whose rows have `line` bytes, exchanged as the copy engine does.
struct tile_rows {
    const void *at;
    int panels, panel_bytes, row0, rows;
    int line = 128;  // or 64, or 32
};

// A tensor [heads, N, D], cut into boxes of `rows` rows and all D columns, the same in each of box_heads heads.
struct tensor_box {
    const char *base;
    int heads, N, D, rows, box_heads;
    int bytes = 2;   // of an element: a bf16, or an e4m3
    int line = 128;  // as in tile_rows
};

// What one lane brings to a product C [64, cols] (+)= A B. Its own part of C: cols / 2 floats.
struct product_request {
    float *c;
    const uint32_t *weights;  // A in registers, depth / 4 of them, of e4m3 depth / 8; null: A is `a`
    tile_rows a, b;
    int cols, depth;
    bool deep;  // B lies as [depth, cols], not as [cols, depth]
    bool onto;  // C += A B
    call_site site;
    bool e4m3 = false;  // what the factors are; else bf16
};

bool tensor_describe(tensor_box &map_, const tensor_box &wanted_);  // false: there is no such map

float from_e4m3(uint8_t bits_);
uint8_t to_e4m3(float x_);                                   // nearest, ties to even; beyond 448, 448
void scores_weighed(const float *scores_, call_site site_);  // by a lane: they are made into weights, and stay

void signal_init(uint64_t *signal_, int arrivals_, call_site site_);
void signal_arrive(uint64_t *signal_, long bytes_, call_site site_);  // and promises bytes
void signal_wait(const uint64_t *signal_, unsigned phase_, call_site site_);
void signals_ready(call_site site_);

void copy_in(void *tile_, int bytes_, const tensor_box &map_, int row_, int head_, uint64_t *arrived_, call_site site_);
void copy_out(const void *tile_, int bytes_, const tensor_box &map_, int row_, int head_, call_site site_);
void copy_bytes_in(void *to_, const void *src_, int bytes_, uint64_t *arrived_, call_site site_);
void copy_bytes_out(void *to_, const void *src_, int bytes_, bool add_, call_site site_);
void stores_read(bool and_written_, call_site site_);
void tile_written(const tile_rows &rows_, call_site site_);
void writes_visible(call_site site_);
void store_8x8s(const tile_rows &rows_, void *at_, const uint32_t *x_,
                call_site site_);  // stmatrix .x4 .trans, one lane's part

void await(const unsigned *counter_, unsigned turn_, call_site site_);
bool is_turn(const unsigned *counter_, unsigned turn_, call_site site_);
void announce(unsigned *counter_, call_site site_);
void copy_past_cache(void *to_, const void *from_, size_t bytes_);  // what blocks hand to each other

void product_issue(const product_request &mine_);
void products_wait(int pending_, const float *c_, call_site site_);  // c: of a product that must be done then

void named_barrier(int barrier_, int threads_, bool wait_, call_site site_);
void registers_change(int registers_, bool take_, int blocks_, call_site site_);  // blocks: that share a multiprocessor

// ------------------------ what lies where in shared memory
// cuda_to_cpp.awk gives each struct of a file that includes hopper.cuh a list of its members, and turns
// reinterpret_cast<T *>(shared) into shared_as<T>(shared): so reports can say "K.full[1]".
void name_part(const char *path_, const void *at_, size_t bytes_);
void name_element(char (&part_)[128], const char *path_, size_t i_);
void name_member(char (&part_)[128], const char *path_, const char *name_);
void shared_type(void (*name_)(void *), void *at_);

struct member_visitor {
    template <class Member_> void operator()(const char *, Member_ &) const {}
};
template <class Type_, class = void> struct has_members : std::false_type {
};
template <class Type_>
struct has_members<Type_, std::void_t<decltype(std::declval<Type_ &>().cudacpu_members(member_visitor{}))>>
    : std::true_type {
};

template <class Type_> void name_parts(Type_ &x_, const char *path_)
{
    char part_[128];
    if constexpr (std::is_array_v<Type_> && !std::is_arithmetic_v<std::remove_all_extents_t<Type_>>) {
        for (size_t i_ = 0; i_ < std::extent_v<Type_>; i_++) {
            name_element(part_, path_, i_);
            name_parts(x_[i_], part_);
        }
    } else if constexpr (has_members<Type_>::value) {
        x_.cudacpu_members([&](const char *name_, auto &member_) {
            name_member(part_, path_, name_);
            name_parts(member_, part_);
        });
    } else {
        name_part(path_, &x_, sizeof x_);
    }
}

template <class Type_> Type_ *shared_as(void *at_)
{
    shared_type([](void *p_) { name_parts(*static_cast<Type_ *>(p_), ""); }, at_);
    return static_cast<Type_ *>(at_);
}
}
