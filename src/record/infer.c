/* Schema inference: one pass over the records, every thread with findings of its own, joined at the end.
 *
 * The names that a thread has met are a tfos_schema (for its table of names); what it knows of each is beside it. A
 * name that comes twice in a record counts with its last value, so what a record says of a feature is pending until the
 * next record speaks of it. */
#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "column/schema.h"
#include "fs/fs.h"
#include "record/example.h"
#include "record/scan.h"
#include "record/shape.h"

/* What one record, or many, said of a feature. */
typedef struct said {
    tfos__feature_kind kind;
    int64_t least; /* values */
    int64_t most;
    bool text;       /* all bytes are valid UTF-8 */
    bool inner_null; /* a feature list has a feature without a kind */
} said;

typedef struct feature_finding {
    said all;
    int64_t present; /* records that have it */
    said pending;
    bool pending_quick; /* one number, as before: `pending` is not filled in */
    int64_t pending_record;
    size_t pending_span;
    const char *path; /* where the kind was first seen */
    int64_t offset;
} feature_finding;

typedef struct thread_findings {
    tfos_schema *names;
    feature_finding *of; /* by index of the name */
    size_t capacity;
    int64_t records;
    int64_t sequences; /* records with feature lists */
    tfos__joined joined;
    tfos__name_order features;
    tfos__name_order lists;
    tfos__shape shapes[TFOS__NAME_ORDER_SLOTS]; /* of `features`, where they are one number and have been before */
    const tfos__chunk *chunk;
    bool conflict; /* a feature of this record has another kind than before */
} thread_findings;

typedef struct inference_state {
    tfos_file_system files;
    tfos_record_kind asked;
    tfos_on_corrupt on_corrupt;
    int64_t sample_left; /* -1: all */
    int threads;
    int count; /* of per_thread: at least 1 */
    thread_findings *per_thread;
} inference_state;

static const said nothing_said = {.kind = TFOS__FEATURE_NONE, .least = INT64_MAX, .most = -1, .text = true};

/* ---- findings ---- */

static tfos_status findings_init(thread_findings *findings, tfos_error *error)
{
    return tfos_schema_new(TFOS_RECORD_SEQUENCE, &findings->names, error);
}

static void findings_reset(thread_findings *findings)
{
    tfos_schema_free(findings->names);
    tfos__joined_reset(&findings->joined);
    free(findings->of);
}

static tfos__printable shown(const char *name)
{
    return tfos__printable_of(name, strlen(name));
}

static tfos_status fail_both(const char *name, tfos_error *error)
{
    return tfos__fail(
        error, TFOS_MISMATCH,
        "feature '%s' is in the context of one record and in the feature lists of another (or of the same): "
        "rename one, or give a schema",
        shown(name).text);
}

/* The index of a name, which is added if it is new. */
static tfos_status find_name(thread_findings *findings, tfos__wire name, bool lists, int64_t *out, tfos_error *error)
{
    size_t bytes = (size_t)(name.end - name.at);
    int64_t at = tfos__schema_find(findings->names, name.at, bytes);
    if (at >= 0) {
        const tfos_field *field = tfos_schema_field(findings->names, (size_t)at);
        *out = at;
        return field->feature_list == lists ? TFOS_OK : fail_both(field->name, error);
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
    tfos_status status = tfos_schema_add(findings->names, &field, error);
    free(copy);
    TFOS_TRY(status);
    TFOS_TRY(tfos__array_reserve(&findings->of, count, &findings->capacity, sizeof *findings->of, error));
    findings->of[count] = (feature_finding){.all = nothing_said, .pending_record = -1};
    *out = (int64_t)count;
    return TFOS_OK;
}

static tfos_status fail_kinds(const char *name, const feature_finding *first, tfos__feature_kind kind, const char *path,
                              int64_t offset, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH,
                      "feature '%s' changes its kind: %s at offset %lld of %s, %s at offset %lld of %s",
                      shown(name).text, tfos__feature_kind_name(first->all.kind), (long long)first->offset, first->path,
                      tfos__feature_kind_name(kind), (long long)offset, path);
}

static void add_said(said *to, const said *more)
{
    to->kind = more->kind != TFOS__FEATURE_NONE ? more->kind : to->kind;
    to->least = tfos__min_i64(to->least, more->least);
    to->most = tfos__max_i64(to->most, more->most);
    to->text = to->text && more->text;
    to->inner_null = to->inner_null || more->inner_null;
}

