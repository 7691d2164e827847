# weightloom_room(NAME SOURCES ... TESTS ... TESTING ... LIBRARIES ... FUZZ ...)
#   SOURCES   the room's .cc files, compiled into the library
#   TESTS     its *_test.cc files, linked into weightloom_NAME_test
#   TESTING   its *_testing.cc files, without GoogleTest: helpers for its own tests and fuzz targets
#             and those of the rooms below
#   LIBRARIES third-party targets that the room's sources need
#   FUZZ      its *_fuzz.cc files, one libFuzzer executable each
# Rooms are object libraries; a room's test links the rooms above it and itself.
set_property(GLOBAL PROPERTY WEIGHTLOOM_ROOMS "")
set_property(GLOBAL PROPERTY WEIGHTLOOM_TESTING "")

function(weightloom_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;TESTS;TESTING;LIBRARIES;FUZZ" ${ARGN})
  if(NOT ROOM_SOURCES)
    return()
  endif()
  set(room weightloom_${name})
  add_library(${room} OBJECT ${ROOM_SOURCES})
  target_link_libraries(${room} PUBLIC weightloom_options fmt::fmt ${ROOM_LIBRARIES})
  set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_ROOMS ${room})
  get_property(rooms GLOBAL PROPERTY WEIGHTLOOM_ROOMS)
  if((WEIGHTLOOM_TESTS OR WEIGHTLOOM_FUZZ) AND ROOM_TESTING)
    add_library(${room}_testing OBJECT ${ROOM_TESTING})
    target_link_libraries(${room}_testing PUBLIC weightloom_options fmt::fmt)
    set_property(GLOBAL APPEND PROPERTY WEIGHTLOOM_TESTING ${room}_testing)
  endif()
  get_property(testing GLOBAL PROPERTY WEIGHTLOOM_TESTING)
  if(WEIGHTLOOM_TESTS AND ROOM_TESTS)
    add_executable(${room}_test ${ROOM_TESTS})
    target_link_libraries(${room}_test PRIVATE ${rooms} ${testing} GTest::gmock GTest::gtest_main)
    gtest_discover_tests(${room}_test DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 600)
  endif()
  if(WEIGHTLOOM_FUZZ)
    foreach(source ${ROOM_FUZZ})
      get_filename_component(stem ${source} NAME_WE)
      add_executable(${stem} ${source})
      target_compile_options(${stem} PRIVATE -fsanitize=fuzzer)
      target_link_options(${stem} PRIVATE -fsanitize=fuzzer)
      target_link_libraries(${stem} PRIVATE ${rooms} ${testing})
    endforeach()
  endif()
endfunction()
