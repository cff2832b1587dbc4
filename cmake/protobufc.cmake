# foliot_protobuf(NAME proto_gen ROOT dir IMPORTS dir FILES a.proto b.proto): a library of the C code
# that protoc-c makes of them, in the build tree. Its headers are SYSTEM for whoever includes them;
# the code itself is compiled with our warnings. ROOT is where the paths in FILES start; paths that
# are not there are taken from IMPORTS.
find_program(FOLIOT_PROTOC_C protoc-c REQUIRED)

function(foliot_protobuf)
    cmake_parse_arguments(ARG "" "NAME;ROOT;IMPORTS" "FILES" ${ARGN})
    set(out ${CMAKE_CURRENT_BINARY_DIR}/generated)
    set(sources)
    file(MAKE_DIRECTORY ${out})
    foreach(file ${ARG_FILES})
        string(REGEX REPLACE "\\.proto$" ".pb-c" stem ${file})
        set(input ${ARG_ROOT}/${file})
        if(NOT EXISTS ${input})
            set(input ${ARG_IMPORTS}/${file})
        endif()
        add_custom_command(
            OUTPUT ${out}/${stem}.c ${out}/${stem}.h
            COMMAND ${FOLIOT_PROTOC_C} -I ${ARG_ROOT} -I ${ARG_IMPORTS} --c_out=${out} ${file}
            DEPENDS ${input}
            COMMENT "protoc-c ${file}"
            VERBATIM)
        list(APPEND sources ${out}/${stem}.c)
    endforeach()
    # clang sees a dropped const in the initialisers of the generator; source options come last.
    if(CMAKE_C_COMPILER_ID MATCHES "Clang")
        set_source_files_properties(${sources} PROPERTIES COMPILE_OPTIONS -Wno-cast-qual)
    endif()
    add_library(foliot_${ARG_NAME} STATIC ${sources})
    target_include_directories(foliot_${ARG_NAME} SYSTEM PUBLIC ${out})
    target_include_directories(foliot_${ARG_NAME} PRIVATE ${out})
    target_link_libraries(foliot_${ARG_NAME} PUBLIC dep_protobufc PRIVATE foliot_warnings)
endfunction()
