/* What is said of names that do not fit: what the signature wants beside what the rows have, for one of the two is what
 * has to be changed. A message has room for some of each; how many others there are is said, too. */
#include <stdio.h>

#include "base/status.h"
#include "column/schema.h"
#include "tensorflow/binding_parts.h"

enum { LIST_BYTES = 240, ELEMENT_BYTES = 200, DESCRIPTION_BYTES = 96, TYPE_BYTES = 64 };

/* ---- lists ---- */

/* Adds an element, unless the list is *full with it: the first one is always there. */
static tfos_status add_element(tfos__buffer *list, const char *name, const char *what, const char *place, bool *full,
                               tfos_error *error)
{
    char text[ELEMENT_BYTES];
    int bytes = snprintf(text, sizeof text, "%s %s%s", tfos__printable_text(name).text, what, place);
    *full = list->size > 0 && list->size + (size_t)bytes > LIST_BYTES;
    return *full ? TFOS_OK : tfos__buffer_printf(list, error, "%s%s", list->size > 0 ? ", " : "", text);
}

static tfos_status end_list(tfos__buffer *list, size_t left, tfos_error *error)
{
    if (left > 0) {
        return tfos__buffer_printf(list, error, " and %zu more", left);
    }
    return list->size > 0 ? TFOS_OK : tfos__buffer_printf(list, error, "none");
}

/* "x float32 [?, 784], y int64 [?] in functional_1/score_1". Of a name that fits several outputs, these alone. */
static tfos_status list_tensors(const tfos__tensor_specs *specs, const tfos__layer_search *search, tfos__buffer *list,
                                tfos_error *error)
{
    bool some = search != NULL && search->fits > 1;
    bool full = false;
    size_t left = some ? search->fits : specs->count;
    for (size_t i = 0; i < specs->count && !full; i++) {
        char text[DESCRIPTION_BYTES];
        char place[DESCRIPTION_BYTES + 4] = "";
        if (some && !search->may_be[i]) {
            continue;
        }
        tfos__tensor_spec_describe(&specs->at[i], text, sizeof text);
        if (search != NULL && search->scopes[i][0] != '\0') {
            snprintf(place, sizeof place, " in %s", tfos__printable_text(search->scopes[i]).text);
        }
        TFOS_TRY(add_element(list, specs->at[i].name, text, place, &full, error));
        left -= !full;
    }
    return end_list(list, left, error);
}

/* "array<array<float>>": as Spark calls it. */
static void describe_spark(json_object *type, char *out, size_t bytes)
{
    size_t used = 0;
    int depth = 0;
    for (; strcmp(tfos__json_text(type, "type"), "array") == 0 && used < bytes; depth++) {
        used += (size_t)snprintf(out + used, bytes - used, "array<");
        type = tfos__json_member(type, "elementType");
    }
    const char *name =
        json_object_is_type(type, json_type_string) ? json_object_get_string(type) : tfos__json_text(type, "type");
    name = strcmp(name, "udt") == 0 ? "vector" : name; /* of Spark ML, like all that are fed */
    for (; used < bytes && depth >= 0; depth--) {
        used += (size_t)snprintf(out + used, bytes - used, "%s", name);
        name = ">";
    }
}

/* "id long, image array<float>". */
static tfos_status list_columns(const tfos__names *names, tfos__buffer *list, tfos_error *error)
{
    size_t i = 0;
    for (bool full = false; i < names->count && !full; i += !full) {
        char type[TYPE_BYTES];
        if (names->schema != NULL) {
            tfos__field_describe(tfos_schema_field(names->schema, i), type, sizeof type);
        } else {
            describe_spark(tfos__json_member(json_object_array_get_idx(names->spark, i), "type"), type, sizeof type);
        }
        TFOS_TRY(add_element(list, names->at[i], tfos__printable_text(type).text, "", &full, error));
    }
    return end_list(list, names->count - i, error);
}

/* ---- messages ---- */

/* Both lists; what is not asked for is NULL. */
typedef struct sides {
    tfos__buffer wants;
    tfos__buffer has;
} sides;

static tfos_status list_sides(const tfos__tensor_specs *specs, const tfos__layer_search *search,
                              const tfos__names *names, sides *out, tfos_error *error)
{
    *out = (sides){0};
    TFOS_TRY(specs != NULL ? list_tensors(specs, search, &out->wants, error) : TFOS_OK);
    return names != NULL ? list_columns(names, &out->has, error) : TFOS_OK;
}

static void reset_sides(sides *both)
{
    tfos__buffer_reset(&both->wants);
    tfos__buffer_reset(&both->has);
}

tfos_status tfos__fail_tensor(const tfos__signature *signature, const tfos__names *names, const char *what,
                              const char *name, const char *advice, tfos_error *error)
{
    sides both;
    tfos_status status = list_sides(&signature->inputs, NULL, names, &both, error);
    if (status == TFOS_OK) {
        status = tfos__fail(error, TFOS_MISMATCH,
                            "%s '%s': the signature '%s' has the inputs %s; the rows have the columns %s. %s", what,
                            tfos__printable_text(name).text, tfos__printable_text(signature->name).text,
                            (const char *)both.wants.data, (const char *)both.has.data, advice);
    }
    reset_sides(&both);
    return status;
}

tfos_status tfos__fail_output(const tfos__signature *signature, const tfos__layer_search *search, const char *name,
                              tfos_error *error)
{
    sides both;
    const tfos__printable wrong = tfos__printable_text(name);
    const tfos__printable of = tfos__printable_text(signature->name);
    tfos_status status = list_sides(&signature->outputs, search, NULL, &both, error);
    const char *wants = (const char *)both.wants.data;
    if (status == TFOS_OK && search->fits > 1) {
        status = tfos__fail(error, TFOS_MISMATCH,
                            "the output mapping names a tensor '%s', and several outputs of the signature '%s' may be "
                            "of that layer: %s. Name one of them, or its position: '0' for the first output",
                            wrong.text, of.text, wants);
    } else if (status == TFOS_OK) {
        status = tfos__fail(error, TFOS_MISMATCH,
                            "the output mapping names a tensor '%s': the signature '%s' has the outputs %s. Name an "
                            "output, its position ('0' for the first), or the layer that makes it",
                            wrong.text, of.text, wants);
    }
    reset_sides(&both);
    return status;
}

tfos_status tfos__fail_column(const tfos__signature *signature, const tfos__names *names, const char *name,
                              tfos_error *error)
{
    sides both;
    tfos_status status = list_sides(&signature->inputs, NULL, names, &both, error);
    if (status == TFOS_OK) {
        status = tfos__fail(error, TFOS_MISMATCH,
                            "the input mapping names a column '%s': the rows have the columns %s; the signature '%s' "
                            "has the inputs %s. Give {column: input} (setInputMapping, --inputs COLUMN=TENSOR)",
                            tfos__printable_text(name).text, (const char *)both.has.data,
                            tfos__printable_text(signature->name).text, (const char *)both.wants.data);
    }
    reset_sides(&both);
    return status;
}

tfos_status tfos__fail_kept(const tfos__names *names, const char *name, tfos_error *error)
{
    sides both;
    tfos_status status = list_sides(NULL, NULL, names, &both, error);
    if (status == TFOS_OK) {
        status = tfos__fail(error, TFOS_MISMATCH, "the column '%s' is to be kept; the rows have the columns %s",
                            tfos__printable_text(name).text, (const char *)both.has.data);
    }
    reset_sides(&both);
    return status;
}
