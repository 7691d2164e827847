# Language, warnings, sanitizers, ccache, third-party packages.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})

find_program(WEIGHTLOOM_CCACHE ccache)
if(WEIGHTLOOM_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WEIGHTLOOM_CCACHE})
endif()

add_library(weightloom_options INTERFACE)
target_compile_options(weightloom_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # gcc 12 sees overlapping copies in "literal" + std::string where there are none (its bug 105651).
  target_compile_options(weightloom_options INTERFACE -Wno-restrict)
endif()
target_include_directories(weightloom_options
  INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
configure_file(weightloom/version.h.in generated/weightloom/version.h @ONLY)
if(WEIGHTLOOM_WERROR)
  target_compile_options(weightloom_options INTERFACE -Werror)
endif()
if(WEIGHTLOOM_SANITIZE)
  set(flags -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_compile_options(weightloom_options INTERFACE ${flags})
  target_link_options(weightloom_options INTERFACE ${flags})
endif()

if(WEIGHTLOOM_FUZZ)
  # The rooms report coverage too, or the fuzzer would search blindly.
  target_compile_options(weightloom_options INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(weightloom_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Header-only packages are needed to build only. What the library links is found by
# weightloom_links, because who links the static library must find it too: see cmake/install.cmake.
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
weightloom_links(Threads TARGET Threads::Threads FLAGS -pthread)
weightloom_links(fmt TARGET fmt::fmt MODULE fmt)
weightloom_links(simdjson TARGET simdjson::simdjson MODULE simdjson)
weightloom_links(pcre2 TARGET PkgConfig::pcre2 MODULE libpcre2-8)
weightloom_links(hwy TARGET PkgConfig::hwy MODULE libhwy)
if(WEIGHTLOOM_TESTS)
  enable_testing()
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
