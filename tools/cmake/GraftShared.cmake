include(CheckLinkerFlag)

# graft_exported_symbols(<map> <file>): what the version script <map> lists, as Apple's linker wants it: a symbol or pattern a
# line, each with the underscore that C names have there.
function(graft_exported_symbols map file)
  file(READ ${map} text)
  if(NOT text MATCHES "global:([^:]*);[ \t\r\n]*local:")
    message(FATAL_ERROR "${map} has no list of global symbols before its local ones.")
  endif()
  string(REGEX MATCHALL "[A-Za-z_][A-Za-z0-9_]*\\*?" symbols "${CMAKE_MATCH_1}")
  list(TRANSFORM symbols PREPEND "_")
  list(JOIN symbols "\n" lines)
  file(CONFIGURE OUTPUT ${file} CONTENT "${lines}\n")
endfunction()

# graft_packed_relocations(<target>): addresses that a loader adds the library's own to, 24 bytes each, as a list of bits.
# glibc reads it from 2.36 on, where the linker also says that it has to; Android 6 and later have a format of their own.
# -DGRAFT_LINKER_RELR=OFF is for older ones.
function(graft_packed_relocations target)
  if(WIN32)
    return()
  endif()
  set(flag LINKER:-z,pack-relative-relocs)
  if(ANDROID)
    set(flag LINKER:--pack-dyn-relocs=android)
  endif()
  set(CMAKE_REQUIRED_LINK_OPTIONS "")
  if(GRAFT_USES_LLD)
    set(CMAKE_REQUIRED_LINK_OPTIONS -fuse-ld=lld)
  endif()
  check_linker_flag(CXX ${flag} GRAFT_LINKER_RELR)
  if(GRAFT_LINKER_RELR)
    target_link_options(${target} PRIVATE ${flag})
  endif()
endfunction()

# graft_shared_library(<target> <name> <map>): what the shared libraries have in common: the name lib<name>, the version, and
# that nothing is seen from outside but what the version script <map> lists.
function(graft_shared_library target name map)
  # The second number is the interface's as long as the first is 0.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX LINK_DEPENDS ${map}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  if(APPLE)
    set(exports ${CMAKE_CURRENT_BINARY_DIR}/${name}.exports)
    graft_exported_symbols(${map} ${exports})
    check_linker_flag(CXX LINKER:-exported_symbols_list,${exports} GRAFT_LINKER_EXPORTS)
    if(NOT GRAFT_LINKER_EXPORTS)  # zig's has no such list
      message(STATUS "This linker takes no list of what lib${name} exports; all of its symbols are seen from outside.")
      return()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${map})
    set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS ${exports})
    target_link_options(${target} PRIVATE LINKER:-exported_symbols_list,${exports})
    return()  # its linker has none of the options below, and finds undefined symbols by itself
  endif()
  target_link_options(${target} PRIVATE LINKER:--version-script=${map})
  # Android asks for pages of 16 KiB. A small library for x86-64 elsewhere, whose pages are of 4 KiB, is padded less.
  if(ANDROID OR NOT (WIN32 OR (CMAKE_BUILD_TYPE STREQUAL "MinSizeRel" AND CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64)$")))
    target_link_options(${target} PRIVATE LINKER:-z,max-page-size=16384)
  endif()
  if(CMAKE_BUILD_TYPE STREQUAL "MinSizeRel")
    if(GRAFT_USES_LLD)
      target_link_options(${target} PRIVATE LINKER:--icf=all)  # equal functions are one; nothing compares their addresses
    endif()
    graft_packed_relocations(${target})
  endif()
  if(NOT GRAFT_SANITIZE AND NOT WIN32)  # whose own symbols come from the program
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
