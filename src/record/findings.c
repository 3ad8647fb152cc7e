/* Findings: names and what is known of them, their sum, and what it means.
 *
 * The names that were met are a tfos_schema (for its table of names); what is known of each is beside it. A name that
 * comes twice in a record counts with its last value, so what a record says of a feature is pending until the next
 * record speaks of it. */
#include "record/findings.h"

#include <stdlib.h>

#include "base/json.h"
#include "base/status.h"
#include "column/schema.h"

enum { MAX_BYTES = 256 << 20 };
#define MOST_RECORDS (INT64_C(1) << 48)

const tfos__said tfos__said_nothing = {.kind = TFOS__FEATURE_NONE, .least = INT64_MAX, .most = -1, .text = true};

tfos_status tfos__findings_init(tfos__findings *findings, tfos_error *error)
{
    return tfos_schema_new(TFOS_RECORD_SEQUENCE, &findings->names, error);
}

void tfos__findings_reset(tfos__findings *findings)
{
    size_t count = findings->names != NULL ? tfos_schema_field_count(findings->names) : 0;
    tfos_schema_free(findings->names);
    tfos__joined_reset(&findings->joined);
    for (size_t i = 0; i < count; i++) {
        free(findings->of[i].path);
    }
    free(findings->of);
}

static tfos_status fail_both(const char *name, tfos_error *error)
{
    return tfos__fail(
        error, TFOS_MISMATCH,
        "feature '%s' is in the context of one record and in the feature lists of another (or of the same): "
        "rename one, or give a schema",
        tfos__printable_text(name).text);
}

tfos_status tfos__findings_name(tfos__findings *findings, tfos__wire name, bool lists, int64_t *out, tfos_error *error)
{
    size_t bytes = (size_t)(name.end - name.at);
    int64_t at = tfos__schema_find(findings->names, name.at, bytes);
    if (at >= 0) {
        const tfos_field *field = tfos_schema_field(findings->names, (size_t)at);
        *out = at;
        return field->feature_list == lists ? TFOS_OK : fail_both(field->name, error);
    }
    if (findings->wanted != NULL && tfos__schema_find(findings->wanted, name.at, bytes) < 0) {
        *out = TFOS__NAME_UNKNOWN;
        return TFOS_OK;
    }
    if (bytes > 0 && memchr(name.at, '\0', bytes) != NULL) {
        return tfos__fail(error, TFOS_ENCODING, "the feature name '%s' contains a NUL character",
                          tfos__printable_of(name.at, bytes).text);
    }
    char *copy = strndup((const char *)name.at, bytes);
    if (copy == NULL) {
        return tfos__fail_memory(error, bytes + 1);
    }
    size_t count = tfos_schema_field_count(findings->names);
    tfos_field field = {.name = copy, .type = TFOS_TYPE_BINARY, .feature_list = lists};
    tfos_status status = tfos__array_reserve(&findings->of, count, &findings->capacity, sizeof *findings->of, error);
    status = status == TFOS_OK ? tfos_schema_add(findings->names, &field, error) : status;
    free(copy);
    TFOS_TRY(status);
    findings->of[count] = (tfos__finding){.all = tfos__said_nothing, .pending_record = -1};
    *out = (int64_t)count;
    return TFOS_OK;
}

static tfos_status fail_kinds(const char *name, const tfos__finding *first, tfos__feature_kind kind, const char *path,
                              int64_t offset, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "feature '%s' changes its kind: %s at offset %lld of %s, %s at offset %lld of %s",
                      tfos__printable_text(name).text, tfos__feature_kind_name(first->all.kind),
                      (long long)first->offset, first->path, tfos__feature_kind_name(kind), (long long)offset, path);
}

static tfos_status note_place(tfos__finding *finding, const char *path, int64_t offset, tfos_error *error)
{
    free(finding->path);
    finding->path = strdup(path);
    finding->offset = offset;
    return finding->path != NULL ? TFOS_OK : tfos__fail_memory(error, strlen(path) + 1);
}

void tfos__said_add(tfos__said *to, const tfos__said *more)
{
    to->kind = more->kind != TFOS__FEATURE_NONE ? more->kind : to->kind;
    to->least = tfos__min_i64(to->least, more->least);
    to->most = tfos__max_i64(to->most, more->most);
    to->text = to->text && more->text;
    to->inner_null = to->inner_null || more->inner_null;
}