/* Counts what is pending of a feature. */
static tfos_status settle(thread_findings *findings, size_t index, tfos_error *error)
{
    feature_finding *finding = &findings->of[index];
    if (finding->pending_record < 0) {
        return TFOS_OK;
    }
    finding->pending_record = -1;
    if (finding->pending_quick) {
        finding->present++;
        return TFOS_OK;
    }
    bool list = tfos_schema_field(findings->names, index)->feature_list;
    if (finding->pending.kind == TFOS__FEATURE_NONE && !list) {
        return TFOS_OK; /* as if it were missing */
    }
    if (finding->pending.kind != TFOS__FEATURE_NONE) {
        const char *path = tfos__chunk_segment(findings->chunk, finding->pending_span)->path;
        int64_t offset = findings->chunk->spans[finding->pending_span].file_offset;
        if (finding->all.kind == TFOS__FEATURE_NONE) {
            finding->path = path;
            finding->offset = offset;
        } else if (finding->all.kind != finding->pending.kind) {
            return fail_kinds(tfos_schema_field(findings->names, index)->name, finding, finding->pending.kind, path,
                              offset, error);
        }
    }
    finding->present++;
    add_said(&finding->all, &finding->pending);
    return TFOS_OK;
}

static tfos_status settle_all(thread_findings *findings, tfos_error *error)
{
    findings->conflict = false;
    for (size_t i = 0; i < tfos_schema_field_count(findings->names); i++) {
        TFOS_TRY(settle(findings, i, error));
    }
    return TFOS_OK;
}

/* ---- one record ---- */

static bool list_is_text(tfos__wire list)
{
    while (list.at < list.end) {
        uint32_t tag;
        tfos__wire value;
        if (!tfos__wire_tag(&list, &tag)) {
            return true; /* counted as malformed elsewhere */
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&list, tag)) {
                return true;
            }
            continue;
        }
        if (!tfos__wire_bytes(&list, &value)) {
            return true;
        }
        size_t bytes = (size_t)(value.end - value.at);
        if (tfos__utf8_valid_prefix(value.at, bytes) != bytes) {
            return false;
        }
    }
    return true;
}

/* What one Feature says; false if it does not parse. `text` tells whether it still matters. */
static bool hear_feature(tfos__wire value, bool text, said *out)
{
    tfos__feature feature;
    *out = nothing_said;
    if (!tfos__feature_parse(value, &feature)) {
        return false;
    }
    if (feature.kind == TFOS__FEATURE_NONE) {
        return true;
    }
    int64_t count = 0;
    bool all_text = text;
    tfos__wire list = feature.list;
    bool more = feature.simple || tfos__feature_next_list(&feature, &list);
    while (more) {
        int64_t here = tfos__list_count(feature.kind, list);
        if (here < 0) {
            return false;
        }
        count += here;
        if (feature.kind == TFOS__FEATURE_BYTES && all_text) {
            all_text = list_is_text(list);
        }
        more = !feature.simple && tfos__feature_next_list(&feature, &list);
    }
    *out = (said){.kind = feature.kind, .least = count, .most = count, .text = all_text};
    return true;
}

static tfos_status hear_feature_list(tfos__wire value, bool text, said *out, tfos_error *error)
{
    *out = nothing_said;
    out->text = text;
    while (value.at < value.end) {
        uint32_t tag;
        tfos__wire feature;
        said inner;
        if (!tfos__wire_tag(&value, &tag)) {
            return tfos__fail(error, TFOS_CORRUPT, "a feature list does not parse");
        }
        if (tag != TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_skip(&value, tag)) {
                return tfos__fail(error, TFOS_CORRUPT, "a feature list does not parse");
            }
            continue;
        }
        if (!tfos__wire_bytes(&value, &feature) || !hear_feature(feature, out->text, &inner)) {
            return tfos__fail(error, TFOS_CORRUPT, "a feature list does not parse");
        }
        inner.inner_null = inner.kind == TFOS__FEATURE_NONE;
        if (!inner.inner_null && out->kind != TFOS__FEATURE_NONE && inner.kind != out->kind) {
            return tfos__fail(error, TFOS_MISMATCH, "a feature list holds both %s and %s",
                              tfos__feature_kind_name(out->kind), tfos__feature_kind_name(inner.kind));
        }
        add_said(out, &inner);
    }
    return TFOS_OK;
}

/* Whether a feature is one number, as it has been before: then it says nothing new. Most features of most records are.
 */
static inline bool hear_one_number(const feature_finding *finding, tfos__wire value)
{
    if (finding->all.least > 1 || finding->all.most < 1) {
        return false;
    }
    size_t bytes = tfos__feature_one_number(value, finding->all.kind);
    uint64_t number;
    if (finding->all.kind == TFOS__FEATURE_FLOAT) {
        return bytes == sizeof(float);
    }
    return finding->all.kind == TFOS__FEATURE_INT64 && bytes > 0 &&
           tfos__wire_varint_exact(value.at + 4, bytes, &number);
}

