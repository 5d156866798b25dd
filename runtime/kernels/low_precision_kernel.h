// Low-precision storage: kernels over 16-bit elements, made from kernels that were written for f32.
//
// A kernel declares its buffers as arrays of 32-bit numbers, of vectors of them or of pairs of vectors (mat2x4), and
// computes in f32. Here chosen bindings become arrays of f16 or bf16: each load widens, each store rounds to the
// nearest, ties to even, overflow to infinity, to the same bits on every device. So one shader serves every mixture of
// storage types, at no cost where none is used, and need not know of them. Integer buffers read and write the bits of
// the f32.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "runtime/ops/emitter.h"
#include "shaders/kernel_info.gen.h"

namespace graft {

/// The kernel's SPIR-V with bindings stored as `storage` says. With `native` the elements are 16-bit ones, for devices
/// with Caps::storage_16bit. Without it they are halves of 32-bit words, and Vulkan 1.1 core suffices: a single element
/// is stored by two atomic operations on its half of the word, while another invocation may store the other half.
/// Bindings that are structures (the step state) stay as they are. unsupported where a binding is an array of anything
/// but 32-bit numbers, or is used other than by loads and stores of its elements.
Result<std::vector<std::uint32_t>> low_precision_kernel(const shaders::KernelInfo& kernel, BindingStorage storage,
                                                        bool native);
Result<std::vector<std::uint32_t>> low_precision_kernel(std::span<const std::uint32_t> spirv, BindingStorage storage,
                                                        bool native);

/// The name under which a kernel's form for 16-bit elements has a verdict of the self-test: "matmul__f32@f16", and
/// "matmul__f32@f16 in words" where elements are halves of words; "matmul__f32" where `storage` is 0.
std::string form_name(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Target& target);

/// Whether the kernel uses native 16-bit elements here: the device has them, and the kernel did not fail with them.
bool is_native(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Target& target);

}  // namespace graft