tfos_status tfos__finding_settle(tfos__findings *findings, size_t index, tfos_error *error)
{
    tfos__finding *finding = &findings->of[index];
    if (finding->pending_record < 0) {
        return TFOS_OK;
    }
    finding->pending_record = -1;
    if (finding->pending_quick) {
        finding->present++;
        return TFOS_OK;
    }
    bool list = tfos_schema_field(findings->names, index)->feature_list;
    if (finding->pending.other != TFOS__FEATURE_NONE) {
        return tfos__fail(error, TFOS_MISMATCH, "feature '%s': a feature list holds both %s and %s",
                          tfos__printable_text(tfos_schema_field(findings->names, index)->name).text,
                          tfos__feature_kind_name(finding->pending.kind),
                          tfos__feature_kind_name(finding->pending.other));
    }
    if (finding->pending.kind == TFOS__FEATURE_NONE && !list) {
        return TFOS_OK; /* as if it were missing */
    }
    if (finding->pending.kind != TFOS__FEATURE_NONE) {
        const char *path = tfos__chunk_segment(findings->chunk, finding->pending_span)->path;
        int64_t offset = findings->chunk->spans[finding->pending_span].file_offset;
        if (finding->all.kind == TFOS__FEATURE_NONE) {
            TFOS_TRY(note_place(finding, path, offset, error));
        } else if (finding->all.kind != finding->pending.kind) {
            return fail_kinds(tfos_schema_field(findings->names, index)->name, finding, finding->pending.kind, path,
                              offset, error);
        }
    }
    finding->present++;
    tfos__said_add(&finding->all, &finding->pending);
    return TFOS_OK;
}

tfos_status tfos__findings_settle(tfos__findings *findings, tfos_error *error)
{
    findings->conflict = false;
    for (size_t i = 0; i < tfos_schema_field_count(findings->names); i++) {
        TFOS_TRY(tfos__finding_settle(findings, i, error));
    }
    return TFOS_OK;
}

tfos_status tfos__findings_join(tfos__findings *to, const tfos__findings *from, tfos_error *error)
{
    to->records += from->records;
    to->sequences += from->sequences;
    to->sampled = to->sampled || from->sampled;
    for (size_t i = 0; i < tfos_schema_field_count(from->names); i++) {
        const tfos_field *field = tfos_schema_field(from->names, i);
        const tfos__finding *more = &from->of[i];
        const uint8_t *name = (const uint8_t *)field->name;
        int64_t index;
        TFOS_TRY(tfos__findings_name(to, (tfos__wire){name, name + strlen(field->name)}, field->feature_list, &index,
                                     error));
        tfos__finding *finding = &to->of[index];
        if (finding->all.kind == TFOS__FEATURE_NONE && more->path != NULL) {
            TFOS_TRY(note_place(finding, more->path, more->offset, error));
        } else if (more->all.kind != TFOS__FEATURE_NONE && more->all.kind != finding->all.kind) {
            return fail_kinds(field->name, finding, more->all.kind, more->path, more->offset, error);
        }
        finding->present += more->present;
        tfos__said_add(&finding->all, &more->all);
    }
    return TFOS_OK;
}

/* ---- the schema ---- */

static tfos_field conclude(const tfos__findings *findings, size_t index)
{
    const tfos__finding *finding = &findings->of[index];
    const tfos__said *all = &finding->all;
    tfos_field field = *tfos_schema_field(findings->names, index);
    bool missing = finding->present < findings->records;
    field.nullable = missing || findings->sampled;
    field.type = all->kind == TFOS__FEATURE_FLOAT   ? TFOS_TYPE_FLOAT
                 : all->kind == TFOS__FEATURE_INT64 ? TFOS_TYPE_INT64
                 : all->text && all->most >= 0      ? TFOS_TYPE_STRING
                                                    : TFOS_TYPE_BINARY;
    bool equal = all->least == all->most;
    /* A missing fixed list takes as much memory as one that is there, so a feature that is rarely there is not made
     * fixed: a small file could ask for any amount of memory otherwise. */
    bool gaps = field.feature_list ? all->inner_null : missing;
    if (all->most < 0 || (equal && all->most == 1)) {
        field.shape = TFOS_SHAPE_SCALAR;
    } else if (equal && all->most > 1 && !gaps && all->most <= TFOS_SCHEMA_MAX_LENGTH) {
        field.shape = TFOS_SHAPE_FIXED;
        field.length = (int32_t)all->most;
    } else {
        field.shape = TFOS_SHAPE_RAGGED;
    }
    return field;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const tfos_field *)a)->name, ((const tfos_field *)b)->name);
}

