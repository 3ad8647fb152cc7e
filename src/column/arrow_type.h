/* The types of Arrow columns: what they are as fields of a schema, and the chain of levels that leads to their values.
 *
 *   list<dictionary<int8, utf8>>   →   LIST → DICTIONARY (index 'c') → VALUES (format 'u')
 */
#ifndef TFOS_COLUMN_ARROW_TYPE_H
#define TFOS_COLUMN_ARROW_TYPE_H

#include "column/schema.h"
#include "tfos.h"

typedef enum tfos__arrow_leaf_kind {
    TFOS__LEAF_NULL,
    TFOS__LEAF_BIT,
    TFOS__LEAF_I8,
    TFOS__LEAF_U8,
    TFOS__LEAF_I16,
    TFOS__LEAF_U16,
    TFOS__LEAF_I32,
    TFOS__LEAF_U32,
    TFOS__LEAF_I64,
    TFOS__LEAF_U64,
    TFOS__LEAF_HALF,
    TFOS__LEAF_FLOAT,
    TFOS__LEAF_DOUBLE,
    TFOS__LEAF_BYTES,       /* 32-bit offsets */
    TFOS__LEAF_LARGE_BYTES, /* 64-bit offsets */
    TFOS__LEAF_VIEW,
    TFOS__LEAF_FIXED_BYTES,
} tfos__arrow_leaf_kind;

typedef struct tfos__arrow_leaf {
    const char *format;
    tfos__arrow_leaf_kind kind;
    tfos_type type;
    int buffers; /* fewest that an array of it has */
} tfos__arrow_leaf;

typedef enum tfos__arrow_level_kind {
    TFOS__LEVEL_VALUES,
    TFOS__LEVEL_LIST,
    TFOS__LEVEL_LARGE_LIST,
    TFOS__LEVEL_FIXED_LIST,
    TFOS__LEVEL_DICTIONARY,
} tfos__arrow_level_kind;

/* One level of a column; its child, or the values of its dictionary, is the next one in the array. */
typedef struct tfos__arrow_level {
    tfos__arrow_level_kind kind;
    const tfos__arrow_leaf *leaf; /* of VALUES; of the indices of DICTIONARY */
    int32_t width;                /* values of a row of FIXED_LIST, bytes of a value of TFOS__LEAF_FIXED_BYTES */
    bool takes_null;              /* a null here is a feature without value; elsewhere it has no place in a record */
    const struct ArrowArray *array;
    const uint8_t *validity; /* NULL: no nulls */
} tfos__arrow_level;

/* Two lists and the values, each of them in a dictionary. */
enum { TFOS__ARROW_LEVELS_MAX = 6 };

typedef struct tfos__arrow_levels {
    int count;
    int lists;
    tfos__arrow_level at[TFOS__ARROW_LEVELS_MAX];
} tfos__arrow_levels;

/* The name of a column; "" for NULL. */
const char *tfos__arrow_name(const struct ArrowSchema *schema);

/* Checks that a schema is a struct whose children are there. */
tfos_status tfos__arrow_check_struct(const struct ArrowSchema *schema, tfos_error *error);

/* Parses the type of a column and says what field it is. The name stays the schema's. UNSUPPORTED says which cast
 * helps. */
tfos_status tfos__arrow_parse_field(const struct ArrowSchema *schema, tfos__arrow_levels *parsed, tfos_field *out,
                                    tfos_error *error);

/* Puts the name of the column before the message of a failure; returns `status`. */
tfos_status tfos__arrow_prefix_column(tfos_status status, const struct ArrowSchema *schema, tfos_error *error);

#endif
