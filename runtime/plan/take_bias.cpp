#include <cstring>

#include "runtime/plan/chain.h"
#include "shaders/conv/conv_push.h"
#include "shaders/kernels.gen.h"
#include "shaders/matmul/matmul_push.h"
#include "shaders/matmul/matmul_split_sum_push.h"

namespace graft {
namespace {

using shaders::KernelId;

/// `columns` of the output, for kernels whose push block says has_bias.
template <typename Push>
bool set_has_bias(Step& step, std::uint32_t bias_length, std::uint32_t Push::*columns) {
  Push push{};
  if (step.push.size() != sizeof(Push)) return false;
  std::memcpy(&push, step.push.data(), sizeof(Push));
  if (push.has_bias != 0 || push.splits != 1 || push.*columns != bias_length) return false;
  push.has_bias = 1;
  std::memcpy(step.push.data(), &push, sizeof(Push));
  return true;
}

bool set_bias_count(Step& step, std::uint32_t bias_length) {
  push::MatmulSplitSumPush push{};
  if (step.push.size() != sizeof(push)) return false;
  std::memcpy(&push, step.push.data(), sizeof(push));
  if (push.bias_count != 0 || push.count % bias_length != 0) return false;
  push.bias_count = bias_length;
  std::memcpy(step.push.data(), &push, sizeof(push));
  return true;
}

}  // namespace

bool take_bias(Step& step, const PlanKernel& kernel, const PlanBinding& bias, std::uint32_t length,
               const PlanBinding& out) {
  if (kernel.storage != 0) return false;
  std::size_t slot = 2;  // of the bias; the output follows
  switch (kernel.id) {
    case KernelId::matmul__f32:
    case KernelId::matmul__f32_shuffle:
    case KernelId::matmul__f32_apart:
      if (!set_has_bias(step, length, &push::MatmulPush::n)) return false;
      break;
    case KernelId::conv__f32:
    case KernelId::conv__f32_shuffle:
    case KernelId::conv__f32_apart:
      if (!set_has_bias(step, length, &push::ConvPush::o)) return false;
      break;
    case KernelId::matmul_split_sum__f32:
      if (!set_bias_count(step, length)) return false;
      slot = 1;
      break;
    default: return false;
  }
  step.bindings[slot] = bias;
  step.bindings[slot].access = Access::read;
  step.bindings[slot + 1] = out;
  return true;
}

}  // namespace graft
