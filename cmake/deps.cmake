# External libraries as SYSTEM targets, so that their headers cannot weaken our warnings.
find_package(PkgConfig REQUIRED)

# dep_pkg(ev libprotobuf-c …): an imported target dep_<name> from pkg-config.
function(dep_pkg name module)
    pkg_check_modules(DEP_${name} REQUIRED IMPORTED_TARGET ${module})
    add_library(dep_${name} INTERFACE)
    target_link_libraries(dep_${name} INTERFACE PkgConfig::DEP_${name})
endfunction()

# dep_plain(ev ev.h ev): a library that ships no pkg-config file.
function(dep_plain name header library)
    find_path(DEP_${name}_INCLUDE ${header} REQUIRED)
    find_library(DEP_${name}_LIBRARY ${library} REQUIRED)
    add_library(dep_${name} INTERFACE)
    target_include_directories(dep_${name} SYSTEM INTERFACE ${DEP_${name}_INCLUDE})
    target_link_libraries(dep_${name} INTERFACE ${DEP_${name}_LIBRARY})
endfunction()

dep_pkg(nghttp2 libnghttp2)
dep_pkg(protobufc libprotobuf-c)
dep_pkg(cares libcares)
dep_pkg(pq libpq)
dep_pkg(yaml yaml-0.1)
dep_pkg(jansson jansson)
dep_pkg(microhttpd libmicrohttpd)
dep_pkg(xxhash libxxhash)
dep_pkg(openssl openssl)
dep_plain(ev ev.h ev)
dep_plain(zookeeper zookeeper/zookeeper.h zookeeper_mt)
target_compile_definitions(dep_zookeeper INTERFACE THREADED)
if(FOLIOT_TESTS)
    dep_pkg(criterion criterion)
endif()
