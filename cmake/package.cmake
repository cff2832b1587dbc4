# Debian packages: `cpack -G DEB` in a release build, by tools/package. One package per component.
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/foliotd.service DESTINATION lib/systemd/system
    COMPONENT server)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/systemd/foliot.sysusers DESTINATION lib/sysusers.d
    RENAME foliot.conf COMPONENT server)
install(FILES ${CMAKE_SOURCE_DIR}/deploy/foliotd.yaml DESTINATION /etc/foliot COMPONENT server)

set(CPACK_PACKAGE_NAME foliot)
set(CPACK_PACKAGE_VENDOR Foliot)
set(CPACK_PACKAGE_CONTACT "The Foliot engineers <foliot@localhost>")
set(CPACK_PACKAGE_DIRECTORY ${CMAKE_BINARY_DIR}/packages)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_SET_DESTDIR OFF)
set(CPACK_COMPONENTS_ALL server cli client client-dev)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION net)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)

set(CPACK_DEBIAN_SERVER_PACKAGE_NAME foliotd)
set(CPACK_DEBIAN_SERVER_DESCRIPTION "scheduler cluster: the broker
 Does things at their time: durable in PostgreSQL, coordinated by ZooKeeper, fired by gRPC.")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "foliot, tzdata, ca-certificates")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_EXTRA
    "${CMAKE_SOURCE_DIR}/deploy/debian/conffiles;${CMAKE_SOURCE_DIR}/deploy/debian/postinst;${CMAKE_SOURCE_DIR}/deploy/debian/prerm;${CMAKE_SOURCE_DIR}/deploy/debian/postrm")
set(CPACK_DEBIAN_SERVER_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_CLI_PACKAGE_NAME foliot)
set(CPACK_DEBIAN_CLI_DESCRIPTION "scheduler cluster: the command
 Creates, lists, cancels and explains tasks; foliot dev is the whole product in one process.")
set(CPACK_DEBIAN_CLI_PACKAGE_RECOMMENDS "tzdata, ca-certificates")
set(CPACK_DEBIAN_CLIENT_PACKAGE_NAME libfoliot0)
set(CPACK_DEBIAN_CLIENT_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_CLIENT_DESCRIPTION "scheduler cluster: the C client
 What programs that schedule tasks link with.")
set(CPACK_DEBIAN_CLIENT_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_CLIENT-DEV_PACKAGE_NAME libfoliot-dev)
set(CPACK_DEBIAN_CLIENT-DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_CLIENT-DEV_PACKAGE_DEPENDS "libfoliot0 (= ${PROJECT_VERSION}-1)")
set(CPACK_DEBIAN_CLIENT-DEV_DESCRIPTION "scheduler cluster: headers of the C client
 Headers, static library, pkg-config and CMake package files.")
include(CPack)
