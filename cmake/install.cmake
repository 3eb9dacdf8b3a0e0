# `cmake --install`: the programs, every module as a library, their headers, and a package, so that others write
# find_package(rookery) and link to rookery::rookery (docs/library.md).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(modules GLOBAL PROPERTY ROOKERY_MODULES)
get_property(programs GLOBAL PROPERTY ROOKERY_PROGRAMS)

add_library(rookery INTERFACE)
target_link_libraries(rookery INTERFACE ${modules})
target_compile_features(rookery INTERFACE cxx_std_20)

install(TARGETS ${programs})
install(FILES models/rookery_export.py models/pyproject.toml DESTINATION ${CMAKE_INSTALL_DATADIR}/rookery)
install(TARGETS rookery ${modules} EXPORT rookery-targets)
# Ours name each other from the repository's root; others write <rookery/node/node.hpp>.
install(DIRECTORY models trainer clusterize node fusion DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/rookery
        FILES_MATCHING PATTERN "*.hpp" PATTERN "models/kernels/*/*" EXCLUDE)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/rookery)
configure_package_config_file(cmake/rookery-config.cmake.in rookery-config.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(rookery-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/rookery-config.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/rookery-config-version.cmake DESTINATION ${package})
install(EXPORT rookery-targets NAMESPACE rookery:: DESTINATION ${package})
