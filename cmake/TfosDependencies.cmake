# The libraries the core stands on. Static ones are hidden inside libtfos; zlib is opened at run time, so only its
# header is needed here.
find_package(Threads REQUIRED)

# tfos_static_library(name archive header package): an imported target for an archive of the system.
function(tfos_static_library name archive header package)
  find_library(TFOS_${name}_ARCHIVE NAMES ${archive})
  find_path(TFOS_${name}_INCLUDE NAMES ${header})
  if(NOT TFOS_${name}_ARCHIVE OR NOT TFOS_${name}_INCLUDE)
    message(FATAL_ERROR "${archive} or ${header} is missing: install the package ${package}, or run `make`")
  endif()
  add_library(tfos_${name} STATIC IMPORTED GLOBAL)
  set_target_properties(
    tfos_${name} PROPERTIES IMPORTED_LOCATION "${TFOS_${name}_ARCHIVE}" INTERFACE_SYSTEM_INCLUDE_DIRECTORIES
                                                                        "${TFOS_${name}_INCLUDE}")
endfunction()

tfos_static_library(json_c libjson-c.a json-c/json.h libjson-c-dev)
tfos_static_library(crypto libcrypto.a openssl/evp.h libssl-dev)
tfos_static_library(ssl libssl.a openssl/ssl.h libssl-dev)
set_target_properties(tfos_ssl PROPERTIES INTERFACE_LINK_LIBRARIES tfos_crypto)
set_target_properties(tfos_crypto PROPERTIES INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS}")
# Only for programs: Debian's archive of libuv is not position independent enough for a shared library.
tfos_static_library(uv libuv_a.a uv.h libuv1-dev)
set_target_properties(tfos_uv PROPERTIES INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
tfos_static_library(http_parser libhttp_parser.a http_parser.h libhttp-parser-dev)

find_path(TFOS_ZLIB_INCLUDE NAMES zlib.h)
if(NOT TFOS_ZLIB_INCLUDE)
  message(FATAL_ERROR "zlib.h is missing: install the package zlib1g-dev (or run `make`, which does)")
endif()

if(TFOS_TESTS)
  find_library(TFOS_CMOCKA NAMES cmocka)
  if(NOT TFOS_CMOCKA)
    message(FATAL_ERROR "cmocka is missing: install the package libcmocka-dev (or run `make test`, which does)")
  endif()
endif()
