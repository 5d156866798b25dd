# Compiles shaders/**.comp at build time. A shader declares its variants in its own first lines:
#   //! variant f32 : -DSTORE_F32 -DTILE=16
#   //! requires coopmat               (the features that the variant after it needs; optional)
# Each variant becomes the kernel <file stem>__<variant> of graft::shaders::KernelId. Where glslang does not know a
# feature, the variants that need it stay in KernelId, without code: nothing may choose them (KernelInfo::built()).
find_program(GLSLANG_VALIDATOR NAMES glslangValidator glslang REQUIRED)
find_program(SPIRV_VAL NAMES spirv-val)
# What glslang can do: each feature has a shader that needs nothing else. Asked again when glslang is another one.
set(GRAFT_SHADER_FEATURES coopmat coopmat2 bfloat16)
foreach(feature IN LISTS GRAFT_SHADER_FEATURES)
  set(GRAFT_SHADER_ENV_${feature} vulkan1.1)
endforeach()
set(GRAFT_SHADER_ENV_coopmat2 vulkan1.3)  # SPIR-V 1.6, without which glslang refuses the extension
execute_process(COMMAND ${GLSLANG_VALIDATOR} --version OUTPUT_VARIABLE glslang_version ERROR_QUIET)
string(REGEX MATCH "[0-9]+:[0-9.]+" glslang_version "${glslang_version}")
string(REGEX REPLACE "^[0-9]+:" "" glslang_version "${glslang_version}")
if(NOT "${GRAFT_GLSLANG_ASKED}" STREQUAL "${GLSLANG_VALIDATOR} ${glslang_version}")
  foreach(feature IN LISTS GRAFT_SHADER_FEATURES)
    execute_process(
      COMMAND ${GLSLANG_VALIDATOR} -V --target-env ${GRAFT_SHADER_ENV_${feature}} -o ${PROJECT_BINARY_DIR}/glslang_${feature}.spv
              ${CMAKE_CURRENT_LIST_DIR}/features/${feature}.comp
      RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
    string(REGEX MATCH "ERROR: [^\n]*" reason "${said}")
    string(REGEX REPLACE "ERROR: [^ ]*features/" "" reason "${reason}")
    if(NOT failed EQUAL 0 AND reason STREQUAL "")
      set(reason "it does not compile ${feature}.comp")
    endif()
    if(failed EQUAL 0)
      set(reason "")
    endif()
    set(GRAFT_GLSLANG_LACKS_${feature} "${reason}" CACHE INTERNAL "why shaders cannot use ${feature}; empty: they can")
  endforeach()
  set(GRAFT_GLSLANG_ASKED "${GLSLANG_VALIDATOR} ${glslang_version}" CACHE INTERNAL "the glslang whose features are known")
endif()

file(GLOB_RECURSE GRAFT_SHADER_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.comp)
file(GLOB_RECURSE GRAFT_SHADER_INCLUDES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.glsl ${PROJECT_SOURCE_DIR}/shaders/*.h)
set(GRAFT_SHADER_DIR ${PROJECT_BINARY_DIR}/generated/shaders)
# One build step compiles the variants of a folder of shaders: a step for each would be 200. It is repeated if a file of
# the folder changes, or of a folder that it includes, directly or not.
foreach(file IN LISTS GRAFT_SHADER_FILES GRAFT_SHADER_INCLUDES)
  get_filename_component(folder ${file} DIRECTORY)
  get_filename_component(folder ${folder} NAME)
  list(APPEND GRAFT_SHADER_FOLDERS ${folder})
  list(APPEND files_of_${folder} ${file})
  file(STRINGS ${file} includes REGEX "^#include \"shaders/[a-z0-9_]+/")
  foreach(line IN LISTS includes)
    string(REGEX REPLACE "^#include \"shaders/([a-z0-9_]+)/.*" "\\1" other "${line}")
    list(APPEND includes_of_${folder} ${other})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES GRAFT_SHADER_FOLDERS)
function(graft_shader_depends folder out)
  set(reached ${folder})
  set(next ${folder})
  while(next)
    list(POP_FRONT next one)
    foreach(other IN LISTS includes_of_${one})
      if(NOT other IN_LIST reached)
        list(APPEND reached ${other})
        list(APPEND next ${other})
      endif()
    endforeach()
  endwhile()
  set(files "")
  foreach(one IN LISTS reached)
    list(APPEND files ${files_of_${one}})
  endforeach()
  set(${out} ${files} PARENT_SCOPE)
endfunction()
file(MAKE_DIRECTORY ${GRAFT_SHADER_DIR})

set(feature_bits "")
set(bit 1)
foreach(feature IN LISTS GRAFT_SHADER_FEATURES)
  string(APPEND feature_bits "  needs_${feature} = ${bit},\n")
  math(EXPR bit "${bit} * 2")
endforeach()
set(ids "")
set(known_kernels "")
set(list "")  # of what is packed: a line for each kernel
set(place 0)
set(kernel_names "")
set(built "")  # true or false of each
set(rows "")
set(GRAFT_SHADER_OUTPUTS "")
foreach(shader IN LISTS GRAFT_SHADER_FILES)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader})
  get_filename_component(stem ${shader} NAME_WE)
  file(STRINGS ${shader} variants REGEX "^//! (variant|requires) ")
  set(requires "")
  # Forward passes use what gradients of convolutions by the data compute: transposed convolutions are the same.
  get_filename_component(family ${shader} DIRECTORY)
  get_filename_component(family ${family} NAME)
  set(trains false)
  if(family IN_LIST GRAFT_TRAINING_FAMILIES OR (stem MATCHES "_grad" AND NOT stem MATCHES "conv_.*grad_data|conv_grad_data"))
    set(trains true)
  endif()
  if(NOT variants MATCHES "//! variant ")
    message(FATAL_ERROR "${shader} declares no variant (first lines: //! variant f32 : -DSTORE_F32)")
  endif()
  foreach(line IN LISTS variants)
    if(line MATCHES "^//! requires ([a-z0-9_ ]+)$")
      separate_arguments(requires UNIX_COMMAND "${CMAKE_MATCH_1}")
      continue()
    endif()
    if(NOT line MATCHES "^//! variant ([a-z0-9_]+) *:(.*)$")
      message(FATAL_ERROR "${shader}: malformed variant line: ${line}")
    endif()
    set(name ${stem}__${CMAKE_MATCH_1})
    separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
    string(APPEND ids "  ${name},\n")
    set(bits 0)
    set(lacking "")
    set(env vulkan1.1)
    foreach(feature IN LISTS requires)
      list(FIND GRAFT_SHADER_FEATURES ${feature} index)
      if(index LESS 0)
        message(FATAL_ERROR "${shader}: a variant requires ${feature}; known are ${GRAFT_SHADER_FEATURES}")
      endif()
      math(EXPR bits "${bits} | (1 << ${index})")
      if(NOT GRAFT_SHADER_ENV_${feature} STREQUAL "vulkan1.1")
        set(env ${GRAFT_SHADER_ENV_${feature}})
      endif()
      if(GRAFT_GLSLANG_LACKS_${feature})
        set(lacking ${feature})
      endif()
    endforeach()
    set(requires "")
    list(APPEND known_kernels ${name})
    graft_has_kernel(has ${name} ${trains})
    if(lacking)
      list(APPEND left_out_${lacking} ${name})
    endif()
    if(lacking OR NOT has)
      string(APPEND built "false, ")
      string(APPEND kernel_names "${name}")
      string(APPEND rows "    {sizeof(\"${name}\") - 1, ${bits}, ${trains}, -1},\n")
      continue()
    endif()
    string(APPEND built "true, ")
    set(code ${GRAFT_SHADER_DIR}/${name}.spv)
    list(APPEND commands_of_${family} COMMAND ${GLSLANG_VALIDATOR} -V -g0 --target-env ${env} --quiet ${flags}
      -I${PROJECT_SOURCE_DIR} -o ${code} ${shader})
    list(APPEND codes_of_${family} ${code})
    string(APPEND list "${family} ${code}\n")
    string(APPEND kernel_names "${name}")
    string(APPEND rows "    {sizeof(\"${name}\") - 1, ${bits}, ${trains}, ${place}},\n")
    math(EXPR place "${place} + 1")
  endforeach()
endforeach()
foreach(folder IN LISTS GRAFT_SHADER_FOLDERS)
  if(codes_of_${folder})
    graft_shader_depends(${folder} depends)
    add_custom_command(OUTPUT ${codes_of_${folder}} ${commands_of_${folder}} DEPENDS ${depends}
      COMMENT "Shaders of ${folder}" VERBATIM)
    list(APPEND GRAFT_SHADER_OUTPUTS ${codes_of_${folder}})
  endif()
endforeach()
foreach(kernel IN LISTS GRAFT_WANTED_KERNELS)
  if(NOT kernel IN_LIST known_kernels)
    message(FATAL_ERROR "GRAFT_OPS: there is no kernel \"${kernel}\".")
  endif()
endforeach()
foreach(feature IN LISTS GRAFT_SHADER_FEATURES)
  if(left_out_${feature})
    string(REPLACE ";" ", " names "${left_out_${feature}}")
    message(STATUS "glslang ${glslang_version} lacks ${feature} (${GRAFT_GLSLANG_LACKS_${feature}}); left out: ${names}")
  endif()
endforeach()

# Two headers, so that a new kernel compiles only those files again that name one.
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernel_info.gen.h CONTENT
"// Generated from shaders/ by tools/cmake/GraftShaders.cmake.
#pragma once
#include <cstdint>
#include <cstddef>
#include <span>
#include <string_view>
namespace graft::shaders {
/// One compiled variant of one shader file, <file stem>__<variant>: shaders/kernels.gen.h names them all.
enum class KernelId : std::uint16_t;
/// What a kernel needs of the device beyond Vulkan 1.1; bits.
enum Feature : std::uint32_t {
${feature_bits}};
/// Where the code of a kernel lies: kernels of one folder are packed as one.
struct KernelPlace {
  std::uint32_t group = 0;
  std::uint32_t first = 0;  ///< byte of the unpacked group
  std::uint32_t words = 0;
};
struct KernelInfo {
  std::string_view name;
  std::uint32_t features = 0;
  bool training = false;  ///< no forward pass of a model needs it
  KernelPlace place;
  /// False where the glslang of this build could not compile it, or the build leaves it out (GraftFeatures.cmake).
  bool built() const { return place.words != 0; }
  /// Unpacked when first asked for, and kept; any thread. Empty where it is not built, or there is no memory.
  std::span<const std::uint32_t> spirv() const;
};
const KernelInfo& kernel_info(KernelId id);
/// The code of all kernels as this build holds it, for a hash.
std::span<const std::byte> packed_kernels();
}  // namespace graft::shaders
" @ONLY)
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.gen.h CONTENT
"// Generated from shaders/ by tools/cmake/GraftShaders.cmake.
#pragma once
#include \"shaders/kernel_info.gen.h\"
namespace graft::shaders {
// NOLINTBEGIN(bugprone-reserved-identifier): the two underscores part algorithm and variant
enum class KernelId : std::uint16_t {
${ids}  count_,
};
// NOLINTEND(bugprone-reserved-identifier)
}  // namespace graft::shaders
" @ONLY)
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/built_kernels.gen.h CONTENT
"// Generated from shaders/ and GRAFT_OPS.
#pragma once
#include \"shaders/kernels.gen.h\"
namespace graft::shaders {
inline constexpr bool kBuiltKernels[] = {${built}};
/// KernelInfo::built() where the compiler knows it: what dispatches kernels that are left out can be left out, too.
constexpr bool is_built(KernelId id) { return kBuiltKernels[static_cast<std::uint16_t>(id)]; }
}  // namespace graft::shaders
" @ONLY)
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.gen.cpp CONTENT
"// Generated from shaders/ by tools/cmake/GraftShaders.cmake.
#include \"shaders/kernels.gen.h\"
#include <iterator>
#include \"shaders/kernel_code.h\"
#include \"shaders/kernels.pack.h\"
namespace graft::shaders {
namespace {
// Made into a table when it is first asked for: names one behind the other need no pointers, which a linker would have to list,
// and are packed as the kernels are.
struct Row {
  std::uint8_t name_size, features;
  bool training;
  std::int16_t place;  // of kPlaces, or -1
};
constexpr Row kRows[] = {
${rows}    {0, 0, false, -1},
};
constexpr std::size_t name_bytes() {
  std::size_t sum = 0;
  for (const Row& row : kRows) sum += row.name_size;
  return sum;
}
static_assert(name_bytes() == kGroups[std::size(kGroups) - 2].size);
struct Table {
  KernelInfo kernels[std::size(kRows)];
  Table() {
    const char* name = kernel_names();
    if (name == nullptr) return;  // there is no memory
    for (std::size_t i = 0; i < std::size(kRows); ++i) {
      const Row& row = kRows[i];
      kernels[i] = {{name, row.name_size}, row.features, row.training, row.place < 0 ? KernelPlace{} : kPlaces[row.place]};
      name += row.name_size;
    }
  }
};
}  // namespace
const KernelInfo& kernel_info(KernelId id) {
  static const Table table;
  return table.kernels[static_cast<std::uint16_t>(id)];
}
std::span<const PackedGroup> kernel_groups() { return kGroups; }
std::size_t kernel_count() { return static_cast<std::size_t>(KernelId::count_); }
std::span<const std::byte> packed_kernels() { return std::as_bytes(std::span(kPacked)).first(kPackedBytes); }
}  // namespace graft::shaders
" @ONLY)
# Packed by a program of this machine, whatever the build is for.
find_library(ZSTD_LIBRARY zstd REQUIRED)
set(pack ${PROJECT_SOURCE_DIR}/shaders/pack_kernels.cpp)
if(CMAKE_CROSSCOMPILING)
  find_program(GRAFT_PACK_KERNELS NAMES graft_pack_kernels REQUIRED DOC "Built from ${pack} for this machine")
else()
  add_executable(graft_pack_kernels ${pack})
  target_link_libraries(graft_pack_kernels PRIVATE ${ZSTD_LIBRARY})
  set(GRAFT_PACK_KERNELS graft_pack_kernels)
endif()
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.list CONTENT "${list}" @ONLY)
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.names CONTENT "${kernel_names}" @ONLY)
add_custom_command(OUTPUT ${GRAFT_SHADER_DIR}/kernels.pack.h
  COMMAND ${GRAFT_PACK_KERNELS} ${GRAFT_SHADER_DIR}/kernels.list ${GRAFT_SHADER_DIR}/kernels.names ${GRAFT_SHADER_DIR}/kernels.pack.h
  DEPENDS ${GRAFT_PACK_KERNELS} ${GRAFT_SHADER_DIR}/kernels.list ${GRAFT_SHADER_DIR}/kernels.names ${GRAFT_SHADER_OUTPUTS}
  COMMENT "Packing kernels" VERBATIM)
add_library(graft_shaders OBJECT ${GRAFT_SHADER_DIR}/kernels.gen.cpp ${GRAFT_SHADER_DIR}/kernels.pack.h
  ${PROJECT_SOURCE_DIR}/shaders/kernel_code.cpp)
target_link_libraries(graft_shaders PRIVATE graft_options)
graft_exceptions(graft_shaders)
