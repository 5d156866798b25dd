#include "tests/support/bf16_device.h"

#include <list>
#include <string_view>

#include "runtime/kernels/spirv_module.h"

namespace graft::test {
namespace {

constexpr spirv::Word kFloat16 = 9;  // capabilities
constexpr spirv::Word kBf16 = 5116, kBf16Matrices = 5118;

bool is_bf16_capability(const spirv::Instruction& i) {
  return i.op == spirv::kCapability && i[1] >= kBf16 && i[1] <= kBf16Matrices;
}

bool is_bf16_extension(const spirv::Instruction& i) {
  return i.op == spirv::kExtension &&
         std::string_view(reinterpret_cast<const char*>(&i.words[1])) == "SPV_KHR_bfloat16";
}

}  // namespace

std::vector<std::uint32_t> f16_for_bf16(std::span<const std::uint32_t> spirv) {
  std::vector<std::uint32_t> out(spirv.begin(), spirv.begin() + 5);
  bool any = false;
  spirv::for_each_instruction(spirv, [&](const spirv::Instruction& i) {
    if (is_bf16_capability(i)) {
      if (!any) spirv::append(out, spirv::kCapability, {kFloat16});
      any = true;
    } else if (i.op == spirv::kTypeFloat && i.size() == 4) {  // with an encoding
      spirv::append(out, spirv::kTypeFloat, {i[1], i[2]});
    } else if (!is_bf16_extension(i)) {
      spirv::append_words(out, i.words);
    }
  });
  return any ? out : std::vector<std::uint32_t>();
}

void pretend_bf16(gpu::Caps& caps) {
  for (auto* shapes : {&caps.matrix_shapes, &caps.flexible_shapes}) {
    const std::vector<gpu::MatrixShape> own = *shapes;
    for (gpu::MatrixShape shape : own) {
      shape.operand = gpu::MatrixShape::Operand::bf16;
      shapes->push_back(shape);
    }
  }
  caps.shader_bfloat16 = !caps.matrix_shapes.empty();
}

Result<std::vector<std::unique_ptr<gpu::Kernel>>> F16ForBf16Device::create_kernels(
    std::span<const gpu::KernelDesc> kernels) {
  std::vector<gpu::KernelDesc> descriptions(kernels.begin(), kernels.end());
  std::list<std::vector<std::uint32_t>> changed;  // none moves while descriptions point at it
  for (gpu::KernelDesc& kernel : descriptions) {
    auto words = f16_for_bf16(kernel.spirv);
    if (!words.empty()) kernel.spirv = changed.emplace_back(std::move(words));
  }
  return WithTarget::create_kernels(descriptions);
}

}  // namespace graft::test
