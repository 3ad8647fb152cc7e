# tfos_embed(target what file…): makes files part of a program. They are found by their names in the array
# tfos__<what>_files, which coordinator/<what>_files.h declares. The C file is made anew when one of them changes.
#
# The same file is the script that writes it: cmake -DOUT=… -DWHAT=… "-DFILES=path;…" -P TfosEmbed.cmake
set(TFOS_EMBED_SCRIPT "${CMAKE_CURRENT_LIST_FILE}")

function(tfos_embed target what)
  set(out "${CMAKE_CURRENT_BINARY_DIR}/${what}_files.c")
  list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${CMAKE_COMMAND}" "-DOUT=${out}" "-DWHAT=${what}" "-DFILES=${ARGN}" -P "${TFOS_EMBED_SCRIPT}"
    DEPENDS ${ARGN} "${TFOS_EMBED_SCRIPT}"
    COMMENT "Embedding the files of the ${what}"
    VERBATIM)
  target_sources(${target} PRIVATE "${out}")
endfunction()

function(tfos_embed_write)
  set(text "/* Made by cmake/TfosEmbed.cmake. */\n#include \"coordinator/${WHAT}_files.h\"\n\n")
  set(table "")
  set(number 0)
  foreach(path IN LISTS FILES)
    get_filename_component(name "${path}" NAME)
    file(READ "${path}" bytes HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
    string(APPEND text "static const unsigned char file_${number}[] = {${bytes}};\n")
    string(APPEND table "    {\"${name}\", file_${number}, sizeof file_${number}},\n")
    math(EXPR number "${number} + 1")
  endforeach()
  string(APPEND text "\nconst tfos__${WHAT}_file tfos__${WHAT}_files[] = {\n${table}};\n")
  string(APPEND text "const size_t tfos__${WHAT}_file_count = ${number};\n")
  file(WRITE "${OUT}" "${text}")
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  tfos_embed_write()
endif()
