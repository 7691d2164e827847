# weightloom_torch_tests(SOURCES...): tests of process groups as a Python module, comm_torch, that
# python/tests/test_torch_groups.py runs on four ranks of torch.distributed.
set(WEIGHTLOOM_TEST_PYTHON "" CACHE FILEPATH
  "The Python that runs tests on ranks of torch.distributed; has nanobind. Empty: no such tests")

function(weightloom_torch_tests)
  if(NOT WEIGHTLOOM_TEST_PYTHON)
    return()
  endif()
  set(Python_EXECUTABLE ${WEIGHTLOOM_TEST_PYTHON})
  find_package(Python 3.10 REQUIRED COMPONENTS Interpreter Development.Module)
  execute_process(COMMAND ${Python_EXECUTABLE} -m nanobind --cmake_dir
    OUTPUT_STRIP_TRAILING_WHITESPACE OUTPUT_VARIABLE nanobind_ROOT)
  find_package(nanobind CONFIG REQUIRED)
  # The helpers of tests, but for those that put ranks on threads.
  get_property(testing GLOBAL PROPERTY WEIGHTLOOM_TESTING)
  list(REMOVE_ITEM testing weightloom_comm_testing)
  set(bindings ${PROJECT_SOURCE_DIR}/python/bindings)
  nanobind_add_module(comm_torch NB_STATIC NOMINSIZE NB_SUPPRESS_WARNINGS EXCLUDE_FROM_ALL
    ${bindings}/python_group.cc ${bindings}/held_object.cc ${ARGN})
  target_link_libraries(comm_torch
    PRIVATE weightloom_options ${testing} weightloom fmt::fmt GTest::gmock GTest::gtest)
  set_target_properties(comm_torch PROPERTIES LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(comm_torch PRIVATE -Wno-maybe-uninitialized)
  endif()
endfunction()
