# runtime/ops/ops.list -> core/op_id.gen.h (enum Op), core/built_ops.gen.h (which of them are built), ops/op_table.gen.cpp (registry), ops/ref_table.gen.cpp (references).
# A line is "family: op op op_grad ...", or "family (training): ..."; a line that starts with # is a comment. Every op needs op_<name> and ref_<name>
# in namespace graft::ops::<family>.
# An op whose name holds "_grad" or begins with "fused_" never stands in a file; every other one must stand in
# schema/model.fbs.
set(GRAFT_OPS_LIST ${PROJECT_SOURCE_DIR}/runtime/ops/ops.list)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GRAFT_OPS_LIST} ${PROJECT_SOURCE_DIR}/schema/model.fbs)
file(STRINGS ${GRAFT_OPS_LIST} lines REGEX "^[a-z]")
file(READ ${PROJECT_SOURCE_DIR}/schema/model.fbs model_fbs)
set(ids "")
set(defs "")
set(rows "")
set(refs "")
set(ref_rows "")
set(forward_rows "")  # the same without ops that no graph of weights alone holds
set(training "")
set(built "")
set(known "")
set(GRAFT_TRAINING_FAMILIES "")  # whose kernels training alone needs
foreach(line IN LISTS lines)
  if(NOT line MATCHES "^([a-z_0-9]+)( \\(training\\))?: *([a-z_0-9 ]+)$")
    message(FATAL_ERROR "runtime/ops/ops.list: malformed line: ${line}")
  endif()
  set(family ${CMAKE_MATCH_1})
  set(family_trains "${CMAKE_MATCH_2}")
  separate_arguments(ops UNIX_COMMAND "${CMAKE_MATCH_3}")
  if(family_trains)
    list(APPEND GRAFT_TRAINING_FAMILIES ${family})
  endif()
  foreach(part runtime/ops/${family}/${family}.cpp runtime/ops/${family}/${family}_ref.cpp tests/ops/${family}_test.cpp)
    if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${part})
      message(FATAL_ERROR "Op family ${family} stands in ops.list but lacks ${part}.")
    endif()
  endforeach()
  foreach(op IN LISTS ops)
    if(NOT op MATCHES "_grad|^fused_" AND NOT model_fbs MATCHES "[^a-z_0-9]${op}[^a-z_0-9]")
      message(FATAL_ERROR "Op ${op} stands in ops.list but not in schema/model.fbs (enum Op).")
    endif()
    string(APPEND ids "  ${op},\n")
    list(APPEND known ${op})
    set(trains false)
    if(family_trains OR op MATCHES "_grad")
      set(trains true)
    endif()
    string(APPEND training "${trains}, ")
    graft_has_op(has ${op} ${trains})
    set(is_built true)
    if(NOT has)
      set(is_built false)
    endif()
    string(APPEND built "${is_built}, ")
    if(NOT has)  # it keeps its name, by which a model that needs it is refused
      string(APPEND defs "namespace ${family} { constexpr OpDef op_${op} = {.name = \"${op}\"}; }\n")
      string(APPEND ref_rows "    nullptr,\n")
      string(APPEND forward_rows "    nullptr,\n")
    else()
      string(APPEND defs "namespace ${family} { extern const OpDef op_${op}; }\n")
      string(APPEND refs "namespace ${family} { void ref_${op}(RefContext& c); }\n")
      string(APPEND ref_rows "    ${family}::ref_${op},\n")
      if(trains OR op MATCHES "^fused_(elementwise|epilogue)$")
        string(APPEND forward_rows "    nullptr,\n")
      else()
        string(APPEND forward_rows "    ${family}::ref_${op},\n")
      endif()
    endif()
    string(APPEND rows "    &${family}::op_${op},\n")
  endforeach()
endforeach()
foreach(op IN LISTS GRAFT_WANTED_OPS)
  if(NOT op IN_LIST known)
    message(FATAL_ERROR "GRAFT_OPS: there is no op \"${op}\"; runtime/ops/ops.list has them all.")
  endif()
endforeach()
set(gen ${PROJECT_BINARY_DIR}/generated/runtime)
file(CONFIGURE OUTPUT ${gen}/core/op_id.gen.h CONTENT
"// Generated from runtime/ops/ops.list.
#pragma once
#include <cstdint>
namespace graft {
enum class Op : std::uint16_t {
${ids}  count_,
};
}  // namespace graft
" @ONLY)
file(CONFIGURE OUTPUT ${gen}/core/built_ops.gen.h CONTENT
"// Generated from runtime/ops/ops.list and GRAFT_OPS.
#pragma once
#include \"runtime/core/op_id.gen.h\"
namespace graft {
inline constexpr bool kBuiltOps[] = {${built}};
/// False: GRAFT_OPS or GRAFT_TRAINING=OFF leaves it out.
constexpr bool is_built(Op op) { return kBuiltOps[static_cast<std::uint16_t>(op)]; }
}  // namespace graft
" @ONLY)
file(CONFIGURE OUTPUT ${gen}/ops/op_table.gen.cpp CONTENT
"// Generated from runtime/ops/ops.list.
#include \"runtime/core/op_def.h\"
namespace graft {
namespace ops {
${defs}}  // namespace ops
using namespace ops;
static const OpDef* const kTable[] = {
${rows}};
const OpDef& op_def(Op op) { return *kTable[static_cast<std::uint16_t>(op)]; }
static constexpr bool kTraining[] = {${training}};
bool is_training_op(Op op) { return kTraining[static_cast<std::uint16_t>(op)]; }
}  // namespace graft
" @ONLY)
file(CONFIGURE OUTPUT ${gen}/ops/ref_table.gen.cpp CONTENT
"// Generated from runtime/ops/ops.list.
#include \"runtime/reference/forward.h\"
namespace graft {
namespace ops {
${refs}}  // namespace ops
using namespace ops;
static constexpr RefFn kTable[] = {
${ref_rows}};
RefFn ref_function(Op op) { return kTable[static_cast<std::uint16_t>(op)]; }
static constexpr RefFn kForward[] = {
${forward_rows}};
RefFn forward_ref_function(Op op) { return kForward[static_cast<std::uint16_t>(op)]; }
}  // namespace graft
" @ONLY)
set(GRAFT_OP_TABLE ${gen}/ops/op_table.gen.cpp)
set(GRAFT_REF_TABLE ${gen}/ops/ref_table.gen.cpp)
