# Libraries that leave parts of graft out: each is built, linked by a small program, and runs or trains LeNet to the bytes
# of the whole library; what it cannot do it refuses in one sentence.
# cmake -DSOURCE=... -DGRAFT=<tool> -DWHOLE=<libgraft.so> -DWORK=... -P options.cmake; "Skipped" where
# there is no device.
cmake_minimum_required(VERSION 3.22)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(result STREQUAL "77")
    message(FATAL_ERROR "Skipped: ${output}")
  endif()
  if(NOT result STREQUAL "0")
    message(FATAL_ERROR "${ARGV} failed (${result}): ${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# The library with these options, and how large it is.
function(build)
  run(${CMAKE_COMMAND} -E chdir ${SOURCE} ${CMAKE_COMMAND} -B ${WORK}/build --preset small ${ARGV})
  run(${CMAKE_COMMAND} --build ${WORK}/build)
  file(GLOB library ${WORK}/build/runtime/libgraft.so.*.*.*)
  run(strip -o ${WORK}/stripped.so ${library})
  file(SIZE ${WORK}/stripped.so bytes)
  message(STATUS "${ARGV}: ${bytes} bytes, stripped")
  set(ENV{LD_LIBRARY_PATH} ${WORK}/build/runtime)
  execute_process(COMMAND nm -D --defined-only ${library} OUTPUT_VARIABLE symbols)
  set(symbols "${symbols}" PARENT_SCOPE)
endfunction()

function(compile program)
  get_filename_component(folder ${WHOLE} DIRECTORY)
  run(cc -std=c99 -I${SOURCE}/runtime/include ${SOURCE}/tests/package/${program}.c -L${folder} -lgraft -o ${WORK}/${program})
endfunction()

function(expect_refused sentence)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  string(FIND "${output}" "${sentence}" at)
  if(result EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "${ARGN} should be refused with \"${sentence}\", but said (${result}): ${output}")
  endif()
endfunction()

file(MAKE_DIRECTORY ${WORK})
file(REMOVE_RECURSE ${WORK}/kept_whole ${WORK}/kept_small)
run(${GRAFT} convert --example lenet -o ${WORK}/lenet.onnx)
run(${GRAFT} convert ${WORK}/lenet.onnx -o ${WORK}/lenet.graft)
compile(embed)
compile(infer)
compile(without)
get_filename_component(folder ${WHOLE} DIRECTORY)
set(ENV{LD_LIBRARY_PATH} ${folder})
run(${WORK}/embed ${WORK}/lenet.graft ${WORK}/whole.graft ${WORK}/kept_whole)
run(${WORK}/infer ${WORK}/lenet.graft)
set(whole "${output}")

# Without training and text.
build(-DGRAFT_TRAINING=OFF -DGRAFT_TEXT=OFF -DGRAFT_OPS=)
if(symbols MATCHES "graft_(train|data|loader|store|checkpoint|gradients|evaluate|forecast|generat|tokenizer|chat)[a-z_]*")
  message(FATAL_ERROR "${CMAKE_MATCH_0} is exported without training and text.")
endif()
set(ENV{LD_LIBRARY_PATH} ${WORK}/build/runtime)
run(${WORK}/infer ${WORK}/lenet.graft)
if(NOT output STREQUAL whole)
  message(FATAL_ERROR "Without training LeNet gives\n${output}instead of\n${whole}")
endif()

# Installed, it is found by CMake: graft::graft is the shared library, in C and in C++.
file(REMOVE_RECURSE ${WORK}/prefix ${WORK}/found)
run(${CMAKE_COMMAND} --install ${WORK}/build --prefix ${WORK}/prefix)
file(WRITE ${WORK}/found/CMakeLists.txt "cmake_minimum_required(VERSION 3.22)\nproject(found LANGUAGES C CXX)\n\
find_package(graft REQUIRED)\nadd_executable(infer ${SOURCE}/tests/package/infer.c)\n\
target_link_libraries(infer PRIVATE graft::graft)\n\
file(WRITE main.cpp \"#include <graft/session.hpp>\\nint main() { return 0; }\\n\")\n\
add_executable(cpp \${CMAKE_CURRENT_SOURCE_DIR}/main.cpp)\ntarget_link_libraries(cpp PRIVATE graft::graft)\n")
run(${CMAKE_COMMAND} -G Ninja -S ${WORK}/found -B ${WORK}/found/build -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/found/build)
run(${WORK}/found/build/infer ${WORK}/lenet.graft)
if(NOT output STREQUAL whole)
  message(FATAL_ERROR "The installed library gives\n${output}instead of\n${whole}")
endif()

# What another model needs: LeNet's convolution is refused by name.
build(-DGRAFT_OPS=relu,transpose)
expect_refused("leaves out the op \"conv\" (GRAFT_OPS)" ${WORK}/infer ${WORK}/lenet.graft)

# LeNet's ops and kernels alone, with training.
file(WRITE ${WORK}/lenet.ops "")
foreach(optimizer adamw sgd)  # lists may follow each other
  run(${GRAFT} plan ${WORK}/lenet.graft --mode train --optimizer ${optimizer} --ops)
  file(APPEND ${WORK}/lenet.ops "${output}")
endforeach()
# Of the functions those that the programs call.
execute_process(COMMAND nm -u ${WORK}/embed ${WORK}/infer ${WORK}/without OUTPUT_FILE ${WORK}/functions)
build(-DGRAFT_TRAINING=ON -DGRAFT_OPS=${WORK}/lenet.ops -DGRAFT_FUNCTIONS=${WORK}/functions)
if(NOT symbols MATCHES "graft_train_step" OR symbols MATCHES "graft_data_[a-z_]*")
  message(FATAL_ERROR "${CMAKE_MATCH_0} is exported, or graft_train_step is not: ${symbols}")
endif()
run(${WORK}/embed ${WORK}/lenet.graft ${WORK}/small.graft ${WORK}/kept_small)
run(${CMAKE_COMMAND} -E compare_files ${WORK}/whole.graft ${WORK}/small.graft)
run(${WORK}/infer ${WORK}/lenet.graft)
if(NOT output STREQUAL whole)
  message(FATAL_ERROR "With its ops alone LeNet gives\n${output}instead of\n${whole}")
endif()

# The same without any feature that an app asks for by an option: to the same bytes, and what is asked for is refused.
build(-DGRAFT_WITHOUT=all)
file(REMOVE_RECURSE ${WORK}/kept_small)
run(${WORK}/embed ${WORK}/lenet.graft ${WORK}/small.graft ${WORK}/kept_small)
run(${CMAKE_COMMAND} -E compare_files ${WORK}/whole.graft ${WORK}/small.graft)
run(${WORK}/infer ${WORK}/lenet.graft)
if(NOT output STREQUAL whole)
  message(FATAL_ERROR "Without features LeNet gives\n${output}instead of\n${whole}")
endif()
run(${WORK}/without ${WORK}/lenet.graft)
