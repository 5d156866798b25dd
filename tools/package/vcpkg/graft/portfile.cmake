# An overlay port of this source tree: vcpkg install graft --overlay-ports=tools/package/vcpkg. As a port of a registry,
# SOURCE_PATH comes from vcpkg_from_git with the tag of a release instead.
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)
vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES training GRAFT_TRAINING text GRAFT_TEXT)
# What an app asks for by options: without those of these features that are not wanted (install graft[core,training,...]).
set(without "")
foreach(feature IN ITEMS budgets data groups halves losses optimizers recovery software)
  if(NOT feature IN_LIST FEATURES)
    string(APPEND without " ${feature}")
  endif()
endforeach()
string(COMPARE EQUAL "${VCPKG_LIBRARY_LINKAGE}" "dynamic" shared)
vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} "-DGRAFT_WITHOUT=${without}" -DGRAFT_SHARED=${shared} -DGRAFT_BUILD_TOOLS=OFF -DGRAFT_BUILD_TESTS=OFF -DGRAFT_PYTHON=OFF -DGRAFT_JVM=OFF
    "-DCMAKE_PROGRAM_PATH=${CURRENT_HOST_INSTALLED_DIR}/tools/flatbuffers;${CURRENT_HOST_INSTALLED_DIR}/tools/glslang")
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/graft)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE" "${SOURCE_PATH}/NOTICE")
