//! variant f32 : -DVALUE=float -DQUAD=vec4
//! variant i32 : -DVALUE=int -DQUAD=ivec4 -DSTORE_I32
// Reductions over any axes. A workgroup handles 128 / SLICES outputs, each by SLICES invocations whose results are
// combined in a fixed tree. Long reductions are split over workgroups: partial results go to scratch memory as pairs
// of words, and a second dispatch (PARTIAL_IN) combines them, again in a fixed order.
#version 450
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 128) in;
#include "shaders/common/index.glsl"
#include "shaders/common/math.glsl"
#include "shaders/reduce/reduce_fn.h"
#include "shaders/reduce/reduce_push.h"
layout(constant_id = 0) const uint FN = 0;
layout(constant_id = 1) const uint KEPT_RANK = 1;
layout(constant_id = 2) const uint REDUCED_RANK = 1;
layout(constant_id = 3) const uint SLICES = 1;             // a power of two
layout(constant_id = 4) const bool OUTPUTS_FIRST = false;  // neighbouring invocations: outputs, or slices of one
layout(constant_id = 5) const bool PARTIAL_IN = false;
layout(constant_id = 6) const bool PARTIAL_OUT = false;
layout(constant_id = 7) const bool VECTOR = false;  // elements are contiguous, in whole vectors of four
layout(binding = 0) readonly buffer X { VALUE x[]; };
layout(binding = 0) readonly buffer XQuads { QUAD x_quads[]; };
layout(binding = 0) readonly buffer XPairs { uvec2 x_pairs[]; };
layout(binding = 1) writeonly buffer Y { uint y[]; };
layout(binding = 1) writeonly buffer YPairs { uvec2 y_pairs[]; };
layout(binding = 2) readonly buffer Result { VALUE result[]; };  // fn_ties alone

// What the elements so far come to. count: a sum of exponentials as bits, an index, or a count, as the function needs.
struct Partial {
  VALUE value;
  uint count;
};

#ifdef STORE_I32
int lowest() { return int(0x80000000u); }
int highest() { return 0x7fffffff; }
uint to_bits(int v) { return uint(v); }
int from_bits(uint v) { return int(v); }
int larger(int a, int b) { return max(a, b); }
int smaller(int a, int b) { return min(a, b); }
bool not_a_number(int v) { return false; }
#else
float lowest() { return -inf(); }
float highest() { return inf(); }
uint to_bits(float v) { return floatBitsToUint(v); }
float from_bits(uint v) { return uintBitsToFloat(v); }
float larger(float a, float b) { return max_nan(a, b); }
float smaller(float a, float b) { return min_nan(a, b); }
bool not_a_number(float v) { return is_nan(v); }
#endif

const bool kIsArgMax = FN == fn_arg_max_first || FN == fn_arg_max_last;
const bool kIsArg = kIsArgMax || FN == fn_arg_min_first || FN == fn_arg_min_last;
const bool kTakesLast = FN == fn_arg_max_last || FN == fn_arg_min_last;
const uint kNone = 0xffffffffu;

Partial start() {
  Partial p0 = Partial(VALUE(0), 0u);
  if (FN == fn_max || FN == fn_logsumexp) p0.value = lowest();
  if (FN == fn_min) p0.value = highest();
  if (FN == fn_prod || FN == fn_product_of_rest) p0.value = VALUE(1);
  if (kIsArg) p0.count = kNone;
  return p0;
}

// Not-a-number counts as the extreme, as in NumPy and PyTorch.
bool replaces(VALUE v, uint index, VALUE old, uint old_index) {
  bool v_nan = not_a_number(v);
  bool old_nan = not_a_number(old);
  if (v_nan != old_nan) return v_nan;
  if (!v_nan && v != old) return (v > old) == kIsArgMax;
  return (index > old_index) == kTakesLast;
}

#ifndef STORE_I32
// exp(v - top), with exp(0) for equal infinities.
float weight(float v, float top) { return v == top ? 1.0 : exp_accurate(v - top); }
#endif

Partial merge(Partial a, Partial b) {
  switch (FN) {
    case fn_max: a.value = larger(a.value, b.value); break;
    case fn_min: a.value = smaller(a.value, b.value); break;
    case fn_prod:
    case fn_product_of_rest: a.value *= b.value; break;
#ifndef STORE_I32
    case fn_logsumexp: {
      float top = max_nan(a.value, b.value);
      a.count = floatBitsToUint(uintBitsToFloat(a.count) * weight(a.value, top) +
                                uintBitsToFloat(b.count) * weight(b.value, top));
      a.value = top;
      break;
    }
#endif
    case fn_arg_max_first:
    case fn_arg_max_last:
    case fn_arg_min_first:
    case fn_arg_min_last:
      if (b.count != kNone && (a.count == kNone || replaces(b.value, b.count, a.value, a.count))) a = b;
      break;
    default: a.value += b.value; break;
  }
  if (FN == fn_ties || FN == fn_product_of_rest) a.count += b.count;
  return a;
}