/* Whether what is pending would change the kind. It is judged when the record ends: the name may come once more. */
static bool contradicts(const feature_finding *finding)
{
    return !finding->pending_quick && finding->pending.kind != TFOS__FEATURE_NONE &&
           finding->all.kind != TFOS__FEATURE_NONE && finding->pending.kind != finding->all.kind;
}

/* Counts what an earlier record said of a feature, now that another speaks of it. */
static inline tfos_status make_room(thread_findings *findings, feature_finding *finding, size_t index,
                                    tfos_error *error)
{
    if (finding->pending_record == findings->records) {
        return TFOS_OK; /* this record, which says it again */
    }
    if (finding->pending_quick && finding->pending_record >= 0) {
        finding->present++;
        return TFOS_OK;
    }
    return settle(findings, index, error);
}

static void note_pending(thread_findings *findings, feature_finding *finding, size_t span)
{
    finding->pending_record = findings->records;
    finding->pending_span = span;
}

/* The index of the name at this position. */
static tfos_status place_name(thread_findings *findings, tfos__wire name, bool lists, size_t position, int64_t *out,
                              tfos_error *error)
{
    tfos__name_order *order = lists ? &findings->lists : &findings->features;
    *out = tfos__name_order_get(order, position, name);
    if (*out < 0) {
        TFOS_TRY(find_name(findings, name, lists, out, error));
        tfos__name_order_put(order, position, name, (int32_t)*out);
        if (!lists) {
            findings->shapes[position % TFOS__NAME_ORDER_SLOTS].bytes = 0;
        }
    }
    return TFOS_OK;
}

static tfos_status hear_entry(thread_findings *findings, size_t span, tfos__wire entry, bool lists, size_t position,
                              tfos_error *error)
{
    tfos__wire name;
    tfos__wire value;
    int64_t index;
    if (!tfos__entry_parse(entry, &findings->joined, &name, &value)) {
        TFOS_TRY(tfos__joined_check(&findings->joined, error));
        return tfos__fail(error, TFOS_CORRUPT, "the record is no tf.train.Example: a map entry does not parse");
    }
    TFOS_TRY(place_name(findings, name, lists, position, &index, error));
    feature_finding *finding = &findings->of[index];
    TFOS_TRY(make_room(findings, finding, (size_t)index, error));
    finding->pending_quick = !lists && hear_one_number(finding, value);
    if (finding->pending_quick) {
        /* Nothing to note but that it is there; and from now on it can be told by its shape. */
        tfos__shape_make(&findings->shapes[position % TFOS__NAME_ORDER_SLOTS], name, finding->all.kind);
    } else if (lists) {
        tfos_status status = hear_feature_list(value, finding->all.text, &finding->pending, error);
        if (status == TFOS_MISMATCH) {
            tfos__error_prefix(error, "feature '%s'",
                               shown(tfos_schema_field(findings->names, (size_t)index)->name).text);
        }
        TFOS_TRY(status);
    } else if (!hear_feature(value, finding->all.text, &finding->pending)) {
        return tfos__fail(error, TFOS_CORRUPT, "the record is no tf.train.Example: the feature '%s' does not parse",
                          shown(tfos_schema_field(findings->names, (size_t)index)->name).text);
    }
    note_pending(findings, finding, span);
    findings->conflict = findings->conflict || contradicts(finding);
    return TFOS_OK;
}

/* Takes as many entries as have the shape that they had before: one number of the kind that is known. */
__attribute__((noinline)) static tfos_status hear_shaped(thread_findings *findings, size_t span, tfos__wire *map,
                                                         size_t *position, tfos_error *error)
{
    const uint8_t *at = map->at;
    size_t here = *position;
    for (;; here++) {
        size_t slot = here % TFOS__NAME_ORDER_SLOTS;
        const tfos__shape *shape = &findings->shapes[slot];
        size_t bytes = tfos__shape_match(shape, at, map->end);
        uint64_t number;
        bool is_float = shape->least == shape->most;
        if (bytes == 0 || (!is_float && !tfos__wire_varint_exact(at + shape->bytes, bytes, &number))) {
            break;
        }
        size_t index = (size_t)tfos__name_order_at(&findings->features, slot);
        feature_finding *finding = &findings->of[index];
        TFOS_TRY(make_room(findings, finding, index, error));
        finding->pending_quick = true;
        note_pending(findings, finding, span);
        at += shape->bytes + bytes;
    }
    *position = here;
    map->at = at;
    return TFOS_OK;
}

