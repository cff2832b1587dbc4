# Every warning is an error, in every stage. The sets are those of the house style.
add_library(foliot_warnings INTERFACE)

set(common_warnings
    -Wall -Wextra -Wpedantic -Werror -Wshadow -Wundef -Wconversion -Wsign-conversion
    -Wcast-qual -Wwrite-strings -Wpointer-arith -Wstrict-prototypes -Wmissing-prototypes
    -Wold-style-definition -Wredundant-decls -Wnested-externs -Wformat=2 -Wnull-dereference
    -Wswitch-enum -Wvla -Walloca -Wdouble-promotion -Wunused-macros)
set(gcc_warnings
    -Wcast-align=strict -Wformat-signedness -Wimplicit-fallthrough=5 -Wduplicated-cond
    -Wduplicated-branches -Wlogical-op -Wstack-usage=16384)
set(clang_warnings
    -Wcast-align -Wimplicit-fallthrough -Wcomma -Wconditional-uninitialized -Wassign-enum
    -Wunreachable-code-aggressive -Wframe-larger-than=16384)

if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(foliot_warnings INTERFACE ${common_warnings} ${gcc_warnings})
else()
    target_compile_options(foliot_warnings INTERFACE ${common_warnings} ${clang_warnings})
endif()

# Our own code only: it comes with the warnings, which generated code does not link.
if(FOLIOT_ANALYZE)
    target_compile_options(foliot_warnings INTERFACE -fanalyzer)
endif()

# Release builds are hardened and keep their assertions: NDEBUG is never defined.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
    add_compile_options(
        -D_FORTIFY_SOURCE=3 -fstack-protector-strong -fstack-clash-protection -fcf-protection
        $<$<C_COMPILER_ID:GNU>:-ftrivial-auto-var-init=zero>) # clang 14 has it as an experiment only
    add_link_options(-Wl,-z,relro,-z,now)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2 -g")
