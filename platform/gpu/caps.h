// What a device is and can do. Only facts, corrected where its driver is known to say something false: what to do about
// driver faults, what was measured, what the user wants and what tests ask for stand in target.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace graft::gpu {

/// One size of cooperative matrices: D [m, n] = A [m, k] B [k, n] + C, shared by a subgroup, sums in f32.
struct MatrixShape {
  enum class Operand : std::uint8_t { f16, bf16 };
  Operand operand = Operand::f16;  ///< of A and B
  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
};

enum class DeviceType { other, integrated, discrete, virtual_gpu, cpu };

/// Plain data, so that a plan may be made for a device that is not here. The defaults are what Vulkan 1.1 guarantees.
struct Caps {
  std::string device_name;
  std::string driver_name;
  std::string driver_info;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  std::uint32_t driver_version = 0;
  std::uint32_t api_version = 0;
  DeviceType type = DeviceType::other;
  /// No hardware stands behind the driver: kernels can be compiled for it, but nothing runs (checks.h: check_runs()).
  bool compiles_only = false;

  std::uint64_t max_storage_buffer_range = 128ull << 20;  ///< bytes in one binding
  std::uint64_t max_allocation = 1ull << 30;              ///< bytes in one memory allocation
  std::uint32_t storage_buffer_alignment = 256;           ///< of a binding's offset, bytes
  std::uint32_t max_storage_buffers_per_stage = 8;
  /// Where bindings may begin where buffers of texels may not: no more than every device has.
  std::uint32_t max_texel_buffer_elements = 65536;
  std::uint32_t max_push_constants = 128;  ///< bytes
  std::uint32_t max_workgroup_invocations = 128;
  std::array<std::uint32_t, 3> max_workgroup_size = {128, 128, 64};
  std::array<std::uint32_t, 3> max_workgroup_count = {65535, 65535, 65535};
  std::uint32_t max_shared_memory = 16384;  ///< bytes per workgroup
  std::uint32_t subgroup_size = 1;
  bool subgroup_basic = false;
  bool subgroup_arithmetic = false;
  bool subgroup_shuffle = false;
  bool shader_float16 = false;
  bool shader_int8 = false;
  bool shader_int64 = false;
  bool storage_16bit = false;
  bool storage_8bit = false;
  bool integer_dot = false;  ///< dot products of four 8-bit integers
  bool cooperative_matrix = false;
  std::vector<MatrixShape> matrix_shapes = {};  ///< in the driver's order; empty without cooperative_matrix
  std::uint32_t matrix_subgroup = 0;            ///< size of the subgroups that share matrices
  bool shader_bfloat16 = false;                 ///< bf16 as a type of kernels and of matrices
  /// Granularities of VK_NV_cooperative_matrix2: a matrix may have any multiple of one of these sizes, up to
  /// max_flexible_side, and kernels may work on its elements by row and column. Empty without cooperative_matrix.
  std::vector<MatrixShape> flexible_shapes = {};
  std::uint32_t max_flexible_side = 0;
  bool timeline_semaphore = false;
  bool unified_memory = false;     ///< device memory is host-visible
  double timestamp_period_ns = 0;  ///< 0: no timestamps
  struct Heap {
    std::uint64_t bytes = 0;
    bool device_local = false;
  };
  std::vector<Heap> heaps;
};

}  // namespace graft::gpu
