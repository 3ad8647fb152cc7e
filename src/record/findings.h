/* Findings: what records say of their features, and the schema that follows from it. Each thread has its own; they are
 * joined at the end, and can travel to be joined elsewhere. */
#ifndef TFOS_RECORD_FINDINGS_H
#define TFOS_RECORD_FINDINGS_H

#include "base/bytes.h"
#include "record/example.h"
#include "record/shape.h"
#include "record/source.h"

/* What one record, or many, said of a feature. */
typedef struct tfos__said {
    tfos__feature_kind kind;
    int64_t least; /* values */
    int64_t most;
    bool text;                /* all bytes are valid UTF-8 */
    bool inner_null;          /* a feature list has a feature without a kind */
    tfos__feature_kind other; /* … or features of another kind, besides: NONE if it has not */
} tfos__said;

typedef struct tfos__finding {
    tfos__said all;
    int64_t present; /* records that have it */
    tfos__said pending;
    bool pending_quick; /* one number, as before: `pending` is not filled in */
    int64_t pending_record;
    size_t pending_span;
    char *path; /* where the kind was first seen; its own */
    int64_t offset;
} tfos__finding;

typedef struct tfos__findings {
    tfos_schema *names;
    const tfos_schema *wanted; /* NULL: every name; else only these, whatever they are there; the caller's */
    tfos__finding *of;         /* by index of the name */
    size_t capacity;
    int64_t records;
    int64_t sequences; /* maps of feature lists that were met */
    bool sampled;      /* there are more records, which nobody has looked at */
    tfos__joined joined;
    tfos__name_order features;
    tfos__name_order lists;
    tfos__shape shapes[TFOS__NAME_ORDER_SLOTS]; /* of `features`, where they are one number and have been before */
    const tfos__chunk *chunk;
    bool conflict; /* a feature of this record has another kind than before */
} tfos__findings;

extern const tfos__said tfos__said_nothing;
void tfos__said_add(tfos__said *to, const tfos__said *more);

tfos_status tfos__findings_init(tfos__findings *findings, tfos_error *error);
void tfos__findings_reset(tfos__findings *findings);

/* The index of a name, which is added if it is new; TFOS__NAME_UNKNOWN if it is not wanted. */
tfos_status tfos__findings_name(tfos__findings *findings, tfos__wire name, bool lists, int64_t *out, tfos_error *error);

/* Counts what is pending of a feature, or of all. */
tfos_status tfos__finding_settle(tfos__findings *findings, size_t index, tfos_error *error);
tfos_status tfos__findings_settle(tfos__findings *findings, tfos_error *error);

/* Adds findings to others. */
tfos_status tfos__findings_join(tfos__findings *to, const tfos__findings *from, tfos_error *error);

/* Columns in the order of their names: the order on the wire is an accident of the writer's hash table. `place` is for
 * messages. */
tfos_status tfos__findings_schema(const tfos__findings *findings, const char *place, tfos_record_kind asked,
                                  tfos_schema **out, tfos_error *error);

/* As JSON, and back, to be joined. */
tfos_status tfos__findings_export(const tfos__findings *findings, char **out, tfos_error *error);
tfos_status tfos__findings_import(tfos__findings *to, const char *text, size_t bytes, tfos_error *error);

/* infer.c: the schema that the first records alone would have, as if there were no others: a guess. NOT_FOUND if some
 * feature of theirs has not shown its kind. */
tfos_status tfos__schema_guess(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                               tfos_error *error);

/* infer.c: the schema of those columns alone that the options name; what no record has is missing from it. */
tfos_status tfos__schema_infer_columns(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                                       tfos_error *error);

#endif
