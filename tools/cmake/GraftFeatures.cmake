# What a build may leave out: whole files, ops and kernels. What is left of graft does without, and says so in a sentence
# where a model needs it.
#   GRAFT_TRAINING=OFF  trainers, optimizers, gradients, data sets, checkpoints; their C functions are not exported
#   GRAFT_TEXT=OFF      tokenizers, chat formats, generators; likewise
#   GRAFT_OPS=...       only these ops: their names, or a file of them, as `graft plan MODEL --ops` writes it. Where
#                       kernels (names with two underscores) stand among them, only these kernels.
#   GRAFT_EXCEPTIONS=OFF  no exceptions: host memory that runs out ends the process, where it is an error otherwise
#   GRAFT_FUNCTIONS=...  the shared library exports only these functions of graft/*.h: their names, or a file in which they
#                       stand, as what `nm -u app.o` prints. What none of them needs is not linked.
#   GRAFT_WITHOUT=...   none of these features, which an app asks for by an option; asked for, they are refused
option(GRAFT_EXCEPTIONS "Exceptions, of which host memory that runs out becomes an error; OFF: it ends the process" ON)
option(GRAFT_TRAINING "Trainers, optimizers, gradients, data sets and checkpoints" ON)
option(GRAFT_TEXT "Tokenizers, chat formats and generators" ON)
set(GRAFT_FUNCTIONS "" CACHE STRING "The C functions to export: names, or a file in which they stand; empty: all")
set(GRAFT_WITHOUT "" CACHE STRING "Features to leave out: names of GRAFT_FEATURES, or all")
set(GRAFT_OPS "" CACHE STRING "The ops to build: names, or a file that graft plan --ops wrote; empty: all")

if(NOT GRAFT_EXCEPTIONS AND (GRAFT_BUILD_TOOLS OR GRAFT_BUILD_TESTS))
  message(FATAL_ERROR "GRAFT_EXCEPTIONS=OFF is for the libraries alone: "
    "add -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF.")
endif()

# graft_exceptions(<target>): without exceptions no function of it has tables to unwind the stack through it. A build for size
# frees memory without saying how much it was, and knows of its types what tokenizers' chat templates alone ask.
function(graft_exceptions target)
  if(CMAKE_BUILD_TYPE STREQUAL "MinSizeRel" AND CMAKE_CXX_COMPILER_ID MATCHES "Clang|GNU")
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-sized-deallocation>)
    if(NOT GRAFT_EXCEPTIONS AND NOT GRAFT_TEXT)
      target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
    endif()
  endif()
  if(NOT GRAFT_EXCEPTIONS)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-exceptions>
      -fno-unwind-tables -fno-asynchronous-unwind-tables)
  endif()
endfunction()

if(NOT GRAFT_TRAINING OR NOT GRAFT_TEXT OR GRAFT_OPS OR GRAFT_WITHOUT)
  if(GRAFT_BUILD_TOOLS OR GRAFT_BUILD_TESTS)
    message(FATAL_ERROR "GRAFT_TRAINING=OFF, GRAFT_TEXT=OFF, GRAFT_OPS and GRAFT_WITHOUT leave out what the tools and the tests need: "
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
    list(FILTER kept EXCLUDE REGEX "/runtime/(train|distribute|checkpoint|data|delta|run_state|personal)/")
    list(FILTER kept EXCLUDE REGEX "/session/(verify|callback_group|split_gradients)\\.cpp$|/report/plan_forecast_training\\.cpp$|/language/(preference|text_(data|encoder|group_source|label_source|layout|pair_source|record_source|records|spec|summary|vectors))\\.cpp$")
    list(FILTER kept EXCLUDE REGEX "/c_api/c_(trainer.*|distribute|data|loader|delta|gate|head|evaluate|verify|checkpoint|snapshots|cipher|memory|examples)\\.cpp$")
  endif()
  if(NOT GRAFT_TEXT)
    list(FILTER kept EXCLUDE REGEX "/runtime/text/|/language/(batch_generator|decode_machine|embedder|generator|generator_recovery|importance|text_(encoder|forms|group_source|label_source|model|pair_source|record_source|records|spec|writer))\\.cpp$|/c_api/c_(embedder|generator|importance|tokenizer)\\.cpp$")
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

# What GRAFT_WITHOUT may name, each with its constant's name and what a build with it has.
set(GRAFT_FEATURES
  "budgets|Budgets|budgets of memory, and plans for less where a device refuses what was planned: computing again, streaming"
  "data|Data|data sets that trainers and checkpoints are given"
  "groups|Groups|trainers of several workers"
  "halves|Halves|results and weights in 16 bits, and scaled losses"
  "losses|Losses|losses other than cross entropy of labels, several terms, teachers"
  "optimizers|Optimizers|optimizers other than sgd, adam and adamw, running means of parameters, proximal terms"
  "recovery|Recovery|devices that are opened anew once they are lost"
  "software|Software|kernels changed to what llvmpipe and SwiftShader run faster")
separate_arguments(without UNIX_COMMAND "${GRAFT_WITHOUT}")
set(features "")
set(known "")
foreach(feature IN LISTS GRAFT_FEATURES)
  string(REPLACE "|" ";" feature "${feature}")
  list(GET feature 0 name)
  list(GET feature 1 constant)
  list(GET feature 2 what)
  list(APPEND known ${name})
  set(has true)
  if(name IN_LIST without OR "all" IN_LIST without)
    set(has false)
  endif()
  string(APPEND features "/// False: without ${what}.\ninline constexpr bool kHas${constant} = ${has};\n")
endforeach()
foreach(name IN LISTS without)
  if(NOT name IN_LIST known AND NOT name STREQUAL "all")
    list(JOIN known ", " known)
    message(FATAL_ERROR "GRAFT_WITHOUT: there is no feature \"${name}\"; there are ${known}, and all.")
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
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/runtime/core/without.gen.h CONTENT
"// Generated by tools/cmake/GraftFeatures.cmake from GRAFT_WITHOUT.
#pragma once
namespace graft {
${features}}  // namespace graft
" @ONLY)
