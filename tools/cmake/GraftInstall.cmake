# cmake --install: headers, the static library, find_package(graft), and the command line tool.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
target_include_directories(graft PUBLIC $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
install(TARGETS graft EXPORT graftTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY runtime/include/graft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT graftTargets NAMESPACE graft:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
configure_package_config_file(tools/cmake/graftConfig.cmake.in ${PROJECT_BINARY_DIR}/graftConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/graftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/graftConfig.cmake ${PROJECT_BINARY_DIR}/graftConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/graft)
if(TARGET graft_cli)
  install(TARGETS graft_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()
