# Compiles shaders/**.comp at build time. A shader declares its variants in its own first lines:
#   //! variant f32 : -DSTORE_F32 -DTILE=16
#   //! requires coopmat               (the toolchain feature that the variant after it needs; optional)
# Each variant becomes the kernel <file stem>__<variant> of graft::shaders::KernelId.
find_program(GLSLANG_VALIDATOR NAMES glslangValidator glslang REQUIRED)
find_program(SPIRV_VAL NAMES spirv-val)
file(GLOB_RECURSE GRAFT_SHADER_FILES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.comp)
file(GLOB_RECURSE GRAFT_SHADER_INCLUDES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shaders/*.glsl ${PROJECT_SOURCE_DIR}/shaders/*.h)
set(GRAFT_SHADER_DIR ${PROJECT_BINARY_DIR}/generated/shaders)
file(MAKE_DIRECTORY ${GRAFT_SHADER_DIR})

set(ids "")
set(includes "")
set(rows "")
set(GRAFT_SHADER_OUTPUTS "")
foreach(shader IN LISTS GRAFT_SHADER_FILES)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${shader})
  get_filename_component(stem ${shader} NAME_WE)
  file(STRINGS ${shader} variants REGEX "^//! variant ")
  if(NOT variants)
    message(FATAL_ERROR "${shader} declares no variant (first lines: //! variant f32 : -DSTORE_F32)")
  endif()
  foreach(line IN LISTS variants)
    if(NOT line MATCHES "^//! variant ([a-z0-9_]+) *:(.*)$")
      message(FATAL_ERROR "${shader}: malformed variant line: ${line}")
    endif()
    set(name ${stem}__${CMAKE_MATCH_1})
    separate_arguments(flags UNIX_COMMAND "${CMAKE_MATCH_2}")
    set(header ${GRAFT_SHADER_DIR}/${name}.spv.h)
    add_custom_command(OUTPUT ${header}
      COMMAND ${GLSLANG_VALIDATOR} -V --target-env vulkan1.1 --quiet ${flags} -I${PROJECT_SOURCE_DIR}
              --vn ${name}_words -o ${header} ${shader}
      DEPENDS ${shader} ${GRAFT_SHADER_INCLUDES}
      COMMENT "Shader ${name}" VERBATIM)
    list(APPEND GRAFT_SHADER_OUTPUTS ${header})
    string(APPEND ids "  ${name},\n")
    string(APPEND includes "#include \"shaders/${name}.spv.h\"\n")
    string(APPEND rows "    {\"${name}\", ${name}_words},\n")
  endforeach()
endforeach()

file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.gen.h CONTENT
"// Generated from shaders/ by tools/cmake/GraftShaders.cmake.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
namespace graft::shaders {
/// One compiled variant of one shader file: <file stem>__<variant>.
// NOLINTBEGIN(bugprone-reserved-identifier): the two underscores part algorithm and variant
enum class KernelId : std::uint16_t {
${ids}  count_,
};
// NOLINTEND(bugprone-reserved-identifier)
struct KernelInfo {
  std::string_view name;
  std::span<const std::uint32_t> spirv;
};
const KernelInfo& kernel_info(KernelId id);
}  // namespace graft::shaders
" @ONLY)
file(CONFIGURE OUTPUT ${GRAFT_SHADER_DIR}/kernels.gen.cpp CONTENT
"// Generated from shaders/ by tools/cmake/GraftShaders.cmake.
#include \"shaders/kernels.gen.h\"
${includes}
namespace graft::shaders {
const KernelInfo& kernel_info(KernelId id) {
  static const KernelInfo kTable[] = {
${rows}    {\"\", {}},
  };
  return kTable[static_cast<std::uint16_t>(id)];
}
}  // namespace graft::shaders
" @ONLY)
add_library(graft_shaders OBJECT ${GRAFT_SHADER_DIR}/kernels.gen.cpp ${GRAFT_SHADER_OUTPUTS})
target_link_libraries(graft_shaders PRIVATE graft_options)
