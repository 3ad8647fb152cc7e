# How every C file of the project is compiled: one interface target, tfos_compile, that all others link to.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(THREADS_PREFER_PTHREAD_FLAG ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, RelWithDebInfo or Release" FORCE)
endif()
# Asserts guard against wrong use of the API and stay on: they cost nothing that can be measured.
if(TFOS_SANITIZE)
  # They compile in two thirds of the time, and still tell lines; less is optimised away before it is checked.
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O1 -g1" CACHE STRING "" FORCE)
else()
  set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g" CACHE STRING "" FORCE)
endif()
set(CMAKE_C_FLAGS_RELEASE "-O2" CACHE STRING "" FORCE)

add_library(tfos_compile INTERFACE)
target_include_directories(tfos_compile INTERFACE "${PROJECT_SOURCE_DIR}/include" "${PROJECT_SOURCE_DIR}/src")
target_compile_definitions(tfos_compile INTERFACE _GNU_SOURCE)
target_compile_options(
  tfos_compile
  INTERFACE -Wall
            -Wextra
            -Wshadow
            -Wstrict-prototypes
            -Wmissing-prototypes
            -Wpointer-arith
            -Wcast-qual
            -Wvla
            -Wformat=2
            -Wundef
            -Wwrite-strings
            -fno-semantic-interposition
            -fstack-protector-strong
            -fno-strict-overflow
            # Asserts name files as they are in the repository, wherever it was cloned.
            "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
# Threads of a JVM, in which the library runs, have stacks of 1 MiB; one that runs out ends the process without a word.
if(NOT TFOS_SANITIZE)
  target_compile_options(tfos_compile INTERFACE -Wframe-larger-than=131072)
endif()
if(TFOS_WERROR)
  target_compile_options(tfos_compile INTERFACE -Werror)
endif()

if(TFOS_SANITIZE)
  if(NOT TFOS_SANITIZE MATCHES "^(address,undefined|address|undefined|thread)$")
    message(FATAL_ERROR "TFOS_SANITIZE is '${TFOS_SANITIZE}'; use address,undefined or thread")
  endif()
  set(TFOS_SANITIZE_FLAGS -fsanitize=${TFOS_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(tfos_compile INTERFACE ${TFOS_SANITIZE_FLAGS})
  target_link_options(tfos_compile INTERFACE ${TFOS_SANITIZE_FLAGS})
elseif(NOT TFOS_FUZZ AND NOT CMAKE_BUILD_TYPE STREQUAL "Debug")
  # glibc's checked variants need optimisation, and the sanitizers do not see through them.
  target_compile_options(tfos_compile INTERFACE -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()

if(TFOS_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "TFOS_FUZZ needs clang: configure with -DCMAKE_C_COMPILER=clang")
  endif()
  set(TFOS_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_compile_options(tfos_compile INTERFACE ${TFOS_FUZZ_FLAGS})
  target_link_options(tfos_compile INTERFACE ${TFOS_FUZZ_FLAGS})
endif()

# A shared library that enters processes of others (Python, the JVM, TensorFlow): nothing but what it means to export is
# visible, and its own calls stay inside.
function(tfos_hide_symbols target)
  set(options -Wl,--exclude-libs,ALL -Wl,-Bsymbolic -Wl,-z,now -Wl,-z,relro)
  if(NOT TFOS_SANITIZE AND NOT TFOS_FUZZ)
    list(APPEND options -Wl,-z,defs)
  endif()
  target_link_options(${target} PRIVATE ${options})
endfunction()
