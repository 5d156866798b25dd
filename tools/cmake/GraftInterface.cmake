# runtime/include/graft/*.h -> generated/interface: options and their defaults, as tools/interface writes them. They are
# written while configuring, as apps and tools read these headers too, and again if a header, the generator, or what Java calls changes.
find_program(GRAFT_GENERATOR_PYTHON python3 REQUIRED)
set(GRAFT_INTERFACE_DIR ${PROJECT_BINARY_DIR}/generated/interface)
file(GLOB GRAFT_INTERFACE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/runtime/include/graft/*.h ${PROJECT_SOURCE_DIR}/tools/interface/*.py
  ${PROJECT_SOURCE_DIR}/platform/android/java/ai/graft/*.java ${PROJECT_SOURCE_DIR}/platform/android/jni/*.cpp)
set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${GRAFT_INTERFACE_SOURCES})
execute_process(COMMAND ${GRAFT_GENERATOR_PYTHON} ${PROJECT_SOURCE_DIR}/tools/interface/generate.py
  ${PROJECT_SOURCE_DIR}/runtime/include/graft ${GRAFT_INTERFACE_DIR} RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "The options of runtime/include/graft could not be written for the languages.")
endif()
