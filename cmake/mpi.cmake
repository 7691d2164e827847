# weightloom_mpi_library(): ranks under MPI, in a library of their own, so that the library itself
# needs no MPI. Where there is none, or WEIGHTLOOM_MPI is off, it does nothing.
#   weightloom_mpi          static, with the static library
#   weightloom_mpi_shared   shared, with the shared one; where WEIGHTLOOM_SHARED is on
#   weightloom::mpi         is one of the two, by BUILD_SHARED_LIBS; the installed package's as well
option(WEIGHTLOOM_MPI "Build weightloom::mpi where MPI is found" ON)

function(weightloom_mpi_kind target kind library)
  add_library(${target} ${kind} ${PROJECT_SOURCE_DIR}/weightloom/comm/mpi_group.cc)
  target_link_libraries(${target} PUBLIC ${library} PRIVATE MPI::MPI_CXX
    $<BUILD_INTERFACE:weightloom_options> $<BUILD_INTERFACE:fmt::fmt>)
  # The C++ bindings of MPI are no more.
  target_compile_definitions(${target} PRIVATE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME weightloom_mpi EXPORT_NAME mpi
    ARCHIVE_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)
endfunction()

# As the shared library, whose classes it uses.
function(weightloom_mpi_shared_library)
  set(symbols ${PROJECT_SOURCE_DIR}/cmake/exported_symbols.map)
  weightloom_mpi_kind(weightloom_mpi_shared SHARED weightloom_shared)
  foreach(property VERSION SOVERSION)
    get_target_property(value weightloom_shared ${property})
    set_target_properties(weightloom_mpi_shared PROPERTIES ${property} ${value})
  endforeach()
  set_target_properties(weightloom_mpi_shared PROPERTIES LINK_DEPENDS ${symbols})
  target_link_options(weightloom_mpi_shared PRIVATE LINKER:--version-script=${symbols})
endfunction()

function(weightloom_mpi_library)
  if(NOT WEIGHTLOOM_MPI OR WEIGHTLOOM_PYTHON)
    return()
  endif()
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    return()
  endif()
  weightloom_mpi_kind(weightloom_mpi STATIC weightloom)
  if(TARGET weightloom_shared)
    weightloom_mpi_shared_library()
  endif()
  if(BUILD_SHARED_LIBS)
    add_library(weightloom::mpi ALIAS weightloom_mpi_shared)
  else()
    add_library(weightloom::mpi ALIAS weightloom_mpi)
  endif()
endfunction()

# weightloom_mpi_test(NAME SOURCES...): a test program of four ranks, started by MPI's launcher.
function(weightloom_mpi_test name)
  if(NOT TARGET weightloom_mpi OR NOT WEIGHTLOOM_TESTS)
    return()
  endif()
  # The helpers of tests, but for those that put ranks on threads.
  get_property(testing GLOBAL PROPERTY WEIGHTLOOM_TESTING)
  list(REMOVE_ITEM testing weightloom_comm_testing)
  add_executable(weightloom_${name}_test ${ARGN})
  target_link_libraries(weightloom_${name}_test
    PRIVATE weightloom_options ${testing} weightloom_mpi fmt::fmt GTest::gmock GTest::gtest)
  add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe ${MPIEXEC_NUMPROC_FLAG} 4
    $<TARGET_FILE:weightloom_${name}_test>)
  # Containers run as root, and have no right to read the memory of another process. What MPI leaves
  # unfreed is not ours.
  set(environment OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_btl_vader_single_copy_mechanism=none ASAN_OPTIONS=detect_leaks=0)
  set_tests_properties(${name} PROPERTIES
    LABELS mpi TIMEOUT 600 PROCESSORS 2 ENVIRONMENT "${environment}")
endfunction()
