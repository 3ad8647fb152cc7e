/* CSV (RFC 4180) in and out of batches.
 *
 * Read: quoted fields with doubled quotes, delimiters and line ends; CRLF and LF; a last line without an end; a byte
 * order mark; blank lines, which are skipped. An empty field is a missing value, a quoted empty field ("") an empty
 * string. Numbers may have spaces around them. bool is true, false, 1 or 0; binary is base64.
 *
 * The columns of a file become the columns of a table in three steps: each has the name of the header, or c0, c1, …
 * without one; `label` renames the first or the last; each fold replaces neighbouring columns by one list of fixed
 * length. With a schema, its fields are found by name when there is a header and by position when there is none; a list
 * of fixed length that no fold makes is found as the columns name_0, name_1, …, which is how a list is written. */
#ifndef TFOS_RECORD_CSV_H
#define TFOS_RECORD_CSV_H

#include "base/bytes.h"
#include "record/text.h"
#include "tfos.h"

typedef enum tfos__csv_label { TFOS__CSV_LABEL_NONE, TFOS__CSV_LABEL_FIRST, TFOS__CSV_LABEL_LAST } tfos__csv_label;

/* Columns [start, end) of the file, counted from 0, become the list `name`; or, if `first` is set, the columns from
 * that name of the header to the name `last`, both included. */
typedef struct tfos__csv_fold {
    const char *name;
    int64_t start;
    int64_t end;
    const char *first;
    const char *last;
} tfos__csv_fold;

typedef struct tfos__csv_options {
    char delimiter;
    bool header;
    tfos__csv_label label;
    const char *label_name;
    const tfos__csv_fold *folds; /* in any order, not overlapping */
    size_t fold_count;
    int64_t batch_rows;  /* most rows of a batch */
    int64_t batch_bytes; /* a batch ends once its text reaches this size */
} tfos__csv_options;

enum { TFOS__CSV_MAX_COLUMNS = 1 << 20 };

/* Comma, header, no label, no folds. */
void tfos__csv_options_init(tfos__csv_options *options);

/* INVALID for a delimiter that could be part of a number or a quote, folds by name without a header, or folds by
 * position that overlap or are empty. */
tfos_status tfos__csv_options_check(const tfos__csv_options *options, tfos_error *error);

/* ---- schema of files without one ---- */

/* What was seen in each column, over one or more files of the same columns. */
typedef struct tfos__csv_survey tfos__csv_survey;

/* `options` lives as long as the survey. */
tfos_status tfos__csv_survey_new(const tfos__csv_options *options, tfos__csv_survey **out, tfos_error *error);
void tfos__csv_survey_free(tfos__csv_survey *survey);

/* Reads the whole text. MISMATCH when its columns are not those of the files before. */
tfos_status tfos__csv_survey_add(tfos__csv_survey *survey, tfos__text *text, tfos_error *error);

/* int64 if every value is an integer, float if every value is a number, else string; nullable if a value was missing.
 */
tfos_status tfos__csv_survey_schema(const tfos__csv_survey *survey, tfos_schema **out, tfos_error *error);

/* ---- reader ---- */

typedef struct tfos__csv_reader tfos__csv_reader;

/* Reads one text. `schema` is of the table; `chosen` is the part of it, in the order of the batches, that is wanted.
 * `options` and `text` stay the caller's and live as long as the reader. */
tfos_status tfos__csv_reader_open(const tfos__csv_options *options, const tfos_schema *schema,
                                  const tfos_schema *chosen, tfos__text *text, tfos__csv_reader **out,
                                  tfos_error *error);

/* The next batch, with at least one row; END after the last. */
tfos_status tfos__csv_reader_next(tfos__csv_reader *reader, tfos_batch **out, tfos_error *error);
void tfos__csv_reader_close(tfos__csv_reader *reader);

/* ---- writer ---- */

/* Appends the line with the names of the columns. UNSUPPORTED for a schema with lists of varying length or of length 0,
 * and for one whose lists make a name that another column has. */
tfos_status tfos__csv_write_header(const tfos_schema *schema, char delimiter, tfos__buffer *out, tfos_error *error);

/* Appends one row. A missing value is an empty field; where that would make a blank line, in a file of one column, it
 * is "". */
tfos_status tfos__csv_write_row(const tfos_batch *batch, int64_t row, char delimiter, tfos__buffer *out,
                                tfos_error *error);

#endif
