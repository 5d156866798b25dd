# What every target of graft shares.
add_library(graft_options INTERFACE)
target_include_directories(graft_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/runtime/include>
  $<BUILD_INTERFACE:${GRAFT_INTERFACE_DIR}>
  $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/generated>)
target_compile_options(graft_options INTERFACE -Wall -Wextra -Wshadow -Wno-missing-field-initializers -ffp-contract=off)
# When it optimizes, GCC reports a variant's other members as uninitialized, and pointers that vectors free as offset.
# Clang, the sanitizers and GCC's other warnings find real ones.
target_compile_options(graft_options INTERFACE
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<NOT:$<CONFIG:Debug>>>:-Wno-maybe-uninitialized;-Wno-free-nonheap-object>")
set(werror OFF)
if(DEFINED ENV{GRAFT_WERROR})
  set(werror $ENV{GRAFT_WERROR})  # as in CI
endif()
option(GRAFT_WERROR "Warnings are errors (default: that of the environment's GRAFT_WERROR)" ${werror})
if(GRAFT_WERROR)
  # GCC's library uses by itself what it deprecates, which clang reports where the library's templates are used.
  target_compile_options(graft_options INTERFACE -Werror "$<$<CXX_COMPILER_ID:Clang>:-Wno-error=deprecated-declarations>")
endif()

if(GRAFT_SANITIZE)
  target_compile_options(graft_options INTERFACE -fsanitize=${GRAFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(graft_options INTERFACE -fsanitize=${GRAFT_SANITIZE})
endif()
if(GRAFT_BUILD_FUZZERS)
  target_compile_options(graft_options INTERFACE -fsanitize=fuzzer-no-link)  # coverage, without libFuzzer's main
endif()

find_program(GRAFT_CCACHE ccache)
if(GRAFT_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${GRAFT_CCACHE})
  set(CMAKE_C_COMPILER_LAUNCHER ${GRAFT_CCACHE})
endif()
find_program(GRAFT_LLD ld.lld)
# What GCC keeps for optimising all as one program only GCC's own linkers read.
set(GRAFT_USES_LLD OFF)
if(GRAFT_LLD AND NOT (CMAKE_INTERPROCEDURAL_OPTIMIZATION AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU"))
  set(GRAFT_USES_LLD ON)
endif()
if(GRAFT_USES_LLD)
  target_link_options(graft_options INTERFACE -fuse-ld=lld)
endif()
