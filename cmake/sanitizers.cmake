# -fsanitize= for a whole build tree, chosen by the preset.
if(FOLIOT_SANITIZE)
    add_compile_options(-fsanitize=${FOLIOT_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${FOLIOT_SANITIZE})
endif()
# Coverage for libFuzzer in every library; the fuzz targets themselves link its main().
if(FOLIOT_FUZZ)
    add_compile_options(-fsanitize=fuzzer-no-link)
endif()