Partial single(VALUE v, uint r, VALUE winner) {
  switch (FN) {
    case fn_l1: return Partial(abs(v), 0u);
    case fn_l2: return Partial(v * v, 0u);
#ifndef STORE_I32
    case fn_logsumexp: return Partial(v, floatBitsToUint(1.0));
#endif
    case fn_ties: return Partial(VALUE(0), v == winner || (not_a_number(v) && not_a_number(winner)) ? 1u : 0u);
    case fn_product_of_rest: return v == VALUE(0) ? Partial(VALUE(1), 1u) : Partial(v, 0u);
  }
  return Partial(v, r);
}

uint finish(Partial a) {
  switch (FN) {
#ifndef STORE_I32
    case fn_mean: return floatBitsToUint(a.value / float(p.total));
    case fn_l2: return floatBitsToUint(sqrt(a.value));
    case fn_logsumexp: return floatBitsToUint(a.value + log_accurate(uintBitsToFloat(a.count)));
    case fn_ties: return floatBitsToUint(float(a.count));
    case fn_product_of_rest: return floatBitsToUint(a.count > 1u ? 0.0 : a.value);
#endif
    case fn_arg_max_first:
    case fn_arg_max_last:
    case fn_arg_min_first:
    case fn_arg_min_last: return a.count;
  }
  return to_bits(a.value);
}

uint kept_offset(uint o) {
  uint at = 0;
  for (uint axis = 0; axis + 1 < KEPT_RANK; ++axis) {
    uint rest = o / p.kept_dims[axis];
    at += (o - rest * p.kept_dims[axis]) * p.kept_strides[axis];
    o = rest;
  }
  return at + o * p.kept_strides[KEPT_RANK - 1];
}
uint reduced_offset(uint r) {
  uint at = 0;
  for (uint axis = 0; axis + 1 < REDUCED_RANK; ++axis) {
    uint rest = r / p.reduced_dims[axis];
    at += (r - rest * p.reduced_dims[axis]) * p.reduced_strides[axis];
    r = rest;
  }
  return at + r * p.reduced_strides[REDUCED_RANK - 1];
}

const uint kOutputsPerGroup = gl_WorkGroupSize.x / SLICES;
shared VALUE shared_values[gl_WorkGroupSize.x];
shared uint shared_counts[gl_WorkGroupSize.x];

// Elements of [begin, end) that belong to one slice.
Partial reduce_slice(uint o, uint slice, uint begin, uint end) {
  Partial so_far = start();
  if (PARTIAL_IN) {
    for (uint r = begin + slice; r < end; r += SLICES) {
      uvec2 pair = x_pairs[r * p.outputs + o];
      so_far = merge(so_far, Partial(from_bits(pair.x), pair.y));
    }
    return so_far;
  }
  uint base = kept_offset(o);
  VALUE winner = FN == fn_ties ? result[o] : VALUE(0);
  if (VECTOR) {
    for (uint r = begin + 4 * slice; r < end; r += 4 * SLICES) {
      QUAD v = x_quads[(base + r) / 4];
      for (uint i = 0; i < 4; ++i) so_far = merge(so_far, single(v[i], r + i, winner));
    }
    return so_far;
  }
  for (uint r = begin + slice; r < end; r += SLICES) {
    so_far = merge(so_far, single(x[base + reduced_offset(r)], r, winner));
  }
  return so_far;
}

void main() {
  uint lid = gl_LocalInvocationIndex;
  uint lane = OUTPUTS_FIRST ? lid % kOutputsPerGroup : lid / SLICES;
  uint slice = OUTPUTS_FIRST ? lid / kOutputsPerGroup : lid % SLICES;
  uint groups = (p.outputs - 1) / kOutputsPerGroup + 1;
  uint split = flat_workgroup() / groups;
  if (split >= p.splits) return;  // the whole workgroup
  uint o = (flat_workgroup() - split * groups) * kOutputsPerGroup + lane;
  uint begin = split * p.chunk;
  uint end = min(begin + p.chunk, p.reduced);
  Partial so_far = start();
  if (o < p.outputs) so_far = reduce_slice(o, slice, begin, end);
  if (SLICES > 1) {
    uint stride = OUTPUTS_FIRST ? kOutputsPerGroup : 1;
    shared_values[lid] = so_far.value;
    shared_counts[lid] = so_far.count;
    for (uint step = SLICES / 2; step > 0; step /= 2) {
      barrier();
      if (slice < step) {
        uint other = lid + step * stride;
        so_far = merge(so_far, Partial(shared_values[other], shared_counts[other]));
        shared_values[lid] = so_far.value;
        shared_counts[lid] = so_far.count;
      }
    }
  }
  if (slice != 0 || o >= p.outputs) return;
  if (PARTIAL_OUT) {
    y_pairs[split * p.outputs + o] = uvec2(to_bits(so_far.value), so_far.count);
  } else {
    y[o] = finish(so_far);
  }
}
