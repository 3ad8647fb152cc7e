/* The objects of a file of JSON lines: what the survey and the reader share. */
#ifndef TFOS_RECORD_JSON_SCAN_H
#define TFOS_RECORD_JSON_SCAN_H

#include <json-c/json.h>

#include "base/status.h"
#include "record/json_lines.h"

/* How deep an object may be nested: a row of lists of lists is 3. The rest is for a message that names the column. */
enum { TFOS__JSON_MAX_DEPTH = 16 };

typedef struct tfos__json_scan {
    json_tokener *tokener;
    json_object *object;
    int64_t line;
    size_t bytes;
} tfos__json_scan;

tfos_status tfos__json_scan_init(tfos__json_scan *scan, tfos_error *error);
void tfos__json_scan_reset(tfos__json_scan *scan);

/* The object of the next line that is not blank, in scan->object until the next call; END after the last. */
tfos_status tfos__json_scan_next(tfos__json_scan *scan, tfos__text *text, tfos_error *error);

/* "a string", "an array", …: for messages. */
const char *tfos__json_kind(json_object *value);

/* Whether an integer is beyond int64, which json-c would cut to the largest. */
bool tfos__json_is_big(json_object *value);

/* Whether a string stands for a number that JSON has not; *real is then that number. */
bool tfos__json_is_special(json_object *value, double *real);

#endif
