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

# foliot_descriptor_set(out_var SYMBOL name HEADER h ROOT dir IMPORTS dirs FILES …): protoc's
# descriptors of the files and of all that they import, embedded as <build>/<name>.c in OUT_VAR.
find_program(FOLIOT_PROTOC protoc REQUIRED)

function(foliot_descriptor_set out_var)
    cmake_parse_arguments(ARG "" "SYMBOL;HEADER;ROOT" "IMPORTS;FILES" ${ARGN})
    set(set ${CMAKE_CURRENT_BINARY_DIR}/${ARG_SYMBOL}.binpb)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${ARG_SYMBOL}.c)
    set(paths -I ${ARG_ROOT})
    set(inputs)
    foreach(folder ${ARG_IMPORTS})
        list(APPEND paths -I ${folder})
    endforeach()
    foreach(file ${ARG_FILES})
        foreach(folder ${ARG_ROOT} ${ARG_IMPORTS})
            if(EXISTS ${folder}/${file})
                list(APPEND inputs ${folder}/${file})
                break()
            endif()
        endforeach()
    endforeach()
    add_custom_command(
        OUTPUT ${out}
        BYPRODUCTS ${set}
        COMMAND ${FOLIOT_PROTOC} ${paths} --include_imports --descriptor_set_out=${set} ${ARG_FILES}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${ARG_SYMBOL} -DHEADER=${ARG_HEADER}
                -DFILES=${set} -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${inputs} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        COMMENT "protoc ${ARG_SYMBOL}"
        VERBATIM)
    set(${out_var} ${out} PARENT_SCOPE)
endfunction()