tfos_status tfos__findings_schema(const tfos__findings *findings, const char *place, tfos_record_kind asked,
                                  tfos_schema **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(findings->names);
    if (findings->records == 0) {
        return tfos__fail(error, TFOS_NOT_FOUND, "%s: no record to infer a schema from: give a schema", place);
    }
    tfos_field *fields = calloc(count + 1, sizeof *fields);
    if (fields == NULL) {
        return tfos__fail_memory(error, count * sizeof *fields);
    }
    for (size_t i = 0; i < count; i++) {
        fields[i] = conclude(findings, i);
    }
    qsort(fields, count, sizeof *fields, by_name);
    bool sequence = asked == TFOS_RECORD_SEQUENCE || findings->sequences > 0;
    tfos_schema *schema = NULL;
    tfos_status status = tfos_schema_new(sequence ? TFOS_RECORD_SEQUENCE : TFOS_RECORD_EXAMPLE, &schema, error);
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        status = tfos_schema_add(schema, &fields[i], error);
    }
    free(fields);
    if (status != TFOS_OK) {
        tfos_schema_free(schema);
        return status;
    }
    *out = schema;
    return TFOS_OK;
}

/* ---- on their way to others ---- */

static tfos_status add_member(json_object *to, const char *key, json_object *value, tfos_error *error)
{
    if (value == NULL || json_object_object_add(to, key, value) != 0) {
        json_object_put(value);
        return tfos__fail_memory(error, sizeof(void *));
    }
    return TFOS_OK;
}

static tfos_status describe(const tfos__findings *findings, size_t index, json_object *out, tfos_error *error)
{
    const tfos__finding *finding = &findings->of[index];
    const tfos_field *field = tfos_schema_field(findings->names, index);
    const char *path = finding->path != NULL ? finding->path : "";
    TFOS_TRY(add_member(out, "name", json_object_new_string(field->name), error));
    TFOS_TRY(add_member(out, "list", json_object_new_boolean(field->feature_list), error));
    TFOS_TRY(add_member(out, "kind", json_object_new_int(finding->all.kind), error));
    TFOS_TRY(add_member(out, "least", json_object_new_int64(finding->all.least), error));
    TFOS_TRY(add_member(out, "most", json_object_new_int64(finding->all.most), error));
    TFOS_TRY(add_member(out, "text", json_object_new_boolean(finding->all.text), error));
    TFOS_TRY(add_member(out, "inner_null", json_object_new_boolean(finding->all.inner_null), error));
    TFOS_TRY(add_member(out, "present", json_object_new_int64(finding->present), error));
    TFOS_TRY(add_member(out, "path", json_object_new_string(path), error));
    return add_member(out, "offset", json_object_new_int64(finding->offset), error);
}

static tfos_status describe_all(const tfos__findings *findings, json_object *root, tfos_error *error)
{
    json_object *features = json_object_new_array();
    TFOS_TRY(add_member(root, "features", features, error));
    TFOS_TRY(add_member(root, "records", json_object_new_int64(findings->records), error));
    TFOS_TRY(add_member(root, "sequences", json_object_new_int64(findings->sequences), error));
    TFOS_TRY(add_member(root, "sampled", json_object_new_boolean(findings->sampled), error));
    for (size_t i = 0; i < tfos_schema_field_count(findings->names); i++) {
        json_object *feature = json_object_new_object();
        if (feature == NULL || json_object_array_add(features, feature) != 0) {
            json_object_put(feature);
            return tfos__fail_memory(error, sizeof(void *));
        }
        TFOS_TRY(describe(findings, i, feature, error));
    }
    return TFOS_OK;
}

tfos_status tfos__findings_export(const tfos__findings *findings, char **out, tfos_error *error)
{
    json_object *root = json_object_new_object();
    tfos_status status = root != NULL ? describe_all(findings, root, error) : tfos__fail_memory(error, 1);
    const char *text = status == TFOS_OK ? json_object_to_json_string_ext(root, JSON_C_TO_STRING_PLAIN) : NULL;
    char *copy = text != NULL ? strdup(text) : NULL;
    json_object_put(root);
    TFOS_TRY(status);
    if (copy == NULL) {
        return tfos__fail_memory(error, 1);
    }
    *out = copy;
    return TFOS_OK;
}

