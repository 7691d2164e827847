# weightloom_library(): the library made of all rooms, static and shared, from the same objects.
#   weightloom          static; the command, tests and benchmarks link it
#   weightloom_shared   shared; where WEIGHTLOOM_SHARED is on
#   weightloom::weightloom is one of the two, by BUILD_SHARED_LIBS; the installed package's as well.
include(GNUInstallDirs)

# Public headers name no third-party type, so who includes them needs the library alone.
function(weightloom_library_kind target kind)
  get_property(rooms GLOBAL PROPERTY WEIGHTLOOM_ROOMS)
  get_property(linked GLOBAL PROPERTY WEIGHTLOOM_LINKED_TARGETS)
  list(TRANSFORM rooms REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} ${kind} ${objects})
  target_link_libraries(${target} PRIVATE ${linked})
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_BINARY_DIR}/generated>"
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME weightloom EXPORT_NAME weightloom LINKER_LANGUAGE CXX)
endfunction()

# Before 1.0 each minor version may break what was linked with the one before.
function(weightloom_shared_library)
  set(interface ${PROJECT_VERSION_MAJOR})
  if(interface EQUAL 0)
    set(interface 0.${PROJECT_VERSION_MINOR})
  endif()
  set(symbols ${PROJECT_SOURCE_DIR}/cmake/exported_symbols.map)
  weightloom_library_kind(weightloom_shared SHARED)
  set_target_properties(weightloom_shared PROPERTIES
    VERSION ${PROJECT_VERSION} SOVERSION ${interface} LINK_DEPENDS ${symbols}
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  target_link_options(weightloom_shared PRIVATE LINKER:--version-script=${symbols}
    $<TARGET_PROPERTY:weightloom_options,INTERFACE_LINK_OPTIONS>)
endfunction()

function(weightloom_library)
  weightloom_library_kind(weightloom STATIC)
  set_target_properties(weightloom PROPERTIES
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
  if(WEIGHTLOOM_SHARED OR BUILD_SHARED_LIBS)
    weightloom_shared_library()
  endif()
  if(BUILD_SHARED_LIBS)
    add_library(weightloom::weightloom ALIAS weightloom_shared)
  else()
    add_library(weightloom::weightloom ALIAS weightloom)
  endif()
endfunction()
