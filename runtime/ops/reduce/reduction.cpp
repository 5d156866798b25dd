#include "runtime/ops/reduce/reduction.h"

#include <algorithm>
#include <limits>

#include "platform/base/checked.h"
#include "runtime/ops/elementwise.h"
#include "runtime/ops/movement.h"
#include "runtime/ops/rows.h"
#include "shaders/kernels.gen.h"
#include "shaders/reduce/reduce_push.h"

namespace graft::ops::reduce {
namespace {

constexpr std::uint64_t kInvocations = 128;  // of a workgroup
/// Invocations that keep a device busy; more only cost combining.
constexpr std::uint64_t kEnoughInvocations = 16384;
/// Elements that one invocation adds up one after another: what bounds the rounding error of a long sum.
constexpr std::uint64_t kMaxRun = 2048;
constexpr std::uint64_t kMinRun = 32;

struct Schedule {
  std::uint32_t slices = 1;
  bool outputs_first = true;
  std::uint64_t splits = 1;
  std::uint64_t chunk = 0;
};

// Neighbouring invocations read neighbouring memory: along the reduced axis where that is the innermost, else along
// the outputs. Slices and splits are added while there are too few invocations and enough elements for each.
Schedule schedule_for(Emitter& e, std::uint64_t outputs, std::uint64_t count, bool contiguous) {
  Schedule s;
  s.outputs_first = !contiguous;
  const std::uint64_t most = contiguous ? most_slices(e, outputs, count, kInvocations) : 16;
  const std::uint64_t run = contiguous ? 4 : kMinRun;
  while (s.slices < most && count >= 2 * run * s.slices && (contiguous || outputs * s.slices < kEnoughInvocations)) {
    s.slices *= 2;
  }
  const std::uint64_t wanted = ceil_div(kEnoughInvocations, std::max<std::uint64_t>(outputs * s.slices, 1));
  const std::uint64_t possible = std::max<std::uint64_t>(count / (s.slices * kMinRun), 1);
  const std::uint64_t needed = ceil_div(count, s.slices * kMaxRun);
  s.splits = std::max({std::uint64_t{1}, std::min({wanted, possible, std::uint64_t{256}}), needed});
  s.chunk = std::max<std::uint64_t>(ceil_div(count, s.splits), 1);
  if (contiguous) s.chunk = ceil_div<std::uint64_t>(s.chunk, 4) * 4;  // parts begin at whole vectors
  s.splits = std::max<std::uint64_t>(ceil_div(count, s.chunk), 1);
  return s;
}

void put_axes(const std::vector<Reduction::Axis>& axes, std::uint32_t* dims, std::uint32_t* strides) {
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (i < 3) dims[i] = static_cast<std::uint32_t>(axes[i].dim);
    strides[i] = static_cast<std::uint32_t>(axes[i].stride);
  }
}

// Whether every slice is a run of whole vectors of four, as the kernel's vector loads want it.
bool in_vectors(const Reduction& r, const Schedule& s) {
  const auto whole = [](std::uint64_t n) { return n % 4 == 0; };
  return !s.outputs_first && r.reduced.size() == 1 && r.reduced[0].stride == 1 && whole(r.count) && whole(s.chunk) &&
         std::all_of(r.kept.begin(), r.kept.end(), [&](const Reduction::Axis& axis) { return whole(axis.stride); });
}

void emit_pass(Emitter& e, reduce_fn::Fn fn, DType dtype, const Reduction& r, const Schedule& s, bool partial_in,
               bool partial_out, std::vector<Binding> bindings, std::uint64_t total) {
  push::ReducePush push = {};
  push.outputs = static_cast<std::uint32_t>(r.outputs);
  push.reduced = static_cast<std::uint32_t>(r.count);
  push.total = static_cast<std::uint32_t>(total);
  push.chunk = static_cast<std::uint32_t>(s.chunk);
  push.splits = static_cast<std::uint32_t>(s.splits);
  put_axes(r.kept, push.kept_dims, push.kept_strides);
  put_axes(r.reduced, push.reduced_dims, push.reduced_strides);
  const auto kernel = dtype == DType::f32 ? shaders::KernelId::reduce__f32 : shaders::KernelId::reduce__i32;
  e.dispatch(kernel,
             {fn, static_cast<std::uint32_t>(r.kept.size()), static_cast<std::uint32_t>(r.reduced.size()), s.slices,
              s.outputs_first, partial_in, partial_out, !partial_in && in_vectors(r, s)},
             std::move(bindings), push, e.spread(ceil_div(r.outputs, kInvocations / s.slices) * s.splits));
}

// What a reduction of no elements gives.
std::uint32_t word_of_nothing(reduce_fn::Fn fn, DType dtype) {
  constexpr float kFloatInfinity = std::numeric_limits<float>::infinity();
  const bool floats = dtype == DType::f32;
  switch (fn) {
    case reduce_fn::mean: return spec(std::numeric_limits<float>::quiet_NaN());
    case reduce_fn::max:
    case reduce_fn::logsumexp: return floats ? spec(-kFloatInfinity) : 0x80000000u;
    case reduce_fn::min: return floats ? spec(kFloatInfinity) : 0x7fffffffu;
    case reduce_fn::prod: return floats ? spec(1.0f) : 1u;
    default: return 0;
  }
}

}  // namespace

