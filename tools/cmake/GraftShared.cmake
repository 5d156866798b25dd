# graft_shared_library(<target> <name> <map>): what the shared libraries have in common: the name lib<name>, the version, and
# that nothing is seen from outside but what the version script <map> lists.
function(graft_shared_library target name map)
  # The second number is the interface's as long as the first is 0. Android asks for pages of 16 KiB.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} LINKER_LANGUAGE CXX LINK_DEPENDS ${map}
    VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  target_link_options(${target} PRIVATE LINKER:--version-script=${map})
  if(NOT WIN32)
    target_link_options(${target} PRIVATE LINKER:-z,max-page-size=16384)
  endif()
  if(GRAFT_LLD AND CMAKE_BUILD_TYPE STREQUAL "MinSizeRel")
    target_link_options(${target} PRIVATE LINKER:--icf=all)  # equal functions are one; nothing compares their addresses
  endif()
  if(NOT GRAFT_SANITIZE AND NOT WIN32)  # whose own symbols come from the program
    target_link_options(${target} PRIVATE LINKER:-z,defs)
  endif()
endfunction()