static tfos_status not_an_example(tfos_error *error)
{
    return tfos__fail(
        error, TFOS_CORRUPT,
        "the record is no tf.train.Example: its bytes do not parse (to read it as it is, ask for records of "
        "kind bytes)");
}

static tfos_status hear_map(thread_findings *findings, size_t span, tfos__wire map, bool lists, size_t *position,
                            tfos_error *error)
{
    while (map.at < map.end) {
        if (!lists) {
            TFOS_TRY(hear_shaped(findings, span, &map, position, error));
            if (map.at == map.end) {
                break;
            }
        }
        uint32_t tag;
        tfos__wire entry;
        if (!tfos__wire_tag(&map, &tag)) {
            return not_an_example(error);
        }
        if (tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_bytes(&map, &entry)) {
                return not_an_example(error);
            }
            TFOS_TRY(hear_entry(findings, span, entry, lists, (*position)++, error));
        } else if (!tfos__wire_skip(&map, tag)) {
            return not_an_example(error);
        }
    }
    return TFOS_OK;
}

typedef struct listener_state {
    inference_state *inference;
    thread_findings *findings;
} listener_state;

static tfos_status hear_record(void *context, size_t span, const uint8_t *record, size_t bytes, tfos_error *error)
{
    listener_state *listener = context;
    thread_findings *findings = listener->findings;
    tfos_record_kind asked = listener->inference->asked;
    tfos__wire wire = {record, record + bytes};
    size_t positions[2] = {0, 0};
    /* A record that fails halfway must leave nothing pending. */
    if (listener->inference->on_corrupt == TFOS_ON_CORRUPT_SKIP &&
        !tfos__message_valid(wire, asked != TFOS_RECORD_EXAMPLE, &findings->joined)) {
        TFOS_TRY(tfos__joined_check(&findings->joined, error));
        return not_an_example(error);
    }
    while (wire.at < wire.end) {
        uint32_t tag;
        tfos__wire map;
        if (!tfos__wire_tag(&wire, &tag)) {
            return not_an_example(error);
        }
        bool lists = tag == TFOS__WIRE_TAG(2, TFOS__WIRE_BYTES) && asked != TFOS_RECORD_EXAMPLE;
        if (lists || tag == TFOS__WIRE_TAG(1, TFOS__WIRE_BYTES)) {
            if (!tfos__wire_bytes(&wire, &map)) {
                return not_an_example(error);
            }
            findings->sequences += lists;
            TFOS_TRY(hear_map(findings, span, map, lists, &positions[lists], error));
        } else if (!tfos__wire_skip(&wire, tag)) {
            return not_an_example(error);
        }
    }
    findings->records++;
    return findings->conflict ? settle_all(findings, error) : TFOS_OK;
}

/* ---- chunks ---- */

static tfos_status hear_chunk(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    inference_state *inference = context;
    thread_findings *findings = &inference->per_thread[thread];
    listener_state listener = {inference, findings};
    if (inference->sample_left >= 0 && (int64_t)chunk->span_count > inference->sample_left) {
        chunk->span_count = (size_t)inference->sample_left;
    }
    findings->chunk = chunk;
    TFOS_TRY(tfos__chunk_each(chunk, inference->on_corrupt, hear_record, &listener, error));
    TFOS_TRY(settle_all(findings, error));
    if (inference->sample_left >= 0) {
        inference->sample_left -= (int64_t)chunk->good;
        *result = inference->sample_left == 0 ? inference : NULL; /* enough: wakes the consumer */
    }
    return TFOS_OK;
}

static void drop_nothing(void *context, void *result)
{
    (void)context;
    (void)result;
}

/* Adds the findings of one thread to those of another. */
static tfos_status join_findings(thread_findings *to, const thread_findings *from, tfos_error *error)
{
    to->records += from->records;
    to->sequences += from->sequences;
    for (size_t i = 0; i < tfos_schema_field_count(from->names); i++) {
        const tfos_field *field = tfos_schema_field(from->names, i);
        const feature_finding *more = &from->of[i];
        const uint8_t *name = (const uint8_t *)field->name;
        int64_t index;
        TFOS_TRY(find_name(to, (tfos__wire){name, name + strlen(field->name)}, field->feature_list, &index, error));
        feature_finding *finding = &to->of[index];
        if (finding->all.kind == TFOS__FEATURE_NONE) {
            finding->path = more->path;
            finding->offset = more->offset;
        } else if (more->all.kind != TFOS__FEATURE_NONE && more->all.kind != finding->all.kind) {
            return fail_kinds(field->name, finding, more->all.kind, more->path, more->offset, error);
        }
        finding->present += more->present;
        add_said(&finding->all, &more->all);
    }
    return TFOS_OK;
}

