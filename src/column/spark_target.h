/* The columns of rows that go to Spark: the types that Spark expects, and which columns of a batch they are made of. */
#ifndef TFOS_COLUMN_SPARK_TARGET_H
#define TFOS_COLUMN_SPARK_TARGET_H

#include "column/spark_type.h"

/* X(name, C type, letter of NumPy whose bytes it may be, as the program calls it). */
#define TFOS__SPARK_WHOLE_MAP(X)                                                                                       \
    X(INT8, int8_t, 'b', "int8")                                                                                       \
    X(UINT8, uint8_t, 'B', "uint8")                                                                                    \
    X(INT16, int16_t, 'h', "int16")                                                                                    \
    X(UINT16, uint16_t, 'H', "uint16")                                                                                 \
    X(INT32, int32_t, 'i', "int32")                                                                                    \
    X(UINT32, uint32_t, 'I', "uint32")                                                                                 \
    X(INT64, int64_t, 'q', "int64")                                                                                    \
    X(ULONG, uint64_t, 'L', "uint64")                                                                                  \
    X(UINT64, uint64_t, 'Q', "uint64")

/* How a value lies in a batch. */
typedef enum tfos__spark_leaf {
#define TFOS__LEAF_ENUM(name, type, code, text) TFOS__LEAF_##name,
    TFOS__SPARK_WHOLE_MAP(TFOS__LEAF_ENUM)
#undef TFOS__LEAF_ENUM
        TFOS__LEAF_HALF,
    TFOS__LEAF_FLOAT,
    TFOS__LEAF_DOUBLE,
    TFOS__LEAF_BOOL,
    TFOS__LEAF_STRING,
    TFOS__LEAF_BINARY,
    TFOS__LEAF_NOTHING, /* every row is missing, or every list is empty */
    TFOS__LEAF_OBJECT,  /* of Python, which nobody else can read */
} tfos__spark_leaf;

typedef struct tfos__spark_target {
    char *name;
    char type[64]; /* as Spark's SQL calls it, for messages */
    tfos__spark_kind kind;
    int width;
    int lists;     /* 0: a scalar, 1: an array, 2: an array of arrays */
    bool text;     /* a string, where `kind` is that of strings and binary values */
    bool nullable; /* … and so may be the values of its arrays */

    /* Where its values come from; set by tfos__spark_targets_bind. */
    size_t column;
    int nested; /* lists in the column */
    tfos__spark_leaf leaf;
    size_t raw_bytes; /* > 0: the values of the column are numbers of so many bytes each, one behind the other */
    bool single;      /* the one value of a list is the scalar */
    int64_t split;    /* > 0: a list is so many lists */
} tfos__spark_target;

typedef struct tfos__spark_targets {
    tfos__spark_target *at;
    size_t count;
    tfos_schema *bound; /* the schema of the batches that they were bound to last, or NULL */
} tfos__spark_targets;

/* Parses a Spark schema in its JSON form. */
tfos_status tfos__spark_targets_parse(const char *text, size_t bytes, tfos__spark_targets *out, tfos_error *error);

/* Finds the columns that the targets are made of in batches of this schema. MISMATCH where that cannot be. */
tfos_status tfos__spark_targets_bind(tfos__spark_targets *targets, const tfos_schema *schema, tfos_error *error);

void tfos__spark_targets_reset(tfos__spark_targets *targets);

#endif
