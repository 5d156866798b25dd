# Installs this build, builds the programs beside this file against what was installed, and runs them on an example
# network. cmake -DBUILD=... -DWORK=... [-DSANITIZE=...] -P run.cmake; "Skipped" in the output where there is no device.
cmake_minimum_required(VERSION 3.22)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result STREQUAL "77")
    message(STATUS "Skipped: ${output}")
    return()
  endif()
  message(STATUS "${output}")
  if(NOT result STREQUAL "0")
    message(FATAL_ERROR "${ARGV} failed: ${result}")
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
# Installed and then moved: nothing in the package may point to where it was installed first.
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
file(RENAME ${WORK}/first ${WORK}/prefix)

# Nothing of this machine or of how graft itself was built may reach whoever uses it.
file(GLOB_RECURSE configs ${WORK}/prefix/*.cmake)
if(NOT configs)
  message(FATAL_ERROR "No package files were installed.")
endif()
foreach(config IN LISTS configs)
  file(READ ${config} text)
  foreach(leak "${BUILD}" "${WORK}" "fsanitize" "fuse-ld" ".so" "/usr/lib/")
    string(FIND "${text}" "${leak}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${config} holds \"${leak}\".")
    endif()
  endforeach()
endforeach()

set(flags "")
if(SANITIZE)
  set(flags "-fsanitize=${SANITIZE}")
endif()
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK}/build -DCMAKE_PREFIX_PATH=${WORK}/prefix
  -DCMAKE_C_FLAGS=${flags} -DCMAKE_CXX_FLAGS=${flags})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/prefix/bin/graft convert --example lenet -o ${WORK}/lenet.onnx)
run(${WORK}/prefix/bin/graft convert ${WORK}/lenet.onnx -o ${WORK}/lenet.graft)
run(${WORK}/build/embed_c ${WORK}/lenet.graft ${WORK}/trained.graft ${WORK}/kept_c)
run(${WORK}/build/embed_cpp ${WORK}/lenet.graft ${WORK}/kept_cpp)
