# cmake --install: what goes where, in three components.
#   command       the command, its manual page and shell completions
#   library       the shared library that programs load
#   development   headers, the static library, the CMake package, weightloom.pc
# Nothing in it names the build folder or the prefix: the tree can be moved.
include(CMakePackageConfigHelpers)
set(package_folder ${CMAKE_INSTALL_LIBDIR}/cmake/weightloom)

# Public headers: those of the library, without the ones of tests and of the library's own.
file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/weightloom/*.h)
list(FILTER headers EXCLUDE REGEX "_(internal|testing)\\.h$|^weightloom/cli/")
if(NOT TARGET weightloom_mpi)
  list(FILTER headers EXCLUDE REGEX "/mpi_group\\.h$")
endif()
foreach(header ${headers})
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
endforeach()
install(FILES ${PROJECT_BINARY_DIR}/generated/weightloom/version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weightloom COMPONENT development)

install(TARGETS weightloom EXPORT weightloom_static
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(EXPORT weightloom_static NAMESPACE weightloom:: FILE weightloom-static-targets.cmake
  DESTINATION ${package_folder} COMPONENT development)
if(TARGET weightloom_shared)
  install(TARGETS weightloom_shared EXPORT weightloom_shared
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    NAMELINK_COMPONENT development)
  install(EXPORT weightloom_shared NAMESPACE weightloom:: FILE weightloom-shared-targets.cmake
    DESTINATION ${package_folder} COMPONENT development)
endif()

# Ranks under MPI, with files of targets of their own: who does not ask for them needs no MPI.
if(TARGET weightloom_mpi)
  install(TARGETS weightloom_mpi EXPORT weightloom_mpi_static
    ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
  install(EXPORT weightloom_mpi_static NAMESPACE weightloom::
    FILE weightloom-mpi-static-targets.cmake
    DESTINATION ${package_folder} COMPONENT development)
endif()
if(TARGET weightloom_mpi_shared)
  install(TARGETS weightloom_mpi_shared EXPORT weightloom_mpi_shared
    LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT library
    NAMELINK_COMPONENT development)
  install(EXPORT weightloom_mpi_shared NAMESPACE weightloom::
    FILE weightloom-mpi-shared-targets.cmake
    DESTINATION ${package_folder} COMPONENT development)
endif()

# What the static library links, for those who link it.
get_property(find_lines GLOBAL PROPERTY WEIGHTLOOM_FIND_LINES)
get_property(pc_modules GLOBAL PROPERTY WEIGHTLOOM_PC_MODULES)
get_property(pc_flags GLOBAL PROPERTY WEIGHTLOOM_PC_FLAGS)
list(JOIN find_lines "\n  " find_lines)
list(JOIN pc_modules " " pc_modules)
list(JOIN pc_flags " " pc_flags)
if(PROJECT_VERSION_MAJOR EQUAL 0)
  set(compatibility SameMinorVersion)
else()
  set(compatibility SameMajorVersion)
endif()
set(package ${PROJECT_BINARY_DIR}/package)
configure_package_config_file(cmake/weightloom-config.cmake.in ${package}/weightloom-config.cmake
  INSTALL_DESTINATION ${package_folder} NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(${package}/weightloom-config-version.cmake
  COMPATIBILITY ${compatibility})
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
  BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE prefix_from_pc)
configure_file(cmake/weightloom.pc.in ${package}/weightloom.pc @ONLY)
install(FILES ${package}/weightloom-config.cmake ${package}/weightloom-config-version.cmake
  DESTINATION ${package_folder} COMPONENT development)
install(FILES ${package}/weightloom.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)

# The command writes its own manual page and completions.
function(weightloom_written_by_command output)
  add_custom_command(OUTPUT ${package}/${output}
    COMMAND weightloom_cli ${ARGN} > ${package}/${output}
    DEPENDS weightloom_cli VERBATIM)
endfunction()
weightloom_written_by_command(weightloom.1 man)
weightloom_written_by_command(weightloom completion bash)
weightloom_written_by_command(_weightloom completion zsh)
weightloom_written_by_command(weightloom.fish completion fish)
add_custom_target(weightloom_manual ALL DEPENDS ${package}/weightloom.1 ${package}/weightloom
  ${package}/_weightloom ${package}/weightloom.fish)
set(data ${CMAKE_INSTALL_DATADIR})
install(TARGETS weightloom_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
install(FILES ${package}/weightloom.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT command)
install(FILES ${package}/weightloom DESTINATION ${data}/bash-completion/completions
  COMPONENT command)
install(FILES ${package}/_weightloom DESTINATION ${data}/zsh/site-functions COMPONENT command)
install(FILES ${package}/weightloom.fish DESTINATION ${data}/fish/vendor_completions.d
  COMPONENT command)
