// operators.cpp - attention and its gradients as operators of PyTorch, registered from C++: between a caller and
// libworkbook.so there is no Python. library.py builds this file for the PyTorch that is there. What is asked of
// tensors is asked in expect(), and arguments.py finds the better words for it. window 0: none. scale none: 1 /
// sqrt(D). path "": the default library.
//
// ATen's C++ is used, not its stable ABI, which has no autograd: one build is for one version of PyTorch.
#include <ATen/Functions.h>
#include <ATen/TensorSubclassLikeUtils.h>
#include <c10/core/DeviceGuard.h>
#include <dlfcn.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <climits>
#include <cmath>
#include <cstring>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>

#include "workbook.h"

#ifdef WITH_CUDA
extern "C" int aoti_torch_get_current_cuda_stream(int32_t device, void **stream);  // in each libtorch_cuda since 2.2
extern "C" __attribute__((weak)) int cudaStreamIsCapturing(void *stream, int *status);  // PyTorch's, if it has it so
#endif

namespace
{

using at::Tensor;
using c10::SymInt;
using std::optional;
using torch::autograd::AutogradContext, torch::autograd::variable_list;
using Two = std::tuple<Tensor, Tensor>;

// ------------------------ the library

#define FORMS(each, name) each(name) each(name##_in) each(name##_workspace)
#define FUNCTIONS(each) \
    each(wb_device_name) each(wb_device_capability) each(wb_last_message) each(flash_forward) each(flash_gqa) \
        each(flash_window) each(flash_sinks) each(flash_hopper) each(flash_sink_logits) each(flash_block_mask) \
            each(flash_wide) each(flash_gqa_backward_fastest) each(wb_heads_first) each(wb_scored_backward) \
                each(wb_add_share) FORMS(each, flash_gqa_backward) FORMS(each, flash_sinks_backward) \
                    FORMS(each, flash_sink_logits_backward)

struct Library {
    std::string path;
    c10::DeviceType device;
#define MEMBER(name) decltype(&::name) name = nullptr;
    FUNCTIONS(MEMBER)
};

std::string default_path;

// "": the default one. They stay open.
const Library &library(std::string_view path)
{
    static std::mutex lock;
    static std::unordered_map<std::string, Library> open;
    static const Library *usual = nullptr;
    const std::lock_guard<std::mutex> one(lock);
    if (path.empty() && usual) return *usual;
    const std::string name(path.empty() ? default_path : path);
    Library &lib = open[name];
    if (lib.path.empty()) {
        void *handle = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
        TORCH_CHECK(handle, dlerror(), ". make lib builds it in a checkout, pip install . beside flash_workbook; or ",
                    "WB_LIBRARY names another");
#define FIND(name) lib.name = reinterpret_cast<decltype(lib.name)>(dlsym(handle, #name));
        FUNCTIONS(FIND)
        TORCH_CHECK(lib.wb_device_name && lib.wb_last_message, name, " is not a library of the workbook");
        lib.device = strcmp(lib.wb_device_name(), "CPU execution layer") ? c10::kCUDA : c10::kCPU;
        lib.path = name;
    }
    if (path.empty()) usual = &lib;
    return lib;
}

// On the tensor's device and torch's current stream there, as long as it lives.
struct Place {
    c10::OptionalDeviceGuard guard;
    wb_stream stream = nullptr;

    Place(const Library &lib, const Tensor &x)
    {
        TORCH_CHECK_VALUE(x.device().type() == lib.device, lib.path, " works on tensors on device ",
                          c10::DeviceTypeName(lib.device, true), ", but these are on ", x.device());
#ifdef WITH_CUDA
        if (!x.is_cuda()) return;
        guard.reset_device(x.device());
        void *current = nullptr;
        TORCH_CHECK(aoti_torch_get_current_cuda_stream(x.device().index(), &current) == 0, "no current stream");
        stream = static_cast<wb_stream>(current);
#endif
    }

