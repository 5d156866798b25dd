# What a build may leave out: whole files, ops and kernels. What is left of graft does without, and says so in a sentence
# where a model needs it.
#   GRAFT_TRAINING=OFF  trainers, optimizers, gradients, data sets, checkpoints; their C functions are not exported
#   GRAFT_TEXT=OFF      tokenizers, chat formats, generators; likewise
#   GRAFT_OPS=...       only these ops: their names, or a file of them, as `graft plan MODEL --ops` writes it. Where
#                       kernels (names with two underscores) stand among them, only these kernels.
#   GRAFT_EXCEPTIONS=OFF  no exceptions: host memory that runs out ends the process, where it is an error otherwise
#   GRAFT_FUNCTIONS=...  the shared library exports only these functions of graft/*.h: their names, or a file in which they
#                       stand, as what `nm -u app.o` prints. What none of them needs is not linked.
option(GRAFT_EXCEPTIONS "Exceptions, of which host memory that runs out becomes an error; OFF: it ends the process" ON)
option(GRAFT_TRAINING "Trainers, optimizers, gradients, data sets and checkpoints" ON)
option(GRAFT_TEXT "Tokenizers, chat formats and generators" ON)
set(GRAFT_FUNCTIONS "" CACHE STRING "The C functions to export: names, or a file in which they stand; empty: all")
set(GRAFT_OPS "" CACHE STRING "The ops to build: names, or a file that graft plan --ops wrote; empty: all")

if(NOT GRAFT_EXCEPTIONS AND (GRAFT_BUILD_TOOLS OR GRAFT_BUILD_TESTS))
  message(FATAL_ERROR "GRAFT_EXCEPTIONS=OFF is for the libraries alone: "
    "add -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF.")
endif()

# graft_exceptions(<target>): without exceptions no function of it has tables to unwind the stack through it.
function(graft_exceptions target)
  if(NOT GRAFT_EXCEPTIONS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
      -fno-unwind-tables -fno-asynchronous-unwind-tables)
  endif()
endfunction()

if(NOT GRAFT_TRAINING OR NOT GRAFT_TEXT OR GRAFT_OPS)
  if(GRAFT_BUILD_TOOLS OR GRAFT_BUILD_TESTS)
    message(FATAL_ERROR "GRAFT_TRAINING=OFF, GRAFT_TEXT=OFF and GRAFT_OPS leave out what the tools and the tests need: "
      "add -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF.")
  endif()
endif()

if(NOT GRAFT_TRAINING OR NOT GRAFT_TEXT)
  foreach(binding GRAFT_PYTHON GRAFT_JVM)
    if("${${binding}}" STREQUAL "ON")
      message(FATAL_ERROR "${binding} needs a whole library: GRAFT_TRAINING and GRAFT_TEXT must be ON.")
    endif()
    set(${binding} OFF)
  endforeach()
endif()

