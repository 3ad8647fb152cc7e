/* The files of the status page, as bytes. The build makes them from page.html, page.css and page.js. */
#ifndef TFOS_COORDINATOR_PAGE_FILES_H
#define TFOS_COORDINATOR_PAGE_FILES_H

#include <stddef.h>

typedef struct tfos__page_file {
    const char *name;
    const unsigned char *bytes;
    size_t count;
} tfos__page_file;

extern const tfos__page_file tfos__page_files[];
extern const size_t tfos__page_file_count;

#endif