    // Whether a CUDA graph keeps what is called here; no graph captures the default stream.
    bool captures() const
    {
        int status = 0;
#ifdef WITH_CUDA
        if (stream) status = !cudaStreamIsCapturing || cudaStreamIsCapturing(stream, &status) || status;
#endif
        return status;
    }
};

template <class Function, class... Arguments>
void call(const Library &lib, const char *name, Function *function, Arguments... arguments)
{
    TORCH_CHECK_NOT_IMPLEMENTED(function, lib.path, " has no ", name);
    const wb_status status = function(arguments...);
    TORCH_CHECK_NOT_IMPLEMENTED(status == WB_OK, lib.wb_last_message());
}

// ------------------------ the tensors

void expect(const Tensor &Q, const Tensor &K, const Tensor &V, const optional<Tensor> &sinks, bool tokens_first)
{
    for (const Tensor *x : {&Q, &K, &V}) {
        TORCH_CHECK_NOT_IMPLEMENTED(!x->_fw_grad(0).defined(), "attention has no forward-mode derivatives");
        TORCH_CHECK_VALUE(x->dim() == 4 && x->device() == Q.device() && x->layout() == at::kStrided,
                          "attention: Q, K and V must have 4 dimensions, on one device");
        TORCH_CHECK_TYPE(x->scalar_type() == at::kBFloat16, "attention takes Q, K and V in bfloat16");
    }
    const int heads = tokens_first ? 2 : 1;
    const SymInt Hq = Q.sym_size(heads), Hkv = K.sym_size(heads);
    const bool fit = K.sym_sizes().slice(0, 3) == V.sym_sizes().slice(0, 3) && K.sym_size(0) == Q.sym_size(0) &&
                     K.sym_size(3) == Q.sym_size(3);
    TORCH_CHECK_VALUE(fit && (Hkv == 0 ? Hq == 0 : Hq % Hkv == 0), "attention of Q ", Q.sym_sizes(), ", K ",
                      K.sym_sizes(), ", V ", V.sym_sizes());
    TORCH_CHECK_NOT_IMPLEMENTED(Q.sym_size(3) != 0 && V.sym_size(3) != 0, "attention: head_dim = 0");
    if (!sinks) return;
    TORCH_CHECK_TYPE(sinks->scalar_type() == at::kFloat, "attention: sink_logits must be float32");
    TORCH_CHECK_VALUE(sinks->dim() == 1 && sinks->sym_size(0) == Hq && sinks->device() == Q.device(),
                      "attention: sink_logits must be [Hq], on the device of Q");
}

Tensor as_given(const Tensor &x, bool tokens_first) { return tokens_first ? x.transpose(1, 2) : x; }

// At an address that the library takes: a part of another tensor may begin anywhere.
Tensor aligned(const Tensor &x) { return reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 ? x.clone() : x; }

template <class T> T *out(const Tensor &x) { return static_cast<T *>(x.mutable_data_ptr()); }
template <class T> const T *in(const Tensor &x) { return static_cast<const T *>(x.const_data_ptr()); }

// Whether it is one piece in the order batch, head (dimension h), token (n), which no tensor is made to find out.
bool is_heads_first(at::IntArrayRef size, at::IntArrayRef stride, int n, int h)
{
    int64_t step = 1;
    for (const int d : {3, n, h, 0}) {
        if (size[d] != 1 && stride[d] != step) return false;
        step *= size[d];
    }
    return true;
}

// As the library reads them: contiguous, with heads before tokens. Those that are not are copied, in one launch where
// it takes their strides.
void in_order(const Library &lib, const Place &place, c10::ArrayRef<Tensor *> all, bool tokens_first)
{
    wb_tokens copies[5];
    Tensor *of[5];
    int count = 0;
    int64_t elements = 0;
    const int n = tokens_first ? 1 : 2, h = 3 - n;
    bool taken = lib.wb_heads_first;
    for (Tensor *x : all) {
        const auto size = x->sizes(), stride = x->strides();
        if (is_heads_first(size, stride, n, h)) {
            *x = as_given(*x, tokens_first);
            continue;
        }
        copies[count] = {nullptr,      in<bf16>(*x), (int)size[0], (int)size[n],
                         (int)size[h], stride[0],    stride[n],    stride[h]};
        taken = taken && stride[3] == 1 && size[3] % 8 == 0;
        elements += x->numel(), of[count++] = x;
    }
    Tensor memory;
    if (taken && count) {
        memory = at::empty({elements}, of[0]->options());
        int64_t at = 0;
        for (int i = 0; i < count; i++) copies[i].to = out<bf16>(memory) + at, at += of[i]->numel();
        for (int i = 0, n; i < count && taken; i += n) {  // those of one D in one launch
            for (n = 1; n < 4 && i + n < count && of[i + n]->size(3) == of[i]->size(3);) n++;
            taken = lib.wb_heads_first(copies + i, n, (int)of[i]->size(3), place.stream) == WB_OK;
        }
    }
    for (int i = 0; i < count; i++) {
        const int64_t B = copies[i].batch, N = copies[i].tokens, H = copies[i].heads, D = of[i]->size(3);
        *of[i] = taken ? memory.as_strided({B, H, N, D}, {H * N * D, N * D, D, 1}, copies[i].to - in<bf16>(memory))
                       : as_given(*of[i], tokens_first).contiguous();
    }
    for (Tensor *x : all) *x = aligned(*x);
}

attention_shape shape_of(const Tensor &Q, const Tensor &K, bool sink_logits, bool causal, int64_t window,
                         int64_t sink_tokens, optional<double> scale)
{
    const auto q = Q.sizes(), k = K.sizes();
    const auto number = [](int64_t x) { return (int)std::min<int64_t>(std::max<int64_t>(x, -INT_MAX), INT_MAX); };
    const float scaled = (float)scale.value_or(1 / std::sqrt((double)q[3]));
    if (!window && sink_logits) window = (int)q[2];
    const int sinks = window ? number(sink_tokens) : 0;
    return {(int)q[0], (int)q[1], (int)k[1], (int)q[2], (int)k[2], (int)q[3], scaled, causal, number(window), sinks};
}

// O and L with nothing in them.
Two like(const Tensor &Q, const Tensor &V, bool tokens_first)
{
    const auto n = Q.sym_sizes();
    const SymInt H = n[tokens_first ? 2 : 1], N = n[tokens_first ? 1 : 2];
    const Tensor O = at::empty_symint({n[0], H, N, V.sym_size(3)}, Q.options());
    return {as_given(O, tokens_first), at::empty_symint({n[0], H, N}, Q.options().dtype(at::kFloat))};
}

// The least head dimensions of Q and V of a kernel that both fit into.
std::pair<int64_t, int64_t> kernel_dims(const Tensor &Q, const Tensor &V)
{
    const int64_t D = Q.sym_size(3).guard_int(__FILE__, __LINE__), DV = V.sym_size(3).guard_int(__FILE__, __LINE__);
    for (const int64_t has : {16, 32, 64, 128})
        if (std::max(D, DV) <= has) return {has, has};
    TORCH_CHECK_NOT_IMPLEMENTED(D > 128 && std::max(D, DV) <= 256, "attention: head_dim = ", D, ", of V ", DV,
                                ": kernels support at most 256, and V above 128 only if Q is above 128");
    return D <= 192 && DV <= 128 ? std::pair{192, 128} : std::pair{256, 256};
}
bool is_padded(const Tensor &Q, const Tensor &V)
{
    const auto [D, DV] = kernel_dims(Q, V);
    return Q.sym_size(3) != D || V.sym_size(3) != DV;
}

// O and L of head dimensions that no kernel has, by `of`, which gets them with zeros behind, and heads before tokens.
// Scores stay what they are, and the columns of O that V has not are cut off. Autograd goes through all of it.
template <class Function>
Two padded(const Tensor &Q, const Tensor &K, const Tensor &V, bool tokens_first, optional<double> scale, Function of)
{
    const auto [D, DV] = kernel_dims(Q, V);
    const auto with_zeros = [&](const Tensor &x, int64_t wide) {
        return at::constant_pad_nd_symint(as_given(x, tokens_first), {0, wide - x.sym_size(3)});
    };
    const double scaled = scale.value_or(1 / std::sqrt((double)Q.sym_size(3).guard_int(__FILE__, __LINE__)));
    const auto [O, L] = of(with_zeros(Q, D), with_zeros(K, D), with_zeros(V, DV), scaled);
    return {as_given(O.slice_symint(3, 0, V.sym_size(3)).contiguous(), tokens_first), L};
}

// ------------------------ the operators

Two forward(const Tensor &Q_, const Tensor &K_, const Tensor &V_, const optional<Tensor> &sinks, bool causal,
            int64_t window, int64_t sink_tokens, optional<double> scale, bool, std::string_view path, bool tokens_first)
{
    expect(Q_, K_, V_, sinks, tokens_first);
    TORCH_CHECK_VALUE(window >= 0 && sink_tokens >= 0, "attention: window = ", window, ", sink_tokens = ", sink_tokens,
                      ": must not be negative");
    TORCH_CHECK_VALUE(!scale || (*scale > 0 && std::isfinite(*scale)), "attention: scale must be positive and finite");
    TORCH_CHECK_VALUE(causal || !(window || sink_tokens || sinks), "a window and sinks require causal attention");
    TORCH_CHECK_VALUE(!sinks || !sink_tokens, "sink_tokens and sink_logits cannot be combined");
    if (is_padded(Q_, V_))
        return padded(Q_, K_, V_, tokens_first, scale, [&](Tensor Q, Tensor K, Tensor V, double scale) {
            return forward(Q, K, V, sinks, causal, window, sink_tokens, scale, false, path, false);
        });
    const Library &lib = library(path);
    const Place place(lib, Q_);
    const auto [O, L] = like(Q_, V_, tokens_first);
    if (!Q_.numel() || !K_.numel()) {
        O.zero_();
        if (sinks)
            L.copy_(sinks->unsqueeze(1));
        else
            L.fill_(-INFINITY);
        return {O, L};
    }
    Tensor Q = Q_, K = K_, V = V_;
    in_order(lib, place, {&Q, &K, &V}, tokens_first);
    attention_shape shape = shape_of(Q, K, sinks.has_value(), causal, window, sink_tokens, scale);
#define OF_FORWARD    out<bf16>(O), out<float>(L), in<bf16>(Q), in<bf16>(K), in<bf16>(V)
#define FORWARD(name) call(lib, #name, lib.name, OF_FORWARD, &shape, place.stream)
    if (shape.head_dim > 128 && !sinks && !shape.window) {
        FORWARD(flash_wide);
    } else if (sinks) {
        const Tensor s = sinks->contiguous();
        call(lib, "flash_sink_logits", lib.flash_sink_logits, OF_FORWARD, in<float>(s), &shape, place.stream);
    } else if (causal && shape.window) {
        if (shape.sinks)
            FORWARD(flash_sinks);
        else
            FORWARD(flash_window);
    } else if (causal) {
        FORWARD(flash_gqa);
    } else if (shape.q_heads != shape.kv_heads && lib.wb_device_capability() == 9 &&
               (shape.head_dim == 64 || shape.head_dim == 128)) {
        FORWARD(flash_hopper);
    } else {  // without a mask the rows of a group's heads, which lie one behind the other, are rows of one head
        shape.q_len *= shape.q_heads / shape.kv_heads, shape.q_heads = shape.kv_heads;
        FORWARD(flash_forward);
    }
    return {O, L};
}

Two forward_meta(const Tensor &Q, const Tensor &K, const Tensor &V, const optional<Tensor> &sinks, bool, SymInt, SymInt,
                 optional<double>, bool, std::string_view, bool tokens_first)
{
    expect(Q, K, V, sinks, tokens_first);
    return like(Q, V, tokens_first);
}

std::vector<std::vector<Tensor>> &captured = *new std::vector<std::vector<Tensor>>;  // masks that CUDA graphs read

// Under a mask, as masks.py has it. packed: of tokens before heads and no batch, [T, H, D], and so is O.
Two masked(const Tensor &Q_, const Tensor &K_, const Tensor &V_, const Tensor &whole_start, const Tensor &whole,
           const Tensor &part_start, const Tensor &part, const Tensor &bits, int64_t q_tile, double scale,
           std::string_view path, bool packed)
{
    const auto batched = [packed](const Tensor &x) { return packed ? x.unsqueeze(0) : x; };
    Tensor Q = batched(Q_), K = batched(K_), V = batched(V_);
    expect(Q, K, V, std::nullopt, packed);
    if (is_padded(Q, V)) {
        const auto [O, L] = padded(Q, K, V, packed, scale, [&](Tensor Q, Tensor K, Tensor V, double) {
            return masked(Q, K, V, whole_start, whole, part_start, part, bits, q_tile, scale, path, false);
        });
        return packed ? Two{O.squeeze(0), L.squeeze(0)} : Two{O, L};
    }
    const int64_t B = Q.size(0), tokens = Q.size(packed ? 1 : 2), H = Q.size(packed ? 2 : 1);
    const Two outputs = packed ? Two{at::empty({H, tokens, V.size(3)}, Q.options()).transpose(0, 1),
                                     at::empty({H, tokens}, Q.options().dtype(at::kFloat))}
                               : like(Q, V, false);
    const auto &[O, L] = outputs;
    if (!Q.numel() || !K.numel()) {
        O.zero_(), L.fill_(-INFINITY);
        return outputs;
    }
    const int64_t tiles = q_tile > 0 ? (tokens - 1) / q_tile + 1 : 0;
    for (const Tensor *x : {&whole_start, &whole, &part_start, &part, &bits})
        TORCH_CHECK_VALUE(x->scalar_type() == at::kInt && x->is_contiguous() && x->device() == Q.device(),
                          "a mask's lists must be contiguous int32 tensors on the device of Q");
    for (const Tensor *x : {&whole_start, &part_start})
        TORCH_CHECK_VALUE(x->dim() == 2 && x->size(1) == tiles + 1 && (x->size(0) == 1 || x->size(0) == B),
                          "a mask of ", x->sizes(), " for ", tokens, " queries in tiles of ", q_tile);
    const Library &lib = library(path);
    const Place place(lib, Q);
    if (place.captures()) captured.push_back({whole_start, whole, part_start, part, bits});
    in_order(lib, place, {&Q, &K, &V}, packed);
    const block_mask mask = {(int)q_tile,
                             64,
                             (int)whole_start.size(0),
                             in<int>(whole_start),
                             in<int>(whole),
                             in<int>(part_start),
                             in<int>(part),
                             in<uint32_t>(bits)};
    const attention_shape shape = shape_of(Q, K, false, false, 0, 0, scale);
    call(lib, "flash_block_mask", lib.flash_block_mask, OF_FORWARD, &mask, &shape, place.stream);
    return outputs;
}

Two masked_meta(const Tensor &Q, const Tensor &K, const Tensor &V, const Tensor &, const Tensor &, const Tensor &,
                const Tensor &, const Tensor &, SymInt, double, std::string_view, bool packed)
{
    TORCH_CHECK_VALUE(!packed, "flash_workbook::masked of packed sequences cannot be traced");
    expect(Q, K, V, std::nullopt, false);
    return like(Q, V, false);
}

// How many bytes of workspace the last shapes wanted: to ask the library is to let it choose a kernel.
size_t workspace_of(decltype(&flash_gqa_backward_workspace) function, const attention_shape &shape, int device)
{
    struct Known {
        decltype(function) of;
        attention_shape shape;
        int device;
        size_t bytes;
    };
    static thread_local Known known[8];
    static thread_local unsigned next;
    for (const Known &one : known)
        if (one.of == function && one.device == device && !memcmp(&one.shape, &shape, sizeof shape)) return one.bytes;
    return (known[next++ % 8] = {function, shape, device, function(&shape)}).bytes;
}

std::vector<Tensor> gradients_like(const Tensor &Q, const Tensor &K, const Tensor &V, const optional<Tensor> &sinks)
{
    std::vector<Tensor> all;
    for (const Tensor *x : {&Q, &K, &V}) all.push_back(at::empty_symint(x->sym_sizes(), x->options()));
    if (sinks) all.push_back(at::empty_symint(sinks->sym_sizes(), sinks->options()));
    return all;
}

std::vector<Tensor> zeroed(std::vector<Tensor> all)
{
    for (Tensor &x : all) x.zero_();
    return all;
}

// In backward(), by their names there.
#define GRADIENTS out<bf16>(gradients[0]), out<bf16>(gradients[1]), out<bf16>(gradients[2])
#define INPUTS    in<bf16>(Q), in<bf16>(K), in<bf16>(V)
#define OUTPUTS   in<bf16>(O), in<float>(L), in<bf16>(dO), &shape, place.stream
#define BACKWARD(name, form, ...) \
    do { \
        make_room(lib.name##form ? lib.name##_workspace : nullptr); \
        if (lib.name##form) \
            call(lib, #name, lib.name##form, workspace, bytes, GRADIENTS, __VA_ARGS__, OUTPUTS); \
        else \
            call(lib, #name, lib.name, GRADIENTS, __VA_ARGS__, OUTPUTS); \
    } while (0)

// Of tensors with heads before tokens.
std::vector<Tensor> backward(const Tensor &dO_, const Tensor &Q_, const Tensor &K_, const Tensor &V_,
                             const optional<Tensor> &sinks, const Tensor &O_, const Tensor &L_, bool causal,
                             int64_t window, int64_t sink_tokens, optional<double> scale, bool same_bits,
                             std::string_view path, const optional<Tensor> &dL)
{
    expect(Q_, K_, V_, sinks, false);
    TORCH_CHECK_VALUE(dO_.sizes() == Q_.sizes() && O_.sizes() == Q_.sizes() && V_.sizes() == K_.sizes() &&
                          dO_.scalar_type() == at::kBFloat16 && O_.scalar_type() == at::kBFloat16 &&
                          L_.scalar_type() == at::kFloat && L_.numel() * Q_.size(3) == Q_.numel() &&
                          dO_.device() == Q_.device() && (!dL || dL->sizes() == L_.sizes()),
                      "attention_backward: dO and O are as Q, V as K, L and dL [B, Hq, N]");
    const Library &lib = library(path);
    const Place place(lib, Q_);
    if (!Q_.numel() || !K_.numel()) return zeroed(gradients_like(Q_, K_, V_, sinks));
    Tensor dO = dO_, Q = Q_, O = O_, L = L_;
    attention_shape shape = shape_of(Q, K_, sinks.has_value(), causal, window, sink_tokens, scale);
    // The kernel for any score takes a gradient of L, in float32, and on other GPUs what no other does.
    const bool scored = dL || (!causal && lib.wb_device_capability() != 9);
    const int64_t Nq = Q.size(2), Nk = K_.size(2), more = causal || scored ? 0 : (Nk - Nq % Nk) % Nk;
    if (!causal && !scored) {
        // The library wants as many queries as keys. Rows of zeros, whose dO is 0, add nothing to any gradient; every
        // Nk rows are those of one more head.
        if (more) {
            for (Tensor *x : {&dO, &Q, &O}) *x = at::constant_pad_nd(*x, {0, 0, 0, more});
            L = at::constant_pad_nd(L, {0, more});
        }
        shape.q_len = (int)Nk, shape.q_heads *= (int)((Nq + more) / Nk);
    }
    L = aligned(L.contiguous());
    Tensor K = K_, V = V_;
    in_order(lib, place, {&dO, &Q, &O, &K, &V}, false);
    const Tensor s = sinks ? sinks->contiguous() : Tensor();
    std::vector<Tensor> gradients = gradients_like(Q, K, V, sinks);
    // delta and the workspace are one tensor. Freed when this returns, it goes to nobody but who comes after on this
    // stream.
    const size_t delta_bytes = (L.numel() * sizeof(float) + 255) / 256 * 256;
    Tensor scratch;
    float *delta;
    void *workspace;
    size_t bytes;
    const auto make_room = [&](decltype(&flash_gqa_backward_workspace) wants) {
        bytes = wants ? workspace_of(wants, shape, Q.get_device()) : 0;
        scratch = at::empty({(int64_t)(delta_bytes + bytes + 256)}, Q.options().dtype(at::kByte));
        char *start =
            reinterpret_cast<char *>((reinterpret_cast<uintptr_t>(scratch.mutable_data_ptr()) + 255) / 256 * 256);
        delta = reinterpret_cast<float *>(start), workspace = start + delta_bytes;
    };
    if (scored) {
        const Tensor at = at::arange(Nq, Q.options().dtype(at::kInt)), last = causal ? at : at::full_like(at, Nk - 1);
        const Tensor first = shape.window ? at.sub(shape.window - 1) : at::zeros_like(at);
        const Tensor of_L = dL ? dL->to(at::kFloat).contiguous() : Tensor();
        const wb_scores scores = {in<int>(first), in<int>(last), nullptr, nullptr, 0, shape.sinks};
        shape.causal = 0;
        make_room(nullptr);
        call(lib, "wb_scored_backward", lib.wb_scored_backward, GRADIENTS, delta, INPUTS, in<bf16>(O), in<float>(L),
             in<bf16>(dO), dL ? in<float>(of_L) : nullptr, &scores, &shape, place.stream);
        if (sinks) {
            const Tensor rest = at::from_blob(delta, L.sizes(), L.options());
            gradients[3] = s.unsqueeze(1).sub(L).exp().mul(rest).sum(at::IntArrayRef({0, 2})).neg();
        }
    } else if (sinks)
        BACKWARD(flash_sink_logits_backward, _in, out<float>(gradients[3]), delta, INPUTS, in<float>(s));
    else if (shape.window)
        BACKWARD(flash_sinks_backward, _in, delta, INPUTS);
    else if (same_bits)
        BACKWARD(flash_gqa_backward, _in, delta, INPUTS);
    else
        BACKWARD(flash_gqa_backward, _fastest, delta, INPUTS);
    if (more) gradients[0] = gradients[0].slice(2, 0, Nq).contiguous();
    return gradients;
}

std::vector<Tensor> backward_meta(const Tensor &, const Tensor &Q, const Tensor &K, const Tensor &V,
                                  const optional<Tensor> &sinks, const Tensor &, const Tensor &, bool, SymInt, SymInt,
                                  optional<double>, bool, std::string_view, const optional<Tensor> &)
{
    expect(Q, K, V, sinks, false);
    return gradients_like(Q, K, V, sinks);
}

// ------------------------ autograd

using Forward = Two(const Tensor &, const Tensor &, const Tensor &, const optional<Tensor> &, bool, SymInt, SymInt,
                    optional<double>, bool, std::string_view, bool);
using Backward = std::vector<Tensor>(const Tensor &, const Tensor &, const Tensor &, const Tensor &,
                                     const optional<Tensor> &, const Tensor &, const Tensor &, bool, SymInt, SymInt,
                                     optional<double>, bool, std::string_view, const optional<Tensor> &);
template <class Function> const c10::TypedOperatorHandle<Function> &operator_of(const char *name)
{
    static const auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Function>();
    return op;
}
const auto &attention() { return operator_of<Forward>("flash_workbook::attention"); }
const auto &attention_backward() { return operator_of<Backward>("flash_workbook::attention_backward"); }

// What a gradient goes through where PyTorch is to differentiate it again (create_graph).
struct NoSecond : torch::autograd::Function<NoSecond> {
    static Tensor forward(AutogradContext *, const Tensor &gradient, const Tensor &, const Tensor &, const Tensor &,
                          const Tensor &)
    {
        return gradient.alias();
    }
    static variable_list backward(AutogradContext *, const variable_list &)
    {
        TORCH_CHECK_NOT_IMPLEMENTED(false, "attention has no second derivatives");
    }
};

// Q, K and V are kept as the library reads them: copied once, also for what comes back. What is no copy shares its
// version with what was given, so that who writes to it before the backward pass is told.
struct Attention : torch::autograd::Function<Attention> {
    static variable_list forward(AutogradContext *ctx, const Tensor &Q_, const Tensor &K_, const Tensor &V_,
                                 const optional<Tensor> &sinks, bool causal, SymInt window, SymInt sink_tokens,
                                 optional<double> scale, bool same_bits, std::string path, bool tokens_first)
    {
        Tensor Q = Q_, K = K_, V = V_;
        {
            const at::AutoDispatchBelowAutograd below;
            if (at::areAnyTensorSubclassLike({Q, K, V})) {  // to be traced: there are no addresses
                for (Tensor *x : {&Q, &K, &V}) *x = as_given(*x, tokens_first).contiguous();
            } else {
                const Library &lib = library(path);
                in_order(lib, Place(lib, Q), {&Q, &K, &V}, tokens_first);
            }
        }
        const at::AutoDispatchBelowADInplaceOrView below;
        auto [O, L] = attention().call(Q, K, V, sinks, causal, window, sink_tokens, scale, same_bits, path, false);
        O = as_given(O, tokens_first);
        ctx->set_materialize_grads(false);
        ctx->save_for_backward({Q, K, V, sinks.value_or(Tensor()), O, L});
        ctx->saved_data["how"] =
            c10::ivalue::Tuple::create({causal, window, sink_tokens, scale, same_bits, std::move(path), tokens_first});
        return {O, L};
    }

    static variable_list backward(AutogradContext *ctx, const variable_list &of)
    {
        variable_list all(11);
        if (!of[0].defined() && !of[1].defined()) return all;
        const auto saved = ctx->get_saved_variables();
        const auto how = ctx->saved_data["how"].toTuple();
        const auto &at = how->elements();
        const bool tokens_first = at[6].toBool();
        const optional<Tensor> sinks = saved[3].defined() ? optional<Tensor>(saved[3]) : std::nullopt;
        const Tensor O = as_given(saved[4], tokens_first);
        const Tensor dO = of[0].defined() ? as_given(of[0], tokens_first) : at::zeros_like(O);
        const bool again = at::GradMode::is_enabled();
        optional<at::AutoDispatchBelowAutograd> below;
        if (again) below.emplace();
        std::vector<Tensor> gradients =
            attention_backward().call(dO, saved[0], saved[1], saved[2], sinks, O, saved[5], at[0].toBool(),
                                      at[1].toSymInt(), at[2].toSymInt(), at[3].toOptional<double>(), at[4].toBool(),
                                      at[5].toStringView(), of[1].defined() ? optional<Tensor>(of[1]) : std::nullopt);
        if (!of[0].defined()) gradients[2].zero_();  // V is not in L
        below.reset();
        for (Tensor &x : gradients)
            if (again) x = NoSecond::apply(x, saved[0], saved[1], saved[2], dO);
        for (size_t i = 0; i < gradients.size(); i++)
            all[i] = i < 3 ? as_given(gradients[i], tokens_first) : gradients[i];
        return all;
    }
};

template <class... Tensors> bool wants_gradients(const optional<Tensor> &sinks, const Tensors &...tensors)
{
    return at::GradMode::is_enabled() && ((tensors.requires_grad() || ...) || (sinks && sinks->requires_grad()));
}

Two forward_autograd(const Tensor &Q, const Tensor &K, const Tensor &V, const optional<Tensor> &sinks, bool causal,
                     SymInt window, SymInt sink_tokens, optional<double> scale, bool same_bits, std::string_view path,
                     bool tokens_first)
{
    if (!wants_gradients(sinks, Q, K, V)) {
        const at::AutoDispatchBelowADInplaceOrView below;
        return attention().call(Q, K, V, sinks, causal, window, sink_tokens, scale, same_bits, path, tokens_first);
    }
    expect(Q, K, V, sinks, tokens_first);
    TORCH_CHECK_NOT_IMPLEMENTED(Q.sym_size(3) <= 128, "attention: head_dim = ", Q.sym_size(3),
                                " has no gradients (up to 128 has). Call it under torch.no_grad()");
    if (is_padded(Q, V))
        return padded(Q, K, V, tokens_first, scale, [&](Tensor Q, Tensor K, Tensor V, double scale) {
            return attention().call(Q, K, V, sinks, causal, window, sink_tokens, scale, same_bits, path, false);
        });
    const auto both = Attention::apply(Q, K, V, sinks, causal, window, sink_tokens, scale, same_bits, std::string(path),
                                       tokens_first);
    return {both[0], both[1]};
}

// ------------------------ packed sequences

// The last call's mask, and of which tensors it was made, as they were: a model's layers all ask for the same.
struct Kept {
    std::vector<Tensor> starts;  // cu_seqlens and seqused of queries, and of keys; undefined: none
    std::vector<uint32_t> versions;
    std::vector<Tensor> values;  // of those on the host, where to compare waits for nobody; else undefined
    std::vector<int64_t> of;     // how many queries and keys; what they see to the left, right and in chunks
    std::vector<Tensor> lists;   // of tiles of 128 queries
};
std::mutex of_kept;
Kept &kept = *new Kept;  // never ends: PyTorch may have ended before

// Empty: it was another.
std::vector<Tensor> find(std::initializer_list<const Tensor *> starts, at::IntArrayRef of, c10::Device device)
{
    const std::lock_guard<std::mutex> one(of_kept);
    bool same = !kept.lists.empty() && of == kept.of && kept.lists[0].device() == device;
    size_t n = 0;
    for (const Tensor *x : starts) {
        if (!same || x->defined() != kept.starts[n].defined()) return {};
        const Tensor &was = kept.values[n];
        if (was.defined() ? !x->is_cpu() || x->scalar_type() != was.scalar_type() || !at::equal(*x, was)
                          : !kept.starts[n].is_same(*x) || (x->defined() && kept.versions[n] != x->_version()))
            return {};
        n++;
    }
    return kept.lists;
}

Tensor or_none(const optional<Tensor> &x) { return x.value_or(Tensor()); }

std::vector<Tensor> kept_mask(const Tensor &Q, const Tensor &cu_q, const optional<Tensor> &used_q, const Tensor &cu_k,
                              const optional<Tensor> &used_k, at::IntArrayRef of)
{
    const Tensor q = or_none(used_q), k = or_none(used_k);
    return find({&cu_q, &q, &cu_k, &k}, of, Q.device());
}

void keep_mask(const Tensor &, const Tensor &cu_q, const optional<Tensor> &used_q, const Tensor &cu_k,
               const optional<Tensor> &used_k, at::IntArrayRef of, at::TensorList lists)
{
    Kept now = {{cu_q, or_none(used_q), cu_k, or_none(used_k)}, {}, {}, of.vec(), lists.vec()};
    for (const Tensor &x : now.starts) {
        const bool host = x.defined() && x.is_cpu();
        if (x.defined() && !host && x.is_inference()) return;  // they have no version
        now.versions.push_back(x.defined() && !host ? x._version() : 0);
        now.values.push_back(host ? x.clone() : Tensor());
    }
    const std::lock_guard<std::mutex> one(of_kept);
    std::swap(kept, now);
}

void forget_mask()
{
    const std::lock_guard<std::mutex> one(of_kept);
    kept = {};
}

// Forward alone, of [T, H, D], under the kept mask; an error where that is another, or gradients are wanted.
Two packed(const Tensor &Q, const Tensor &K, const Tensor &V, const Tensor &cu_q, const optional<Tensor> &used_q,
           const Tensor &cu_k, int64_t left, int64_t right, optional<double> scale)
{
    TORCH_CHECK_VALUE(Q.dim() == 3 && K.dim() == 3 && !wants_gradients(std::nullopt, Q, K, V), "gradients");
    const Tensor used = or_none(used_q), none;
    const auto mask = find({&cu_q, &used, &cu_k, &none}, {Q.size(0), K.size(0), left, right, 0}, Q.device());
    TORCH_CHECK_VALUE(!mask.empty() && !mask[6].numel(), "another mask, or keys of no sequence");
    const at::AutoDispatchBelowADInplaceOrView below;
    const int64_t end = mask[6].size(0);  // behind it no sequence has keys
    return masked(Q, K.slice(0, 0, end), V.slice(0, 0, end), mask[0], mask[1], mask[2], mask[3], mask[4], 128,
                  scale.value_or(1 / std::sqrt((double)Q.size(2))), "", true);
}

// In one piece each, up to five of [B, H, N, D].
std::vector<Tensor> heads_first(std::vector<Tensor> all, std::string_view path)
{
    Tensor *of[5];
    TORCH_CHECK_VALUE(!all.empty() && all.size() <= 5, "heads_first takes one tensor to five");
    for (size_t i = 0; i < all.size(); i++) of[i] = &all[i];
    const Library &lib = library(path);
    in_order(lib, Place(lib, all[0]), {of, all.size()}, false);
    return all;
}

// `part`, and `more` if there is one, to rows of `to` from `first` on, of [.., n, D] each; with L, [.., n], and the
// part's logs as attention over more keys (wb_add_share).
void add_share(const Tensor &to, const Tensor &part, const optional<Tensor> &more, const optional<Tensor> &L,
               const optional<Tensor> &logs, int64_t first, std::string_view path)
{
    if (!part.numel()) return;
    const int64_t n = to.size(-2), D = to.size(-1), rows = part.size(-2), heads = part.numel() / (rows * D);
    const bool is_float = to.scalar_type() == at::kFloat;
    const auto fits = [&](const Tensor &x, at::ScalarType type, int64_t numbers) {
        return x.is_contiguous() && x.device() == to.device() && x.scalar_type() == type && x.numel() == numbers;
    };
    TORCH_CHECK_VALUE(fits(to, is_float ? at::kFloat : at::kBFloat16, heads * n * D) &&
                          fits(part, at::kBFloat16, heads * rows * D) &&
                          (!more || fits(*more, at::kBFloat16, heads * rows * D)) &&
                          (!L || fits(*L, at::kFloat, heads * n)) && (!logs || fits(*logs, at::kFloat, heads * rows)),
                      "add_share of ", part.sizes(), " to ", to.sizes());
    const Library &lib = library(path);
    const Place place(lib, to);
    const wb_share share = {to.mutable_data_ptr(),
                            is_float,
                            in<bf16>(part),
                            more ? in<bf16>(*more) : nullptr,
                            L ? out<float>(*L) : nullptr,
                            logs ? in<float>(*logs) : nullptr,
                            (int)heads,
                            (int)n,
                            (int)first,
                            (int)rows,
                            (int)D};
    call(lib, "wb_add_share", lib.wb_add_share, &share, place.stream);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) void flash_workbook_default(const char *path) { default_path = path; }

TORCH_LIBRARY_FRAGMENT(flash_workbook, m)
{
    m.def(
        "attention(Tensor Q, Tensor K, Tensor V, Tensor? sink_logits, bool causal, SymInt window, SymInt sink_tokens, "
        "float? scale, bool same_bits, str path, bool tokens_first=False) -> (Tensor, Tensor)");
    m.def("kept_mask(Tensor Q, Tensor cu_q, Tensor? used_q, Tensor cu_k, Tensor? used_k, int[] of) -> Tensor[]",
          kept_mask);
    m.def("keep_mask(Tensor Q, Tensor cu_q, Tensor? used_q, Tensor cu_k, Tensor? used_k, int[] of, Tensor[] lists) -> "
          "()",
          keep_mask);
    m.def("forget_mask() -> ()", forget_mask);
    m.def("packed(Tensor Q, Tensor K, Tensor V, Tensor cu_q, Tensor? used_q, Tensor cu_k, int left, int right, "
          "float? scale) -> (Tensor, Tensor)",
          packed);
    m.def("heads_first(Tensor[] x, str path) -> Tensor[]", heads_first);
    m.def("add_share(Tensor(a!) to, Tensor part, Tensor? more, Tensor(b!)? L, Tensor? logs, int first, str path) -> ()",
          add_share);
    m.def("masked(Tensor Q, Tensor K, Tensor V, Tensor whole_start, Tensor whole, Tensor part_start, Tensor part, "
          "Tensor bits, SymInt q_tile, float scale, str path, bool packed=False) -> (Tensor, Tensor)");
    m.def("attention_backward(Tensor dO, Tensor Q, Tensor K, Tensor V, Tensor? sink_logits, Tensor O, Tensor L, "
          "bool causal, SymInt window, SymInt sink_tokens, float? scale, bool same_bits, str path, Tensor? dL=None) -> "
          "Tensor[]");
}

static void implement(torch::Library &m)
{
    m.impl("masked", masked);
    m.impl("attention", forward);
    m.impl("attention_backward", backward);
}
TORCH_LIBRARY_IMPL(flash_workbook, CPU, m) { implement(m); }
TORCH_LIBRARY_IMPL(flash_workbook, CUDA, m) { implement(m); }
TORCH_LIBRARY_IMPL(flash_workbook, Meta, m)
{
    m.impl("masked", masked_meta);
    m.impl("attention", forward_meta);
    m.impl("attention_backward", backward_meta);
}
TORCH_LIBRARY_IMPL(flash_workbook, Autograd, m)
{
    m.impl("attention", forward_autograd);
    for (const char *has_no_gradients : {"masked", "attention_backward"})
        m.impl(has_no_gradients, torch::autograd::autogradNotImplementedFallback());
}
