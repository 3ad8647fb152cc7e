/* Records decoded by hand to text: rows as JSON, failures as "!STATUS message". */
#ifndef TFOS_TESTS_HELPER_DECODE_H
#define TFOS_TESTS_HELPER_DECODE_H

#include "helper_records.h"

/* Decodes the records one after the other into one batch. A record that fails leaves "!STATUS message" in the text, the
 * rows that did not fail follow as JSON lines. The text lives until helper_teardown. */
const char *helper_decode(const char *schema_json, const helper_bytes *records, size_t count);

/* The batch of records that all must decode. The caller frees it. */
tfos_batch *helper_batch(const tfos_schema *schema, const helper_bytes *records, size_t count);

/* The records of the rows of a batch. */
helper_bytes helper_encode(const tfos_batch *batch, int64_t row);

/* Decodes records with a schema and compares the text. */
#define EXPECT_ROWS(schema, expected, ...)                                                                             \
    helper_expect_text(helper_decode(schema, (const helper_bytes[]){__VA_ARGS__},                                      \
                                     sizeof((const helper_bytes[]){__VA_ARGS__}) / sizeof(helper_bytes)),              \
                       expected)

/* {"fields": […]} of fields in the JSON form without its quotes' noise: FIELDS("a int64", "b float[3] nullable"). The
 * form is that of tfos__field_describe; "list of" makes a feature list and a SequenceExample. Lives until
 * helper_teardown. */
const char *helper_fields(const char *const *fields, size_t count);
#define FIELDS(...)                                                                                                    \
    helper_fields((const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))

#endif
