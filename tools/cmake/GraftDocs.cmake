# The target docs: the API reference as web pages, in <build>/docs/html, where Doxygen is installed.
find_program(GRAFT_DOXYGEN doxygen)
if(NOT GRAFT_DOXYGEN)
  return()
endif()
set(GRAFT_DOCS_DIR ${PROJECT_BINARY_DIR}/docs)
configure_file(${PROJECT_SOURCE_DIR}/tools/docs/Doxyfile.in ${PROJECT_BINARY_DIR}/Doxyfile @ONLY)
set(GRAFT_DOCS_COMMAND ${CMAKE_COMMAND} -DDOXYGEN=${GRAFT_DOXYGEN} -DFILE=${PROJECT_BINARY_DIR}/Doxyfile
  -DWORK=${GRAFT_DOCS_DIR} -P ${PROJECT_SOURCE_DIR}/tools/docs/check.cmake)
add_custom_target(docs COMMAND ${GRAFT_DOCS_COMMAND} COMMENT "API reference" VERBATIM)
