// Kernels over 16-bit elements, made from those that were written for f32.
//
// A kernel declares its buffers as arrays of 32-bit numbers, of vectors of them or of pairs of such (mat2x4), and
// computes in f32. Here chosen bindings become arrays of f16 or bf16: each load widens, each store rounds to the
// nearest, ties to even, overflow to infinity, on every device to the same bits. So each kernel has every mixture of
// storages, at no cost where none is used, and a shader says nothing of it. Buffers of unsigned or signed words get and
// give the bits of the f32.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "platform/base/status.h"
#include "runtime/ops/emitter.h"
#include "shaders/kernels.gen.h"

namespace graft {

/// The kernel's SPIR-V with bindings stored as `storage` says. With `native` the elements are 16-bit ones, for devices
/// with Caps::storage_16bit. Without it they are halves of 32-bit words, and Vulkan 1.1 core suffices: a lone element
/// is stored by two atomic operations on its own half of the word, whoever stores the other.
/// Bindings that are structures (the step state) stay as they are. unsupported where a binding is an array of something
/// else than 32-bit numbers, or is used other than by loads and stores of its elements.
Result<std::vector<std::uint32_t>> narrow_kernel(const shaders::KernelInfo& kernel, BindingStorage storage,
                                                 bool native);

/// The name under which a kernel's form for 16-bit elements has a verdict of the self-test: "matmul__f32@f16", and
/// "matmul__f32@f16 in words" where elements are halves of words; "matmul__f32" where `storage` is 0.
std::string form_name(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Caps& caps);

/// Whether a kernel's 16-bit elements are such on this device: it has them, and the kernel did not fail with them.
bool is_native(const shaders::KernelInfo& kernel, BindingStorage storage, const gpu::Caps& caps);

}  // namespace graft
