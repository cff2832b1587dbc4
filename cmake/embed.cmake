# Text files as C strings in the binary. As a script: cmake -DOUT=x.c -DSYMBOL=name -DFILES=a;b -P
# embed.cmake writes `name_files[]` of {name, bytes, len}; foliot_embed() makes it a build step.
if(CMAKE_SCRIPT_MODE_FILE)
    set(body "")
    set(table "")
    set(number 0)
    foreach(file ${FILES})
        get_filename_component(name ${file} NAME)
        file(READ ${file} hex HEX)
        string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1, " bytes "${hex}")
        string(REGEX REPLACE "(................................................................................................)" "\\1\n    " bytes "${bytes}")
        string(APPEND body "static const uint8_t file_${number}[] = {\n    ${bytes}0x00};\n")
        string(APPEND table "    {\"${name}\", file_${number}, sizeof(file_${number}) - 1},\n")
        math(EXPR number "${number} + 1")
    endforeach()
    file(WRITE ${OUT}
        "/* SPDX-License-Identifier: Apache-2.0\n *\n * Made by cmake/embed.cmake.\n */\n"
        "#include \"${HEADER}\"\n\n#include <stdint.h>\n\n${body}\n"
        "const struct embedded_file ${SYMBOL}_files[] = {\n${table}};\n"
        "const size_t ${SYMBOL}_file_count = ${number};\n")
    return()
endif()

# foliot_embed(schema_pg "storage/pg_schema.h" a.sql b.sql): adds <build>/<symbol>.c to OUT_VAR.
function(foliot_embed out_var symbol header)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${symbol}.c)
    set(files)
    foreach(file ${ARGN})
        list(APPEND files ${CMAKE_CURRENT_SOURCE_DIR}/${file})
    endforeach()
    add_custom_command(
        OUTPUT ${out}
        COMMAND ${CMAKE_COMMAND} -DOUT=${out} -DSYMBOL=${symbol} -DHEADER=${header}
                "-DFILES=${files}" -P ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        DEPENDS ${files} ${CMAKE_SOURCE_DIR}/cmake/embed.cmake
        VERBATIM)
    set(${out_var} ${out} PARENT_SCOPE)
endfunction()
