# weightloom_links(PACKAGE TARGET target [MODULE module] [FLAGS flags])
# Finds a package that the library links, and notes it for those who link the static library: as a
# line of weightloom-config.cmake and of weightloom.pc.
#   TARGET   what is linked; PkgConfig::PACKAGE is found by pkg-config's MODULE
#   MODULE   its name for pkg-config
#   FLAGS    what to link where it has no such name
set_property(GLOBAL PROPERTY WEIGHTLOOM_LINKED_TARGETS "")
set_property(GLOBAL PROPERTY WEIGHTLOOM_FIND_LINES "")
set_property(GLOBAL PROPERTY WEIGHTLOOM_PC_MODULES "")
set_property(GLOBAL PROPERTY WEIGHTLOOM_PC_FLAGS "")

macro(weightloom_links package)
  cmake_parse_arguments(LINK "" "TARGET;MODULE;FLAGS" "" ${ARGN})
  if(LINK_TARGET MATCHES "^PkgConfig::")
    pkg_check_modules(${package} REQUIRED IMPORTED_TARGET ${LINK_MODULE})
    set(line "weightloom_find_module(${package} ${LINK_MODULE})")
  else()
    find_package(${package} REQUIRED)
    set(line "find_dependency(${package})")
  endif()
  set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_LINKED_TARGETS ${LINK_TARGET})
  set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_FIND_LINES "${line}")
  set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_PC_MODULES ${LINK_MODULE})
  set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_PC_FLAGS ${LINK_FLAGS})
endmacro()
