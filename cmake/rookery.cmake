# rookery_room(NAME DEPS... [PRIVATE libs...]): one static library per room, made of the
# .cpp files that lie in this folder and in the SUBDIRS named. Programs' main files are
# called *_main.cpp and stay out of the library.
function(rookery_room name)
  cmake_parse_arguments(ROOM "" "" "SUBDIRS;DEPS;PRIVATE" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
  foreach(dir ${ROOM_SUBDIRS})
    file(GLOB more CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${dir}/*.cpp)
    list(APPEND sources ${more})
  endforeach()
  list(FILTER sources EXCLUDE REGEX "_main\\.cpp$")
  set(includes $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:include> $<INSTALL_INTERFACE:include/rookery>)
  set_property(GLOBAL APPEND PROPERTY ROOKERY_ROOMS ${name})
  if(sources)
    add_library(${name} STATIC ${sources})
    target_include_directories(${name} PUBLIC ${includes})
    target_link_libraries(${name} PUBLIC ${ROOM_DEPS} PRIVATE ${ROOM_PRIVATE})
  else()
    add_library(${name} INTERFACE)
    target_include_directories(${name} INTERFACE ${includes})
    target_link_libraries(${name} INTERFACE ${ROOM_DEPS})
  endif()
endfunction()

# rookery_program(NAME DEPS...): build/bin/NAME from NAME_main.cpp.
function(rookery_program name)
  add_executable(${name} ${name}_main.cpp)
  target_link_libraries(${name} PRIVATE ${ARGN})
  set_property(GLOBAL APPEND PROPERTY ROOKERY_PROGRAMS ${name})
endfunction()

# rookery_tests(NAME DEPS...): one GoogleTest program of all *_test.cpp files in this folder.
function(rookery_tests name)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
  if(NOT sources)
    return()
  endif()
  add_executable(${name} ${sources})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARGN} rapidcheck rapidcheck_gtest GTest::gmock_main)
  # Tests are compiled more often than their own code is run.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release>:-O1>)
  target_compile_definitions(${name} PRIVATE
    ROOKERY_SOURCE_DIR="${PROJECT_SOURCE_DIR}" ROOKERY_BIN_DIR="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 120)
endfunction()