# graft_export_map(<map>): in place of the path of the version script of all functions, that of GRAFT_FUNCTIONS, if they are given.
function(graft_export_map map)
  if(NOT GRAFT_FUNCTIONS)
    return()
  endif()
  set(text "${GRAFT_FUNCTIONS}")
  if(EXISTS "${GRAFT_FUNCTIONS}" AND NOT IS_DIRECTORY "${GRAFT_FUNCTIONS}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GRAFT_FUNCTIONS})
    file(READ "${GRAFT_FUNCTIONS}" text)
  elseif(GRAFT_FUNCTIONS MATCHES "[/.]")
    message(FATAL_ERROR "GRAFT_FUNCTIONS: there is no file ${GRAFT_FUNCTIONS} (a relative path starts at ${CMAKE_CURRENT_BINARY_DIR}).")
  endif()
  string(REGEX MATCHALL "graft_[a-z0-9_]+" names "${text}")
  list(REMOVE_DUPLICATES names)
  list(SORT names)
  if(NOT names)
    message(FATAL_ERROR "GRAFT_FUNCTIONS names no function: ${GRAFT_FUNCTIONS}")
  endif()
  file(GLOB headers ${PROJECT_SOURCE_DIR}/runtime/include/graft/*.h)
  set(declared "")
  foreach(header IN LISTS headers)
    file(READ ${header} header_text)
    string(APPEND declared "${header_text}")
  endforeach()
  set(lines "")
  foreach(name IN LISTS names)
    if(NOT declared MATCHES "[ *]${name}\\(")
      message(FATAL_ERROR "GRAFT_FUNCTIONS: no header of graft declares ${name}().")
    endif()
    string(APPEND lines "    ${name};\n")
  endforeach()
  set(file ${CMAKE_CURRENT_BINARY_DIR}/functions.map)
  file(CONFIGURE OUTPUT ${file} CONTENT "GRAFT_0 {\n  global:\n${lines}  local: *;\n};\n" @ONLY)
  set(${map} ${file} PARENT_SCOPE)
endfunction()

set(GRAFT_WANTED_OPS "")
set(GRAFT_WANTED_KERNELS "")
if(GRAFT_OPS)
  set(words "${GRAFT_OPS}")
  if(EXISTS "${GRAFT_OPS}" AND NOT IS_DIRECTORY "${GRAFT_OPS}")
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GRAFT_OPS})
    file(STRINGS "${GRAFT_OPS}" words)
    list(FILTER words EXCLUDE REGEX "^ *#")
  elseif(GRAFT_OPS MATCHES "[/.]")
    message(FATAL_ERROR "GRAFT_OPS: there is no file ${GRAFT_OPS} (a relative path starts at ${CMAKE_CURRENT_BINARY_DIR}).")
  endif()
  string(REGEX MATCHALL "[^ ,;\t\r\n]+" words "${words}")
  foreach(word IN LISTS words)
    if(word MATCHES "__")
      list(APPEND GRAFT_WANTED_KERNELS ${word})
    else()
      list(APPEND GRAFT_WANTED_OPS ${word})
    endif()
  endforeach()
endif()

# graft_has_op(<out> <op> <of training>)
function(graft_has_op out op training)
  set(${out} ON PARENT_SCOPE)
  if((training AND NOT GRAFT_TRAINING) OR (GRAFT_WANTED_OPS AND NOT op IN_LIST GRAFT_WANTED_OPS))
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

# graft_has_kernel(<out> <kernel> <of training>)
function(graft_has_kernel out kernel training)
  set(${out} ON PARENT_SCOPE)
  if((training AND NOT GRAFT_TRAINING) OR (GRAFT_WANTED_KERNELS AND NOT kernel IN_LIST GRAFT_WANTED_KERNELS))
    set(${out} OFF PARENT_SCOPE)
  endif()
endfunction()

# graft_leave_out(<list of the runtime's sources>)
function(graft_leave_out name)
  set(kept "${${name}}")
  if(NOT GRAFT_TRAINING)
    list(FILTER kept EXCLUDE REGEX "/runtime/(train|distribute|checkpoint|data|delta|session/checkpoint)/")
    list(FILTER kept EXCLUDE REGEX "/session/(training|gate|verify|callback_group|split_gradients|preference|text_(data|encoder|group_source|label_source|layout|pair_source|record_source|records|spec|summary|vectors)|data_hints|configuration)\\.cpp$")
    list(FILTER kept EXCLUDE REGEX "/c_api/c_(trainer.*|distribute|data|delta|gate|evaluate|verify|checkpoint|snapshots|cipher|memory)\\.cpp$")
  endif()
  if(NOT GRAFT_TEXT)
    list(FILTER kept EXCLUDE REGEX "/runtime/text/|/session/(batch_generator|decode_machine|embedder|generator|generator_recovery|importance|text_(encoder|forms|group_source|label_source|model|pair_source|record_source|records|spec|writer))\\.cpp$|/c_api/c_(embedder|generator|importance|tokenizer)\\.cpp$")
  endif()
  set(${name} "${kept}" PARENT_SCOPE)
endfunction()

foreach(feature TRAINING TEXT)
  string(TOLOWER has_${feature} has)
  set(${has} false)
  if(GRAFT_${feature})
    set(${has} true)
  endif()
endforeach()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/runtime/core/features.gen.h CONTENT
"// Generated by tools/cmake/GraftFeatures.cmake.
#pragma once
namespace graft {
/// False: rules for gradients are not linked.
inline constexpr bool kHasTraining = ${has_training};
/// False: tokenizers are not linked.
inline constexpr bool kHasText = ${has_text};
}  // namespace graft
" @ONLY)
