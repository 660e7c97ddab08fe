include(GoogleTest)

# holdfast_folder(NAME DEPS lower folders and libraries): one static library `hf_NAME` per folder
# from its *.cc, and one test binary `NAME_test` from its *_test.cc. Includes point downwards only;
# the DEPS lists are what keeps that true at link time.
function(holdfast_folder name)
  cmake_parse_arguments(ARG "" "" "DEPS;TEST_DEPS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER sources EXCLUDE REGEX "_(test|benchmark)\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  if(NOT sources)
    file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty_${name}.cc "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty_${name}.cc)
  endif()
  add_library(hf_${name} STATIC ${sources})
  target_include_directories(hf_${name} PUBLIC ${PROJECT_SOURCE_DIR}/src
                                               ${PROJECT_SOURCE_DIR}/include)
  target_link_libraries(hf_${name} PUBLIC ${ARG_DEPS} Threads::Threads)
  if(HOLDFAST_TESTS AND tests)
    holdfast_test(${name}_test SOURCES ${tests} DEPS hf_${name} ${ARG_TEST_DEPS})
  endif()
endfunction()

# holdfast_test(NAME SOURCES ... DEPS ... [LABELS ...]): a GoogleTest binary whose tests ctest knows
# one by one. Tests find their data by HOLDFAST_SOURCE_DIR.
function(holdfast_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LABELS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_compile_definitions(${name} PRIVATE HOLDFAST_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 120 TEST_PREFIX "${name}/"
                       PROPERTIES TIMEOUT 600 LABELS "${ARG_LABELS}")
endfunction()