static int64_t number(json_object *object, const char *key)
{
    return json_object_get_int64(tfos__json_member_of(object, key, json_type_int));
}

static bool truth(json_object *object, const char *key)
{
    return json_object_get_boolean(tfos__json_member_of(object, key, json_type_boolean));
}

static tfos_status fail_import(const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID, "expected the findings of another survey, as JSON: %s", what);
}

static tfos_status restore(tfos__findings *to, json_object *feature, tfos_error *error)
{
    json_object *name = tfos__json_member_of(feature, "name", json_type_string);
    int64_t kind = number(feature, "kind");
    json_object *path = tfos__json_member_of(feature, "path", json_type_string);
    if (name == NULL || path == NULL || kind < TFOS__FEATURE_NONE || kind > TFOS__FEATURE_INT64) {
        return fail_import("a feature has no name, no place, or a kind that is none", error);
    }
    const uint8_t *at = (const uint8_t *)json_object_get_string(name);
    int64_t index;
    tfos__wire text = {at, at + json_object_get_string_len(name)};
    TFOS_TRY(tfos__findings_name(to, text, truth(feature, "list"), &index, error));
    tfos__finding *finding = &to->of[index];
    finding->all = (tfos__said){.kind = (tfos__feature_kind)kind,
                                .least = number(feature, "least"),
                                .most = number(feature, "most"),
                                .text = truth(feature, "text"),
                                .inner_null = truth(feature, "inner_null")};
    finding->present = number(feature, "present");
    if (finding->present < 0 || finding->present > to->records) {
        return fail_import("a feature is in more records than there are, or in less than none", error);
    }
    return note_place(finding, json_object_get_string(path), number(feature, "offset"), error);
}

/* Sums stay what can be imported. */
static tfos_status check_sums(const tfos__findings *to, const tfos__findings *more, tfos_error *error)
{
    if (to->records > MOST_RECORDS - more->records || to->sequences > MOST_RECORDS - more->sequences) {
        return tfos__fail(error, TFOS_LIMIT, "surveys of more than %lld records cannot be added up",
                          (long long)MOST_RECORDS);
    }
    return TFOS_OK;
}

static tfos_status restore_all(tfos__findings *to, json_object *root, tfos_error *error)
{
    json_object *features = tfos__json_member_of(root, "features", json_type_array);
    if (features == NULL) {
        return fail_import("it has no features", error);
    }
    to->records = number(root, "records");
    to->sequences = number(root, "sequences");
    to->sampled = truth(root, "sampled");
    if (to->records < 0 || to->records > MOST_RECORDS || to->sequences < 0 || to->sequences > MOST_RECORDS) {
        return fail_import("its number of records is none", error);
    }
    for (size_t i = 0; i < json_object_array_length(features); i++) {
        TFOS_TRY(restore(to, json_object_array_get_idx(features, i), error));
    }
    return TFOS_OK;
}

tfos_status tfos__findings_import(tfos__findings *to, const char *text, size_t bytes, tfos_error *error)
{
    enum { DEPTH = 4 };
    if (bytes > MAX_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "the findings of a survey have at most %d bytes, found %zu", MAX_BYTES,
                          bytes);
    }
    json_object *root;
    tfos__json_fault fault = {0};
    tfos_status status = tfos__json_object_parse(text, bytes, DEPTH, &root, &fault, error);
    if (status == TFOS_INVALID) {
        return fail_import(fault.what, error);
    }
    TFOS_TRY(status);
    tfos__findings *more = calloc(1, sizeof *more); /* too large for the stacks that others give us */
    status = more != NULL ? tfos__findings_init(more, error) : tfos__fail_memory(error, sizeof *more);
    status = status == TFOS_OK ? restore_all(more, root, error) : status;
    status = status == TFOS_OK ? check_sums(to, more, error) : status;
    status = status == TFOS_OK ? tfos__findings_join(to, more, error) : status;
    if (more != NULL) {
        tfos__findings_reset(more);
    }
    free(more);
    json_object_put(root);
    return status;
}
