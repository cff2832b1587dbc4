# One folder is one library: foliot_library(NAME base SOURCES a.c b.c LINKS other-libs).
# Includes are written from the repository root.
function(foliot_library)
    cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
    add_library(foliot_${ARG_NAME} STATIC ${ARG_SOURCES})
    target_include_directories(foliot_${ARG_NAME} PUBLIC ${CMAKE_SOURCE_DIR})
    target_link_libraries(foliot_${ARG_NAME} PUBLIC ${ARG_LINKS} PRIVATE foliot_warnings ${ARG_PRIVATE_LINKS})
    # Libraries only: the macros of Criterion declare such variables.
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
        target_compile_options(foliot_${ARG_NAME} PRIVATE -Wmissing-variable-declarations)
    endif()
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
    cmake_parse_arguments(ARG "" "NAME;LABEL" "SOURCES;LINKS" ${ARGN})
    if(NOT ARG_SOURCES)
        set(ARG_SOURCES ${ARG_NAME}.c)
    endif()
    if(NOT ARG_LABEL)
        set(ARG_LABEL unit)
    endif()
    foliot_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LINKS ${ARG_LINKS} dep_criterion)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS ${ARG_LABEL} TIMEOUT 120)
endfunction()

# A test that is a plain program (tests/lib/must.h), for threads and for real servers:
#   foliot_plain_test(NAME test_store_pg LABEL contract SERVERS LINKS foliot_storage)
# LABEL: contract, thread, integration, interop or sim. SERVERS: uses tests/lib/fixture.h.
# ALONE: stops or kills the shared servers, so ctest runs nothing beside it. LIMIT_S: default 300.
function(foliot_plain_test)
    cmake_parse_arguments(ARG "SERVERS;ALONE" "NAME;LABEL;LIMIT_S" "SOURCES;LINKS;ARGS" ${ARGN})
    if(NOT ARG_SOURCES)
        set(ARG_SOURCES ${ARG_NAME}.c)
    endif()
    if(NOT ARG_LIMIT_S)
        set(ARG_LIMIT_S 300)
    endif()
    if(ARG_SERVERS)
        list(APPEND ARG_LINKS foliot_fixture)
        list(APPEND ARG_LABEL servers)
    endif()
    foliot_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LINKS ${ARG_LINKS} foliot_must)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} ${ARG_ARGS})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_LIMIT_S})
    if(ARG_ALONE)
        set_tests_properties(${ARG_NAME} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# A test that is a script (another language's client or server), by the rules of a plain program:
#   foliot_script_test(NAME interop_grpcio LABEL interop SERVERS PROGRAMS foliotd)
# SCRIPT: default NAME.py beside this file. PROGRAMS: ours that it starts; their paths are in the
# environment as FOLIOT_PROGRAM_<NAME IN CAPITALS>.
function(foliot_script_test)
    cmake_parse_arguments(ARG "SERVERS;ALONE" "NAME;LABEL;LIMIT_S;SCRIPT" "PROGRAMS;ARGS" ${ARGN})
    if(NOT ARG_SCRIPT)
        set(ARG_SCRIPT ${ARG_NAME}.py)
    endif()
    if(NOT ARG_LIMIT_S)
        set(ARG_LIMIT_S 300)
    endif()
    set(environment "PYTHONPATH=${CMAKE_SOURCE_DIR}/tests/lib:${CMAKE_BINARY_DIR}/python"
        "FOLIOT_SOURCE_DIR=${CMAKE_SOURCE_DIR}" "FOLIOT_BUILD_DIR=${CMAKE_BINARY_DIR}")
    foreach(program ${ARG_PROGRAMS})
        string(TOUPPER ${program} capitals)
        string(REPLACE "-" "_" capitals ${capitals})
        list(APPEND environment "FOLIOT_PROGRAM_${capitals}=$<TARGET_FILE:${program}>")
    endforeach()
    if(ARG_SERVERS)
        list(APPEND ARG_LABEL servers)
    endif()
    add_test(NAME ${ARG_NAME}
        COMMAND /usr/bin/python3 ${CMAKE_CURRENT_SOURCE_DIR}/${ARG_SCRIPT} ${ARG_ARGS})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABEL}" TIMEOUT ${ARG_LIMIT_S}
        ENVIRONMENT "${environment}")
    if(ARG_ALONE)
        set_tests_properties(${ARG_NAME} PROPERTIES RUN_SERIAL ON)
    endif()
endfunction()

# A libFuzzer target, built with the fuzz preset only: foliot_fuzz(NAME fuzz_grpc_msg LINKS foliot_rpc).
# Its seeds are in tests/fuzz/corpus/<name>; tools/fuzz runs all targets.
function(foliot_fuzz)
    cmake_parse_arguments(ARG "" "NAME" "SOURCES;LINKS" ${ARGN})
    if(NOT FOLIOT_FUZZ)
        return()
    endif()
    if(NOT ARG_SOURCES)
        set(ARG_SOURCES ${ARG_NAME}.c)
    endif()
    foliot_program(NAME ${ARG_NAME} SOURCES ${ARG_SOURCES} LINKS ${ARG_LINKS})
    target_link_options(${ARG_NAME} PRIVATE -fsanitize=fuzzer)
    if(NOT TARGET fuzzers)
        add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${ARG_NAME})
endfunction()
