# Tests that are commands rather than programs.

# A released schema schema/released/<stem>-<n>.fbs stays readable: what schema/<stem>.fbs says today is an extension.
file(GLOB released CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/schema/released/*.fbs)
foreach(old IN LISTS released)
  get_filename_component(version ${old} NAME_WE)
  string(REGEX REPLACE "-[0-9]+$" "" stem ${version})
  add_test(NAME schema/${version} COMMAND ${FLATC} --conform ${old} ${PROJECT_SOURCE_DIR}/schema/${stem}.fbs)
  set_tests_properties(schema/${version} PROPERTIES LABELS quick TIMEOUT 30)
endforeach()

# That command must also be able to fail: a schema without one of its fields is not an extension.
file(READ ${PROJECT_SOURCE_DIR}/schema/model.fbs broken)
string(REPLACE "  checksum_low:ulong;" "" broken "${broken}")
file(WRITE ${PROJECT_BINARY_DIR}/broken_model.fbs "${broken}")
add_test(NAME schema/notices_a_lost_field
  COMMAND ${FLATC} --conform ${PROJECT_SOURCE_DIR}/schema/released/model-1.fbs ${PROJECT_BINARY_DIR}/broken_model.fbs)
set_tests_properties(schema/notices_a_lost_field PROPERTIES LABELS quick TIMEOUT 30 WILL_FAIL ON)

# cmake --install, then find_package(graft) from a project that knows nothing of this one.
if(TARGET graft_cli)
  add_test(NAME package/embed COMMAND ${CMAKE_COMMAND} -DBUILD=${PROJECT_BINARY_DIR}
    -DWORK=${PROJECT_BINARY_DIR}/package_test -DSANITIZE=${GRAFT_SANITIZE}
    -P ${PROJECT_SOURCE_DIR}/tests/package/run.cmake)
  set_tests_properties(package/embed PROPERTIES LABELS slow TIMEOUT 1200 SKIP_REGULAR_EXPRESSION "Skipped: ")
endif()

# Builds the libraries that leave parts out: some minutes each.
if(TARGET graft_cli AND TARGET graft_shared AND NOT GRAFT_SANITIZE)
  add_test(NAME package/options COMMAND ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DGRAFT=$<TARGET_FILE:graft_cli>
    -DWHOLE=$<TARGET_FILE:graft_shared> -DWORK=${PROJECT_BINARY_DIR}/options_test
    -P ${PROJECT_SOURCE_DIR}/tests/package/options.cmake CONFIGURATIONS long)
  set_tests_properties(package/options PROPERTIES LABELS long TIMEOUT 7200 SKIP_REGULAR_EXPRESSION "Skipped: ")
endif()

# The API reference is complete.
if(GRAFT_DOXYGEN)
  add_test(NAME package/docs COMMAND ${GRAFT_DOCS_COMMAND})
else()
  add_test(NAME package/docs COMMAND ${CMAKE_COMMAND} -E echo "Skipped: Doxygen is not installed")
endif()
set_tests_properties(package/docs PROPERTIES LABELS quick TIMEOUT 300 SKIP_REGULAR_EXPRESSION "Skipped: ")

# Documents are plain, and their links lead somewhere.
add_test(NAME package/prose COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/prose_test.py)
set_tests_properties(package/prose PROPERTIES LABELS quick TIMEOUT 60)

# The commands of docs/ print what the pages say.
if(TARGET graft_cli)
  set(pages /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/pages_test.py $<TARGET_FILE:graft_cli>)
  add_test(NAME package/pages COMMAND ${pages} start/first-run how-to/watch-a-run how-to/go-back-to-a-snapshot)
  set_tests_properties(package/pages PROPERTIES LABELS slow TIMEOUT 2400)
  add_test(NAME package/pages@rest COMMAND ${pages} CONFIGURATIONS long)  # all pages: seven minutes
  set_tests_properties(package/pages@rest PROPERTIES LABELS long TIMEOUT 7200)
  add_test(NAME package/site COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/site_test.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(package/site PROPERTIES LABELS slow TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# Programs built with the headers of another version.
if(TARGET graft_cli AND TARGET graft_shared AND NOT GRAFT_SANITIZE)
  add_test(NAME package/abi COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/abi.py
    $<TARGET_FILE:graft_shared> ${PROJECT_SOURCE_DIR}/runtime/include $<TARGET_FILE:graft_cli> ${PROJECT_BINARY_DIR}/abi_test)
  set_tests_properties(package/abi PROPERTIES LABELS quick TIMEOUT 300 SKIP_RETURN_CODE 77)
endif()

# The recipes for vcpkg and Conan.
add_test(NAME package/recipes COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/recipes.py ${PROJECT_SOURCE_DIR})
set_tests_properties(package/recipes PROPERTIES LABELS quick TIMEOUT 30)

# What changes of the C interface break programs (exit status 77: abidiff is not installed).
add_test(NAME package/abi_diff COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/package/abi_diff_test.py)
set_tests_properties(package/abi_diff PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)

# The same files are the same archive.
add_test(NAME package/archive COMMAND sh ${PROJECT_SOURCE_DIR}/tests/package/archive_test.sh
  ${PROJECT_SOURCE_DIR}/tools/package/archive.sh)
set_tests_properties(package/archive PROPERTIES LABELS quick TIMEOUT 30)

# What a released program may need of Linux.
add_test(NAME package/check_linux COMMAND sh ${PROJECT_SOURCE_DIR}/tests/package/check_linux_test.sh
  ${PROJECT_SOURCE_DIR}/tools/package/check_linux.sh)
set_tests_properties(package/check_linux PROPERTIES LABELS quick TIMEOUT 60 SKIP_RETURN_CODE 77)

# Released packages in clean systems, once `sh tools/package/release.sh VERSION build/packages` has made them (77: it has not).
set(packages ${PROJECT_SOURCE_DIR}/build/packages)
foreach(test IN ITEMS "tarball ${packages}/graft-${PROJECT_VERSION}-linux-x86_64.tar.gz" "deb ${packages}"
    "wheel ${packages}" "dockerfile ${packages}" "arm64 ${packages}")
  separate_arguments(test UNIX_COMMAND "${test}")
  list(POP_FRONT test name)
  add_test(NAME package/${name} COMMAND sh ${PROJECT_SOURCE_DIR}/tests/package/${name}_test.sh ${test} CONFIGURATIONS long)
  set_tests_properties(package/${name} PROPERTIES LABELS long TIMEOUT 3600 SKIP_RETURN_CODE 77)
endforeach()

# Each function of the interface has an example.
add_test(NAME package/examples COMMAND ${CMAKE_COMMAND} -P ${PROJECT_SOURCE_DIR}/tests/package/examples.cmake)
set_tests_properties(package/examples PROPERTIES LABELS quick TIMEOUT 30)

# Each public header compiles without the others.
add_test(NAME package/headers COMMAND ${CMAKE_COMMAND} -DCC=${CMAKE_C_COMPILER} -DCXX=${CMAKE_CXX_COMPILER}
  -DINTERFACE=${GRAFT_INTERFACE_DIR} -P ${PROJECT_SOURCE_DIR}/tests/package/headers.cmake)
set_tests_properties(package/headers PROPERTIES LABELS slow TIMEOUT 300)

# The functions that shared libraries export.
function(symbols_test name library headers listed)
  if(TARGET ${library})
    add_test(NAME package/${name} COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:${library}>
      -DHEADERS=${PROJECT_SOURCE_DIR}/${headers} -DLISTED=${listed} -P ${PROJECT_SOURCE_DIR}/tests/package/symbols.cmake)
    set_tests_properties(package/${name} PROPERTIES LABELS quick TIMEOUT 30)
  endif()
endfunction()
symbols_test(symbols graft_shared runtime/include/graft symbols.txt)
symbols_test(convert_symbols graft_convert_shared tools/convert/include/graft convert_symbols.txt)

# Sanitizers: what a driver never frees would count as the tool's leak; programs in tests/ look for graft's own.
set(tool_environment ASAN_OPTIONS=detect_leaks=0)

# Against PyTorch, where Debian's package is installed (exit status 77 says that it is not).
if(TARGET graft_cli)
  add_test(NAME torch/parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/decoder_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/decoder_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/encoder_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/encoder_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/loss_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/loss_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/lora_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/lora_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/new_tokens_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/new_tokens_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/distill_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/distill_parity.py $<TARGET_FILE:graft_cli> brief)
  add_test(NAME torch/distill_parity@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/distill_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/embed_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/embed_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/contrast_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/contrast_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/neftune_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/neftune_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/preference_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/preference_parity.py $<TARGET_FILE:graft_cli> dpo)
  add_test(NAME torch/preference_parity@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/preference_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/export_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/export_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/random_networks CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/random_networks.py $<TARGET_FILE:graft_cli>)
  # What differs most; open_sizes.py without names takes all.
  add_test(NAME torch/open_sizes
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/open_sizes.py $<TARGET_FILE:graft_cli>
      "sines of positions" halves "detection grid" windows "padded up" "resized table" volumes)
  add_test(NAME torch/open_sizes@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/open_sizes.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/counted
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/counted.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/llama_cpp_parity CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/llama_cpp_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/llama_cpp_embeddings CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/llama_cpp_embeddings.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/llama_cpp_imatrix CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/llama_cpp_imatrix.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/llama_cpp_logits CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/llama_cpp_logits.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/formats
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/formats.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/patterns
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/patterns.py $<TARGET_FILE:graft_cli> --every 3)
  add_test(NAME torch/patterns@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/patterns.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/spatial_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/spatial_parity.py $<TARGET_FILE:graft_cli>)
  add_test(NAME torch/quantized
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/quantized.py $<TARGET_FILE:graft_cli>)
  # The networks of the zoo whose steps are small; zoo.py without names takes all.
  add_test(NAME torch/zoo
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/zoo.py $<TARGET_FILE:graft_cli>
      sensor_cnn tcn bert gpt)
  # What differs most among the kinds; kinds.py without names takes all.
  add_test(NAME torch/kinds
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/kinds.py $<TARGET_FILE:graft_cli>
      char_cnn unet_open gru two_heads)
  add_test(NAME torch/kinds@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/kinds.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(torch/kinds@all torch/patterns@all torch/preference_parity@all torch/distill_parity@all torch/random_networks torch/open_sizes@all torch/llama_cpp_parity torch/llama_cpp_embeddings torch/llama_cpp_imatrix torch/llama_cpp_logits
    PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77 ENVIRONMENT ${tool_environment})
  # Masks alone, which it draws itself; without names all, on real data (label long, with GRAFT_TEST_DATA).
  if(TARGET graft_codecs)
    add_test(NAME torch/data_sets
      COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/data_sets.py $<TARGET_FILE:graft_cli> masks)
    add_test(NAME torch/data_sets@all CONFIGURATIONS long
      COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/data_sets.py $<TARGET_FILE:graft_cli>)
    set_tests_properties(torch/data_sets PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
    set_tests_properties(torch/data_sets@all PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
  endif()
  add_test(NAME torch/tflite_twins
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/tflite_twins.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(torch/tflite_twins PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
  add_test(NAME torch/judge
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/judge.py $<TARGET_FILE:graft_cli> --every 25)
  add_test(NAME torch/judge@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/judge.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(torch/judge PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
  set_tests_properties(torch/judge@all PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
  # 300 random graphs; every attribute of the operators in ONNX's own cases, perturbed.
  add_test(NAME torch/onnx_graphs CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tools/dev/fuzz_onnx.py graphs $<TARGET_FILE:graft_cli> --minutes 60 --count 300)
  add_test(NAME torch/onnx_attributes CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tools/dev/fuzz_onnx.py attributes $<TARGET_FILE:graft_cli>)
  set_tests_properties(torch/onnx_graphs torch/onnx_attributes
    PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77 ENVIRONMENT "${tool_environment}")
  add_test(NAME torch/recurrent_parity
    COMMAND /usr/bin/python3 -B -W ignore ${PROJECT_SOURCE_DIR}/tests/torch/recurrent_parity.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(torch/quantized torch/spatial_parity torch/parity torch/recurrent_parity torch/decoder_parity torch/loss_parity torch/lora_parity torch/new_tokens_parity torch/distill_parity torch/neftune_parity torch/embed_parity torch/encoder_parity torch/contrast_parity torch/preference_parity torch/export_parity torch/formats torch/patterns torch/zoo torch/kinds torch/counted torch/open_sizes
    PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77 ENVIRONMENT ${tool_environment})
endif()

# Chat templates beside Jinja itself (77: it is not installed).
add_executable(render_templates text/render_templates.cpp)
target_link_libraries(render_templates PRIVATE graft_test_support)
add_test(NAME text/templates COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/text/template_parity.py
  $<TARGET_FILE:render_templates>)
set_tests_properties(text/templates PROPERTIES LABELS middle TIMEOUT 300 SKIP_RETURN_CODE 77)

# The tables of Unicode beside Python's.
add_executable(unicode_points text/unicode_points.cpp)
target_link_libraries(unicode_points PRIVATE graft_test_support)
add_test(NAME text/unicode COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/text/unicode_parity.py $<TARGET_FILE:unicode_points>)
set_tests_properties(text/unicode PROPERTIES LABELS middle TIMEOUT 300)

# Tokenizers beside Hugging Face's own library, npm's `tokenizers` (77: it is not there; NODE_PATH says where).
add_executable(encode_texts text/encode_texts.cpp)
target_link_libraries(encode_texts PRIVATE graft_test_support)
# Ids of conversations as the library gave them (77: without the test data there are only small tokenizers).
add_test(NAME text/chats COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/text/chat_parity.py $<TARGET_FILE:encode_texts>)
set_tests_properties(text/chats PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77)
find_program(GRAFT_TEST_NODE node)
if(GRAFT_TEST_NODE)
  add_test(NAME text/tokenizers CONFIGURATIONS long
    COMMAND ${GRAFT_TEST_NODE} ${PROJECT_SOURCE_DIR}/tests/text/tokenizer_parity.js $<TARGET_FILE:encode_texts> --texts 10000)
  set_tests_properties(text/tokenizers PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77)
endif()

# The command line from outside.
find_program(GRAFT_TEST_PYTHON python3)
if(TARGET graft_cli AND GRAFT_TEST_PYTHON)
  file(GLOB cli_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/cli/*_test.py ${PROJECT_SOURCE_DIR}/tests/personal/*_test.py)
  if(NOT TARGET graft_codecs)
    list(FILTER cli_tests EXCLUDE REGEX "pictures_test")
  endif()
  foreach(script IN LISTS cli_tests)
    get_filename_component(name ${script} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    set(python ${GRAFT_TEST_PYTHON})
    if(name MATCHES "^(counted|layout|names|verify)$")
      set(python /usr/bin/python3)  # needs numpy and onnx, as Debian's packages have them
    endif()
    add_test(NAME cli/${name} COMMAND ${python} -B ${script} $<TARGET_FILE:graft_cli>)
    # Whole trainings take some ten seconds. Each start of the tool opens the device, and its driver compiles kernels.
    if(name MATCHES "^(chat|export|fields|grammar|honesty|host_memory|language.*|layout|limits|memory|pictures|precision|processes|resume|runs|shortage|text_data|workers)$")
      set(label slow)
    elseif(name MATCHES "^(golden|help|passes|tokenize|verify)$")
      set(label quick)
    elseif(name STREQUAL "compilers")
      set(label compilers)
    else()
      set(label middle)
    endif()
    set_tests_properties(cli/${name} PROPERTIES LABELS ${label} TIMEOUT 1800 SKIP_RETURN_CODE 77
      ENVIRONMENT ${tool_environment})
  endforeach()
endif()

# `graft recipes`, and each recipe from end to end.
if(TARGET graft_cli AND GRAFT_TEST_PYTHON)
  set(recipe_tests ${PROJECT_SOURCE_DIR}/tests/recipes/recipes_test.py)
  add_test(NAME recipes/command COMMAND ${GRAFT_TEST_PYTHON} -B ${recipe_tests} $<TARGET_FILE:graft_cli> Command)
  set_tests_properties(recipes/command PROPERTIES LABELS quick TIMEOUT 300 SKIP_RETURN_CODE 77)
  file(GLOB recipes CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tools/graft/recipes ${PROJECT_SOURCE_DIR}/tools/graft/recipes/*/README.md)
  foreach(readme IN LISTS recipes)
    cmake_path(GET readme PARENT_PATH recipe)
    string(REPLACE "-" "_" test ${recipe})
    add_test(NAME recipes/${test} COMMAND ${GRAFT_TEST_PYTHON} -B ${recipe_tests} $<TARGET_FILE:graft_cli> Recipe.test_${test})
    set_tests_properties(recipes/${test} PROPERTIES LABELS middle TIMEOUT 1800 SKIP_REGULAR_EXPRESSION "skipped=" SKIP_RETURN_CODE 77)
  endforeach()
