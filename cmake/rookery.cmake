# rookery_module(NAME DEPS... [SUBDIRS dirs... [ONLY_SUBDIRS]] [PRIVATE libs...]): one static library of the .cpp files
# that lie in this folder (not with ONLY_SUBDIRS) and in the SUBDIRS named. Each of these is a module of its own to
# scripts/check_layers.py if it stands in LAYERS there, else a part of the module around it.
function(rookery_module name)
  cmake_parse_arguments(MODULE "ONLY_SUBDIRS" "" "SUBDIRS;DEPS;PRIVATE" ${ARGN})
  set(sources "")
  if(NOT MODULE_ONLY_SUBDIRS)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  endif()
  foreach(dir ${MODULE_SUBDIRS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  set(includes $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/rookery>)
  set_property(GLOBAL APPEND PROPERTY ROOKERY_MODULES ${name})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${includes})
    target_link_libraries(${name} PUBLIC ${MODULE_DEPS} PRIVATE ${MODULE_PRIVATE})
    if(ROOKERY_SANITIZE)
      target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
    endif()
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${includes})
    target_link_libraries(${name} INTERFACE ${MODULE_DEPS})
  endif()
endfunction()

# rookery_optimize(LEVEL TARGETS...): the compiler's level for these in release builds: -O3 for arithmetic, -Og for what
# reads, writes and tells, which is most of what there is to compile and takes four fifths of -O1's time; -O1 for what
# arranges steps and carries messages; the rest, the planner's search among it, has -O2. With sanitizers, modules have -O1,
# since whole runs take half as long again with -O0; but for those of -Og, which take clang less than half the time with
# the presets' -O0.
function(rookery_optimize level)
  if(ROOKERY_SANITIZE AND level STREQUAL -Og)
    set(level -O0)
  elseif(ROOKERY_SANITIZE)
    set(level -O1)
  endif()
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:${level}>)
  endforeach()
endfunction()

# rookery_program(NAME MODULE): build/bin/NAME, which calls NAME_main() of the module's NAME_main.cpp: that file is compiled
# with the module's others, whose headers it shares. The target `programs` is all of them.
add_custom_target(programs)
function(rookery_program name module)
  file(CONFIGURE OUTPUT ${name}.cpp @ONLY CONTENT [[
namespace rookery {
int @name@_main(int argc, char** argv);
}

int main(int argc, char** argv) {
  return rookery::@name@_main(argc, argv);
}
]])
  add_executable(${name} ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  target_link_libraries(${name} PRIVATE ${module})
  set_property(GLOBAL APPEND PROPERTY ROOKERY_PROGRAMS ${name})
  add_dependencies(programs ${name})
endfunction()

# rookery_tests(NAME DEPS...): one GoogleTest program of all *_test.cpp files in this folder and below it.
# ctest knows the tests by their names, with ROOKERY_TEST_PREFIX before them where that is set.
function(rookery_tests name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARGN} rookery_test_support rapidcheck rapidcheck_gtest GTest::gmock_main)
  # A third of the time goes to headers, which they share. Helpers have names of their own within the program.
  if(ROOKERY_UNITY_BATCH STREQUAL "")
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 12)
  endif()
  # Tests are compiled more often than their own code is run.
  set(level -O1)
  set(timeout 120)
  if(ROOKERY_SANITIZE)
    set(level -O0)
    set(timeout 300)  # those that plan hundreds of pools take a minute on a quiet machine
    target_compile_definitions(${name} PRIVATE ROOKERY_SANITIZED)  # tests try fewer cases
  endif()
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:${level}>)
  # A third of the time that compiling tests takes, for what they do themselves.
  if(ROOKERY_SANITIZE MATCHES undefined)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)
  endif()
  # Teams of threads wait as the programs' do (models/base/process/team_waits.hpp): with libgomp's own way, one of
  # them took four times as long beside another.
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX "${ROOKERY_TEST_PREFIX}"
    PROPERTIES TIMEOUT ${timeout} LABELS ${name} ENVIRONMENT "GOMP_SPINCOUNT=2000;KMP_BLOCKTIME=0")
endfunction()