/* ---- the schema ---- */

static tfos_field conclude(const thread_findings *findings, size_t index, bool sampled)
{
    const feature_finding *finding = &findings->of[index];
    const said *all = &finding->all;
    tfos_field field = *tfos_schema_field(findings->names, index);
    bool missing = finding->present < findings->records;
    field.nullable = missing || sampled;
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

/* Columns in the order of their names: the order on the wire is an accident of the writer's hash table. */
static tfos_status make_schema(const thread_findings *findings, const tfos_paths *paths, tfos_record_kind asked,
                               bool sampled, tfos_schema **out, tfos_error *error)
{
    size_t count = tfos_schema_field_count(findings->names);
    if (findings->records == 0) {
        return tfos__fail(error, TFOS_NOT_FOUND, "%s%s: no record to infer a schema from: give a schema",
                          paths->path[0], paths->count > 1 ? " and the other files" : "");
    }
    tfos_field *fields = calloc(count + 1, sizeof *fields);
    if (fields == NULL) {
        return tfos__fail_memory(error, count * sizeof *fields);
    }
    for (size_t i = 0; i < count; i++) {
        fields[i] = conclude(findings, i, sampled);
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

static tfos_status listen_to(const tfos_paths *paths, const tfos_read_options *options, inference_state *inference,
                             tfos_error *error)
{
    enum { CHUNK_ROWS = 65536, CHUNK_BYTES = 512 * 1024 };
    tfos__scan_options scan_options = {
        .source = {.served = &inference->files,
                   .codec = options->codec,
                   .on_corrupt = options->on_corrupt,
                   .chunk_rows = CHUNK_ROWS,
                   .chunk_bytes = CHUNK_BYTES,
                   .range_start = options->range_start,
                   .range_end = options->range_end},
        .threads = inference->sample_left >= 0 ? 0 : inference->threads,
        .interrupted = options->interrupted,
        .interrupted_context = options->interrupted_context,
        .ordered = true, /* so that of several errors it is the first that is told */
    };
    tfos__scan_work work = {hear_chunk, drop_nothing, inference};
    tfos__scan *scan = NULL;
    TFOS_TRY(tfos__scan_open(paths, &scan_options, &work, &scan, error));
    void *enough;
    tfos_status status = tfos__scan_next(scan, &enough, error);
    tfos__scan_close(scan);
    return status == TFOS_END ? TFOS_OK : status;
}

tfos_status tfos_schema_infer(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                              tfos_error *error)
{
    tfos_read_options taken;
    TFOS_TRY(tfos__read_options_take(options, &taken, error));
    options = &taken;
    int32_t threads = options->threads;
    TFOS_TRY(tfos__scan_threads(&threads, error));
    if (options->infer_records < 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "the number of records to infer from must be 0 (all) or more, found %lld",
                          (long long)options->infer_records);
    }
    if (options->record == TFOS_RECORD_BYTES) {
        return tfos_schema_new(TFOS_RECORD_BYTES, out, error);
    }
    inference_state inference = {.asked = options->record,
                                 .on_corrupt = options->on_corrupt,
                                 .sample_left = options->infer_records > 0 ? options->infer_records : -1,
                                 .threads = threads,
                                 .count = tfos__scan_workers(threads)};
    TFOS_TRY(tfos__file_system_take(options->files, &inference.files, error));
    inference.per_thread = calloc((size_t)inference.count, sizeof *inference.per_thread);
    if (inference.per_thread == NULL) {
        return tfos__fail_memory(error, (size_t)inference.count * sizeof *inference.per_thread);
    }
    tfos_status status = TFOS_OK;
    for (int i = 0; i < inference.count && status == TFOS_OK; i++) {
        status = findings_init(&inference.per_thread[i], error);
    }
    if (status == TFOS_OK) {
        status = listen_to(paths, options, &inference, error);
    }
    for (int i = 1; i < inference.count && status == TFOS_OK; i++) {
        status = join_findings(&inference.per_thread[0], &inference.per_thread[i], error);
    }
    if (status == TFOS_OK) {
        status = make_schema(&inference.per_thread[0], paths, options->record, options->infer_records > 0, out, error);
    }
    for (int i = 0; i < inference.count; i++) {
        findings_reset(&inference.per_thread[i]);
    }
    free(inference.per_thread);
    return status;
}
