# Runs Doxygen over the public headers; fails on any warning: a function, struct, enumeration or class without a
# description, a comment that does not parse. Fields of structs need one only where their name does not say it all.
# cmake -DDOXYGEN=... -DFILE=Doxyfile -DWORK=folder -P check.cmake
cmake_minimum_required(VERSION 3.22)
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${DOXYGEN} ${FILE} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
file(STRINGS ${WORK}/warnings.txt warnings REGEX "warning: |error: ")
list(FILTER warnings EXCLUDE REGEX "\\(variable\\) of .* is not documented")
if(NOT result EQUAL 0 OR warnings)
  list(JOIN warnings "\n" warnings)
  message(FATAL_ERROR "The API reference has gaps (${result}):\n${output}\n${warnings}")
endif()
if(NOT EXISTS ${WORK}/html/index.html)
  message(FATAL_ERROR "Doxygen wrote no pages.")
endif()
message(STATUS "The API reference is ${WORK}/html/index.html.")