endif()

# cli/shortage and cli/compile_only run on a Vulkan library whose device runs short of memory, or does nothing.
if(TARGET graft_cli AND GRAFT_TEST_PYTHON AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_library(short_driver MODULE ${PROJECT_SOURCE_DIR}/tests/cli/short_driver.cpp)
  target_link_libraries(short_driver PRIVATE ${CMAKE_DL_LIBS})
  target_include_directories(short_driver PRIVATE ${PROJECT_SOURCE_DIR})
  set_property(TEST cli/shortage cli/compile_only c_api/vulkan APPEND PROPERTY
    ENVIRONMENT GRAFT_TEST_SHORT_DRIVER=$<TARGET_FILE:short_driver>)
endif()

# The compilers of phones' GPUs, which take the environment's variable of this name where this is empty.
set(GRAFT_PHONE_COMPILERS "" CACHE PATH "A build of Mesa's freedreno driver with its no-hardware shim, for cli/compilers")
if(TEST cli/compilers AND GRAFT_PHONE_COMPILERS)
  set_property(TEST cli/compilers APPEND PROPERTY ENVIRONMENT GRAFT_PHONE_COMPILERS=${GRAFT_PHONE_COMPILERS})
endif()

# The long form of what cli/resume tries 20 times: 300 kills at random instants.
if(TARGET graft_cli AND GRAFT_TEST_PYTHON)
  add_test(NAME cli/resume_long CONFIGURATIONS long
    COMMAND ${GRAFT_TEST_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/cli/resume_test.py $<TARGET_FILE:graft_cli>
      Resume.test_killed_runs_end_with_the_same_weights)
  set_tests_properties(cli/resume_long PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
    ENVIRONMENT "${tool_environment};GRAFT_TEST_KILLS=300")
endif()

# All networks of cli/layout, which takes every third.
if(TEST cli/layout)
  add_test(NAME cli/layout@all CONFIGURATIONS long
    COMMAND /usr/bin/python3 -B ${PROJECT_SOURCE_DIR}/tests/cli/layout_test.py $<TARGET_FILE:graft_cli>)
  set_tests_properties(cli/layout@all PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
    ENVIRONMENT "${tool_environment};GRAFT_TEST_ROWS=")
endif()

# A little of tools/dev/torture.sh, the same each time.
if(TARGET graft_cli AND GRAFT_TEST_PYTHON AND CMAKE_SYSTEM_NAME STREQUAL "Linux" AND NOT GRAFT_SANITIZE)
  add_library(failing_calls MODULE ${PROJECT_SOURCE_DIR}/tests/torture/failing_calls.cpp)
  target_link_libraries(failing_calls PRIVATE ${CMAKE_DL_LIBS})
  add_test(NAME torture/short COMMAND ${GRAFT_TEST_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/torture/torture.py
    $<TARGET_FILE:graft_cli> $<TARGET_FILE:failing_calls> --faults 40 --seed 7)
  set_tests_properties(torture/short PROPERTIES LABELS slow TIMEOUT 1800 SKIP_RETURN_CODE 77)
endif()

# The long form of cli/precision: whole curves.
if(TARGET graft_cli AND GRAFT_TEST_PYTHON)
  add_test(NAME cli/precision_long CONFIGURATIONS long
    COMMAND ${GRAFT_TEST_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/cli/precision_test.py $<TARGET_FILE:graft_cli> Curves)
  set_tests_properties(cli/precision_long PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77
    ENVIRONMENT "${tool_environment};GRAFT_TEST_STEPS=300")
endif()

# See tests/support/heap_faults.h.
if(NOT GRAFT_SANITIZE AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  target_link_options(c_api_faults_test PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/support/no_exports.map)
endif()

# What a user runs first on a new machine: every kernel against a known answer. The driver compiles each of them.
if(TARGET graft_cli)
  add_test(NAME cli/self_test COMMAND graft_cli devices --self-test --cache none)
  set_tests_properties(cli/self_test PROPERTIES LABELS slow TIMEOUT 2400)
endif()

# The Python package; 77 says that numpy, PyTorch or a device is absent.
if(TARGET graft_python AND TARGET graft_cli)
  set(package_python ${GRAFT_TEST_PYTHON})
  if(EXISTS /usr/bin/python3)  # with numpy and PyTorch, as Debian's packages have them
    set(package_python /usr/bin/python3)
  endif()
  file(GLOB python_tests CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/python/*_test.py
    ${PROJECT_SOURCE_DIR}/tests/federated/*_test.py)
  foreach(script IN LISTS python_tests)
    get_filename_component(name ${script} NAME_WE)
    string(REGEX REPLACE "_test$" "" name ${name})
    add_test(NAME python/${name} COMMAND ${package_python} -B -W ignore ${script}
      ${PROJECT_BINARY_DIR}/platform/python $<TARGET_FILE:graft_cli>)
    set_tests_properties(python/${name} PROPERTIES LABELS slow TIMEOUT 900 SKIP_RETURN_CODE 77)
  endforeach()
  set_tests_properties(python/oracle PROPERTIES LABELS middle FIXTURES_REQUIRED bindings_oracle
    ENVIRONMENT GRAFT_BINDINGS_DATA=${PROJECT_BINARY_DIR}/tests/bindings/data)
endif()

# README's run of adapters in four languages.
if(TARGET graft_cli AND TARGET graft_shared AND GRAFT_TEST_PYTHON)
  add_executable(adapter_run_c ${PROJECT_SOURCE_DIR}/tests/package/adapter.c)
  target_include_directories(adapter_run_c PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include)
  target_link_libraries(adapter_run_c PRIVATE graft_shared)
  set(adapter_python ${GRAFT_TEST_PYTHON})
  set(adapter_runs "")
  if(TARGET graft_python)
    set(adapter_python ${package_python})
    list(APPEND adapter_runs --python ${PROJECT_BINARY_DIR}/platform/python)
  endif()
  if(TARGET jvm_kotlin)
    list(APPEND adapter_runs --kotlin ${Java_JAVA_EXECUTABLE} -Djava.library.path=$<TARGET_FILE_DIR:graft_jni>
      -cp ${GRAFT_KOTLIN_CLASSPATH} ai.graft.FromKotlinKt)
  endif()
  add_test(NAME bindings/adapter_run COMMAND ${adapter_python} -B ${PROJECT_SOURCE_DIR}/tests/bindings/adapter_run_test.py
    $<TARGET_FILE:graft_cli> $<TARGET_FILE:adapter_run_c> ${adapter_runs})
  set_tests_properties(bindings/adapter_run PROPERTIES LABELS slow TIMEOUT 600 SKIP_RETURN_CODE 77)
endif()

# With nothing said but loss and optimizer, the languages train to the same bytes; tools/dev/fuzz_options.py gives more options.
if(TARGET graft_cli AND TARGET graft_shared AND GRAFT_TEST_PYTHON)
  set(setters ${CMAKE_CURRENT_BINARY_DIR}/set_option)
  file(GLOB described CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/include/graft/*.h)
  add_custom_command(OUTPUT ${setters}/set_option.h ${setters}/set_option.hpp
    COMMAND ${GRAFT_TEST_PYTHON} -B ${PROJECT_SOURCE_DIR}/tools/dev/fuzz_options.py --setters ${setters}
    DEPENDS ${PROJECT_SOURCE_DIR}/tools/dev/fuzz_options.py ${PROJECT_SOURCE_DIR}/tools/interface/description.py ${described} VERBATIM)
  foreach(language IN ITEMS c cpp)
    add_executable(defaults_${language} ${PROJECT_SOURCE_DIR}/tests/bindings/defaults.${language} ${setters}/set_option.h ${setters}/set_option.hpp)
    target_include_directories(defaults_${language} PRIVATE ${PROJECT_SOURCE_DIR}/runtime/include ${GRAFT_INTERFACE_DIR} ${setters})
    target_link_libraries(defaults_${language} PRIVATE graft_shared)
  endforeach()
  set(defaults_runs "")
  if(TARGET graft_python)
    list(APPEND defaults_runs --python ${PROJECT_BINARY_DIR}/platform/python)
  endif()
  if(TARGET graft_jni)
    list(APPEND defaults_runs --java ${Java_JAVA_EXECUTABLE} -Djava.library.path=$<TARGET_FILE_DIR:graft_jni>
      -cp ${GRAFT_JAVA_CLASSPATH} ai.graft.DefaultsRun)
  endif()
  add_test(NAME bindings/defaults COMMAND ${adapter_python} -B ${PROJECT_SOURCE_DIR}/tests/bindings/defaults_test.py
    $<TARGET_FILE:graft_cli> $<TARGET_FILE:defaults_c> $<TARGET_FILE:defaults_cpp> ${defaults_runs})
  set_tests_properties(bindings/defaults PROPERTIES LABELS slow TIMEOUT 2400 SKIP_RETURN_CODE 77)
  add_test(NAME bindings/options CONFIGURATIONS long COMMAND ${adapter_python} -B ${PROJECT_SOURCE_DIR}/tools/dev/fuzz_options.py
    ${PROJECT_BINARY_DIR} --draws 100)
  set_tests_properties(bindings/options PROPERTIES LABELS long TIMEOUT 7200 SKIP_RETURN_CODE 77)
endif()
if(GRAFT_TEST_PYTHON)
  add_test(NAME interface/generator COMMAND ${GRAFT_TEST_PYTHON} -B ${PROJECT_SOURCE_DIR}/tests/interface/interface_test.py)
  set_tests_properties(interface/generator PROPERTIES LABELS quick TIMEOUT 60)
endif()

# What takes longest starts first, so that no core waits for it at the end; in the order of what they took last.
set(cost 100)
foreach(test IN ITEMS bindings/defaults cli/self_test torch/lora_parity torch/decoder_parity train/trainer@swiftshader
    ops/attention cli/preference package/embed torch/zoo ops/gemm c_api/faults cli/processes cli/workers
    ops/attention_long package/headers cli/precision train/recovery@discrete unit/generator c_api/safety
    train/checkpoint_faults train/trainer package/pages cli/language_training cli/shortage)
  if(TEST ${test})
    set_tests_properties(${test} PROPERTIES COST ${cost})
  endif()
  math(EXPR cost "${cost} - 1")
endforeach()