Reduction reduction_of(const Shape& in, const std::vector<bool>& reduced) {
  Reduction r;
  std::uint64_t stride = 1;
  bool merging = false;  // whether the axis before was of the same sort
  bool last = false;
  for (std::size_t axis = in.rank(); axis-- > 0;) {
    const auto dim = static_cast<std::uint64_t>(in[axis].value());
    (reduced[axis] ? r.count : r.outputs) *= dim;
    if (dim == 1) continue;
    auto& axes = reduced[axis] ? r.reduced : r.kept;
    if (merging && last == reduced[axis]) {
      axes.back().dim *= dim;
    } else {
      axes.push_back({dim, stride});
    }
    stride *= dim;
    merging = true;
    last = reduced[axis];
  }
  if (r.kept.empty()) r.kept.push_back({1, 0});
  if (r.reduced.empty()) r.reduced.push_back({1, 0});
  return r;
}

Status emit_reduction(Emitter& e, reduce_fn::Fn fn, DType dtype, const Reduction& r, Binding in, Binding out,
                      Binding result) {
  if (r.outputs == 0) return ok_status();
  GRAFT_TRY(count32(r.outputs, "output"));
  GRAFT_TRY(count32(r.count, "reduced part"));
  if (r.outputs * r.count > max_bound_elements(e.caps())) {
    return unsupported("The reduced tensor has ", r.outputs * r.count, " elements; one binding on this device holds ",
                       max_bound_elements(e.caps()), ".");
  }
  if (r.count == 0) return emit_fill(e, out, r.outputs, word_of_nothing(fn, dtype));
  const bool contiguous = r.reduced[0].stride == 1 && r.count > 1;
  const Schedule first = schedule_for(e, r.outputs, r.count, contiguous);
  if (first.splits == 1) {
    emit_pass(e, fn, dtype, r, first, false, false, {in, out, result}, r.count);
    return ok_status();
  }
  const Slot partials = e.scratch(first.splits * r.outputs * 8);
  emit_pass(e, fn, dtype, r, first, false, true, {in, {partials, Access::write}, result}, r.count);
  Reduction second;
  second.kept = {{r.outputs, 1}};
  second.reduced = {{first.splits, r.outputs}};
  second.outputs = r.outputs;
  second.count = first.splits;
  Schedule combine = schedule_for(e, second.outputs, second.count, r.outputs == 1);
  combine.splits = 1;
  combine.chunk = second.count;
  const Binding from = {partials, Access::read};
  emit_pass(e, fn, dtype, second, combine, true, false, {from, out, from}, r.count);
  return ok_status();
}

}  // namespace graft::ops::reduce
