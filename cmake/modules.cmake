# One folder is one library: foliot_library(NAME base SOURCES a.c b.c LINKS other-libs).
# Includes are written from the repository root.
function(foliot_library)
    cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
    add_library(foliot_${ARG_NAME} STATIC ${ARG_SOURCES})
    target_include_directories(foliot_${ARG_NAME} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(foliot_${ARG_NAME} PUBLIC ${ARG_LINKS} PRIVATE foliot_warnings ${ARG_PRIVATE_LINKS})
endfunction()

# A program of ours: foliot_program(NAME foliotd SOURCES … LINKS …).
function(foliot_program)
    cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS" ${ARGN})
    add_executable(${ARG_NAME} ${ARG_SOURCES})
    target_include_directories(${ARG_NAME} PRIVATE ${CMAKE_SOURCE_DIR})
    target_link_libraries(${ARG_NAME} PRIVATE ${ARG_LINKS} foliot_warnings)
endfunction()

# A Criterion test, registered with ctest: foliot_unit_test(NAME test_wheel LINKS foliot_core).
function(foliot_unit_test)
    cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS" ${ARGN})
    if(NOT ARG_SOURCES)
        set(ARG_SOURCES ${ARG_NAME}.c)
    endif()
    foliot_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LINKS ${ARG_LINKS} dep_criterion)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
endfunction()
