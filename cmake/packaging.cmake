# What `cmake --install` and `make deb` put where.
include(GNUInstallDirs)
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)  # the program is enough, tests need not be built
install(TARGETS holdfast RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY models/demo/ DESTINATION ${CMAKE_INSTALL_DATADIR}/holdfast/models)
install(FILES README.md CHANGELOG.md SECURITY.md LICENSE packaging/config.example.toml
        DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} FILES_MATCHING PATTERN "*.md")
install(FILES packaging/grafana/holdfast.json DESTINATION ${CMAKE_INSTALL_DATADIR}/holdfast/grafana)

set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_VENDOR holdfast)
set(CPACK_PACKAGE_CONTACT "the holdfast maintainers <maintainers@holdfast.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "local LLM server that never reads a conversation twice")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
if(CMAKE_SYSTEM_NAME STREQUAL Linux)
  install(FILES packaging/systemd/holdfast.service DESTINATION lib/systemd/system)
endif()
include(CPack)
