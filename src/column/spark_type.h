/* The columns of a Spark DataFrame: what Spark calls their types, what the user has declared, and the fields that they
 * become. */
#ifndef TFOS_COLUMN_SPARK_TYPE_H
#define TFOS_COLUMN_SPARK_TYPE_H

#include "column/vector.h"
#include "tfos.h"

/* X(name, C type in an UnsafeRow). A date is an INT, a timestamp a LONG. */
#define TFOS__SPARK_NUMBER_MAP(X)                                                                                      \
    X(BYTE, int8_t)                                                                                                    \
    X(SHORT, int16_t)                                                                                                  \
    X(INT, int32_t)                                                                                                    \
    X(LONG, int64_t)                                                                                                   \
    X(FLOAT, float)                                                                                                    \
    X(DOUBLE, double)

/* How a value lies in memory. */
typedef enum tfos__spark_kind {
#define TFOS__SPARK_ENUM(name, type) TFOS__SPARK_##name,
    TFOS__SPARK_NUMBER_MAP(TFOS__SPARK_ENUM)
#undef TFOS__SPARK_ENUM
        TFOS__SPARK_BOOLEAN, /* a byte, 0 or 1 */
    TFOS__SPARK_BYTES,       /* string and binary: elsewhere in the row */
    TFOS__SPARK_DECIMAL,     /* up to 18 digits: the unscaled value as a LONG */
    TFOS__SPARK_BIG_DECIMAL, /* more: the unscaled value elsewhere in the row, the highest byte first */
} tfos__spark_kind;

/* The nesting of a column, outermost first. */
enum { TFOS__SPARK_LISTS_MAX = 2 };

typedef struct tfos__spark_column {
    tfos_field field; /* what it becomes; its name is the column's own memory */
    tfos__spark_kind kind;
    int width;              /* bytes of a value in an array */
    int lists;              /* 0: a scalar, 1: an array or a vector of Spark ML, 2: an array of arrays */
    bool ml;                /* a vector of Spark ML */
    bool open;              /* a list whose length nobody has declared and no rows have shown yet */
    bool shown;             /* rows have shown the length that the field has */
    int precision;          /* digits of a decimal; 0 for other values */
    int scale;              /* those behind its point */
    char type[64];          /* as Spark calls it, for messages */
    tfos__vector *defaults; /* values of the field's type that stand for nulls, or NULL */
    bool default_list;      /* they stand for a null list; otherwise there is one, for each null value */
} tfos__spark_column;

typedef struct tfos__spark_columns {
    tfos__spark_column *at;
    size_t count;
    bool for_records;        /* they are written to or read from files, where values may be missing */
    tfos_record_kind record; /* of those; AUTO: as the columns want it */
} tfos__spark_columns;

/* What a simple type of Spark's is, by its name in the JSON of a schema. False: it is none that is known here. */
bool tfos__spark_name_find(const char *name, tfos__spark_kind *kind, int *width);

/* Parses the description of tfos_spark_rows_new. */
tfos_status tfos__spark_columns_parse(const char *text, size_t bytes, tfos__spark_columns *out, tfos_error *error);
void tfos__spark_columns_reset(tfos__spark_columns *columns);

/* The schema of the columns as they are now; lists that are open are ragged in it. */
tfos_status tfos__spark_columns_schema(const tfos__spark_columns *columns, tfos_schema **out, tfos_error *error);

#endif
