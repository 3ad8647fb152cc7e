/* JSON lines: one object a line, in and out of batches.
 *
 * A number without fraction and exponent is int64, any other float; a column with both is float. Strings are string,
 * true and false bool, arrays lists: of fixed length if all are equally long and none is missing, else of any length.
 * Arrays of arrays are the feature lists of a SequenceExample. null and a missing key are a missing value. With a
 * schema, binary values are base64 strings. JSON has no NaN: the strings "NaN", "Infinity" and "-Infinity" stand for
 * these in columns of numbers.
 */
#ifndef TFOS_RECORD_JSON_LINES_H
#define TFOS_RECORD_JSON_LINES_H

#include "base/bytes.h"
#include "record/text.h"
#include "tfos.h"

/* ---- schema of files without one ---- */

typedef struct tfos__json_survey tfos__json_survey;

tfos_status tfos__json_survey_new(tfos__json_survey **out, tfos_error *error);
void tfos__json_survey_free(tfos__json_survey *survey);

/* Reads the whole text. MISMATCH when a column has values that no type can hold together. */
tfos_status tfos__json_survey_add(tfos__json_survey *survey, tfos__text *text, tfos_error *error);

/* Columns come in the order in which the lines first name them. */
tfos_status tfos__json_survey_schema(const tfos__json_survey *survey, tfos_schema **out, tfos_error *error);

/* ---- reader ---- */

typedef struct tfos__json_reader tfos__json_reader;

/* Reads one text to batches of `schema`; keys that it has not are ignored. `text` stays the caller's and lives as long
 * as the reader. A batch ends after batch_rows rows, fewer where fixed lists are long, or once its text has
 * reached batch_bytes. */
tfos_status tfos__json_reader_open(const tfos_schema *schema, int64_t batch_rows, int64_t batch_bytes, tfos__text *text,
                                   tfos__json_reader **out, tfos_error *error);

/* The next batch, with at least one row; END after the last. */
tfos_status tfos__json_reader_next(tfos__json_reader *reader, tfos_batch **out, tfos_error *error);
void tfos__json_reader_close(tfos__json_reader *reader);

/* ---- writer ---- */

/* Appends one row as an object, without a line end. */
tfos_status tfos__json_write_row(const tfos_batch *batch, int64_t row, tfos__buffer *out, tfos_error *error);

/* Appends the value of one column in one row. */
tfos_status tfos__json_write_value(const tfos_vector *vector, int64_t row, tfos__buffer *out, tfos_error *error);

/* Appends bytes as a JSON string. Bytes that are not UTF-8 become U+FFFD. */
tfos_status tfos__json_write_string(const void *bytes, size_t count, tfos__buffer *out, tfos_error *error);

#endif
