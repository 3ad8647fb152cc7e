/* CSV records and fields: what the survey, the columns and the reader share. */
#ifndef TFOS_RECORD_CSV_SCAN_H
#define TFOS_RECORD_CSV_SCAN_H

#include "base/status.h"
#include "record/csv.h"

/* One record. `at` walks over its fields and is end + 1 behind the last. The byte at `end` can be read and is a line
 * end. */
typedef struct tfos__csv_record {
    char *at;
    char *end;
    int64_t line; /* where it begins, from 1 */
} tfos__csv_record;

typedef struct tfos__csv_cell {
    char *text;
    size_t bytes;
    bool quoted;
} tfos__csv_cell;

/* The next record that is not a blank line; END after the last. It lives until the next call. */
tfos_status tfos__csv_record_next(tfos__text *text, char delimiter, tfos__csv_record *out, tfos_error *error);

static inline bool tfos__csv_record_done(const tfos__csv_record *record)
{
    return record->at > record->end;
}

/* The next field of a record that is not done. Quotes are taken off in place. */
void tfos__csv_cell_next(tfos__csv_record *record, char delimiter, tfos__csv_cell *out);

/* The names of the columns of a file, and what becomes of them. */
typedef struct tfos__csv_column {
    char *name;
    int64_t fold; /* index of the fold that it is part of, or -1 */
} tfos__csv_column;

typedef struct tfos__csv_columns {
    tfos__csv_column *column;
    size_t count;
    bool first_pending; /* without a header, the record that was read to count the columns is the first row */
    tfos__csv_record first;
} tfos__csv_columns;

/* Reads the header, or counts the columns of the first record, and applies label and folds. A text without a record has
 * no columns. */
tfos_status tfos__csv_columns_read(const tfos__csv_options *options, tfos__text *text, tfos__csv_columns *out,
                                   tfos_error *error);
void tfos__csv_columns_reset(tfos__csv_columns *columns);

/* How many columns from `at` on belong to the fold of that column. */
size_t tfos__csv_columns_folded(const tfos__csv_columns *columns, size_t at);

/* "image=0:784", as it was asked for. */
tfos__printable tfos__csv_fold_text(const tfos__csv_fold *fold);

/* The next record, which may be the one that columns_read has looked at. */
tfos_status tfos__csv_columns_record(tfos__csv_columns *columns, tfos__text *text, char delimiter,
                                     tfos__csv_record *out, tfos_error *error);

/* Neighbouring columns that go to one field, or to none. */
typedef struct tfos__csv_run {
    int64_t field; /* in the batch, or -1: not wanted */
    size_t first;  /* column of the file */
    size_t count;
    bool list;
    bool nullable;
    tfos_type type;
} tfos__csv_run;

typedef struct tfos__csv_runs {
    tfos__csv_run *run; /* in the order of the file; they cover all columns */
    size_t count;
} tfos__csv_runs;

tfos_status tfos__csv_runs_find(const tfos__csv_options *options, const char *file, const tfos__csv_columns *columns,
                                const tfos_schema *schema, const tfos_schema *chosen, tfos__csv_runs *out,
                                tfos_error *error);
void tfos__csv_runs_reset(tfos__csv_runs *runs);

/* The failure of a record that has another number of fields; `found` were seen before `record->at`. */
tfos_status tfos__csv_fail_count(const char *file, const tfos__csv_record *record, char delimiter, size_t expected,
                                 size_t found, tfos_error *error);

#endif
