/* Schema inference: one pass over the records, every thread with findings of its own, joined at the end. */
#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "fs/fs.h"
#include "record/findings.h"
#include "record/scan.h"

typedef struct inference_state {
    tfos_file_system files;
    tfos_record_kind asked;
    tfos_on_corrupt on_corrupt;
    int64_t sample_left; /* -1: all */
    int64_t bytes_left;  /* of a sample */
    int threads;
    int count; /* of per_thread: at least 1 */
    tfos__findings *per_thread;
} inference_state;

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
static bool hear_feature(tfos__wire value, bool text, tfos__said *out)
{
    tfos__feature feature;
    *out = tfos__said_nothing;
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
    *out = (tfos__said){.kind = feature.kind, .least = count, .most = count, .text = all_text};
    return true;
}

static tfos_status hear_feature_list(tfos__wire value, bool text, tfos__said *out, tfos_error *error)
{
    *out = tfos__said_nothing;
    out->text = text;
    while (value.at < value.end) {
        uint32_t tag;
        tfos__wire feature;
        tfos__said inner;
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
            out->other = inner.kind;
            continue;
        }
        tfos__said_add(out, &inner);
    }
    return TFOS_OK;
}

/* Whether a feature is one number, as it has been before: then it says nothing new. Most features of most records are.
 */
static inline bool hear_one_number(const tfos__finding *finding, tfos__wire value)
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
static bool contradicts(const tfos__finding *finding)
{
    const tfos__said *said = &finding->pending;
    bool changes =
        said->kind != TFOS__FEATURE_NONE && finding->all.kind != TFOS__FEATURE_NONE && said->kind != finding->all.kind;
    return !finding->pending_quick && (changes || said->other != TFOS__FEATURE_NONE);
}

/* Counts what an earlier record said of a feature, now that another speaks of it. */
static inline tfos_status make_room(tfos__findings *findings, tfos__finding *finding, size_t index, tfos_error *error)
{
    if (finding->pending_record == findings->records) {
        return TFOS_OK; /* this record, which says it again */
    }
    if (finding->pending_quick && finding->pending_record >= 0) {
        finding->present++;
        return TFOS_OK;
    }
    return tfos__finding_settle(findings, index, error);
}

static void note_pending(tfos__findings *findings, tfos__finding *finding, size_t span)
{
    finding->pending_record = findings->records;
    finding->pending_span = span;
}

/* The index of the name at this position. */
static tfos_status place_name(tfos__findings *findings, tfos__wire name, bool lists, size_t position, int64_t *out,
                              tfos_error *error)
{
    tfos__name_order *order = lists ? &findings->lists : &findings->features;
    *out = tfos__name_order_get(order, position, name);
    if (*out == TFOS__NAME_MISS) {
        TFOS_TRY(tfos__findings_name(findings, name, lists, out, error));
        tfos__name_order_put(order, position, name, (int32_t)*out);
        if (!lists) {
            tfos__shape_forget(&findings->shapes[position % TFOS__NAME_ORDER_SLOTS]);
        }
    }
    return TFOS_OK;
}

static tfos_status hear_entry(tfos__findings *findings, size_t span, tfos__wire entry, bool lists, size_t position,
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
    if (index < 0) {
        return TFOS_OK; /* nobody has asked for it */
    }
    tfos__finding *finding = &findings->of[index];
    TFOS_TRY(make_room(findings, finding, (size_t)index, error));
    finding->pending_quick = !lists && hear_one_number(finding, value);
    if (finding->pending_quick) {
        /* Nothing to note but that it is there; and from now on it can be told by its shape. */
        tfos__shape_make(&findings->shapes[position % TFOS__NAME_ORDER_SLOTS], name, finding->all.kind);
    } else if (lists) {
        TFOS_TRY(hear_feature_list(value, finding->all.text, &finding->pending, error));
    } else if (!hear_feature(value, finding->all.text, &finding->pending)) {
        return tfos__fail(error, TFOS_CORRUPT, "the record is no tf.train.Example: the feature '%s' does not parse",
                          tfos__printable_text(tfos_schema_field(findings->names, (size_t)index)->name).text);
    }
    note_pending(findings, finding, span);
    findings->conflict = findings->conflict || contradicts(finding);
    return TFOS_OK;
}

/* Takes as many entries as have the shape that they had before: one number of the kind that is known. */
__attribute__((noinline)) static tfos_status hear_shaped(tfos__findings *findings, size_t span, tfos__wire *map,
                                                         size_t *position, tfos_error *error)
{
    const uint8_t *at = map->at;
    size_t here = *position;
    for (;; here++) {
        size_t slot = here % TFOS__NAME_ORDER_SLOTS;
        const tfos__shape *shape = &findings->shapes[slot];
        size_t bytes = tfos__shape_match(shape, at, map->end);
        uint64_t number;
        bool is_float = shape->spread == 0;
        if (bytes == 0 || (!is_float && !tfos__shape_whole(at + shape->bytes, bytes, &number, false))) {
            break;
        }
        size_t index = (size_t)tfos__name_order_at(&findings->features, slot);
        tfos__finding *finding = &findings->of[index];
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

static tfos_status hear_map(tfos__findings *findings, size_t span, tfos__wire map, bool lists, size_t *position,
                            tfos_error *error)
{
    while (map.at < map.end) {
        const uint8_t *before = map.at;
        if (!lists) {
            TFOS_TRY(hear_shaped(findings, span, &map, position, error));
        }
        tfos__entries_pass(lists ? &findings->lists : &findings->features, &map, position);
        if (map.at != before) {
            continue;
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
    tfos__findings *findings;
} listener_state;

static tfos_status hear_record(void *context, size_t span, const uint8_t *record, size_t bytes, tfos_error *error)
{
    listener_state *listener = context;
    tfos__findings *findings = listener->findings;
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
    return findings->conflict ? tfos__findings_settle(findings, error) : TFOS_OK;
}

/* ---- chunks ---- */

static tfos_status hear_chunk(void *context, int thread, tfos__chunk *chunk, void **result, tfos_error *error)
{
    inference_state *inference = context;
    tfos__findings *findings = &inference->per_thread[thread];
    listener_state listener = {inference, findings};
    if (inference->sample_left >= 0 && (int64_t)chunk->span_count > inference->sample_left) {
        chunk->span_count = (size_t)inference->sample_left;
    }
    findings->chunk = chunk;
    TFOS_TRY(tfos__chunk_each(chunk, inference->on_corrupt, hear_record, &listener, error));
    TFOS_TRY(tfos__findings_settle(findings, error));
    if (inference->sample_left >= 0) {
        inference->sample_left -= (int64_t)chunk->good;
        inference->bytes_left -= (int64_t)chunk->data.size;
        bool enough = inference->sample_left == 0 || inference->bytes_left <= 0;
        *result = enough ? inference : NULL; /* wakes the consumer */
    }
    return TFOS_OK;
}

static void drop_nothing(void *context, void *result)
{
    (void)context;
    (void)result;
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

/* ---- surveys ---- */

struct tfos_survey {
    tfos_record_kind record;
    tfos__findings all;
};

tfos_status tfos_survey_new(tfos_record_kind record, tfos_survey **out, tfos_error *error)
{
    tfos_survey *survey = calloc(1, sizeof *survey);
    if (survey == NULL) {
        return tfos__fail_memory(error, sizeof *survey);
    }
    survey->record = record;
    tfos_status status = tfos__findings_init(&survey->all, error);
    if (status != TFOS_OK) {
        free(survey);
        return status;
    }
    *out = survey;
    return TFOS_OK;
}

void tfos_survey_free(tfos_survey *survey)
{
    if (survey != NULL) {
        tfos__findings_reset(&survey->all);
        free(survey);
    }
}

static tfos_status make_findings(inference_state *inference, const tfos_schema *wanted, tfos_error *error)
{
    inference->per_thread = calloc((size_t)inference->count, sizeof *inference->per_thread);
    if (inference->per_thread == NULL) {
        return tfos__fail_memory(error, (size_t)inference->count * sizeof *inference->per_thread);
    }
    for (int i = 0; i < inference->count; i++) {
        inference->per_thread[i].wanted = wanted;
        TFOS_TRY(tfos__findings_init(&inference->per_thread[i], error));
    }
    return TFOS_OK;
}

/* `most_bytes` bounds a sample. */
static tfos_status survey_files(tfos_survey *survey, const tfos_paths *paths, const tfos_read_options *options,
                                const tfos_schema *wanted, int64_t most_bytes, tfos_error *error)
{
    int32_t threads = options->threads;
    TFOS_TRY(tfos__scan_threads(&threads, error));
    inference_state inference = {.asked = survey->record,
                                 .on_corrupt = options->on_corrupt,
                                 .sample_left = options->infer_records > 0 ? options->infer_records : -1,
                                 .bytes_left = most_bytes,
                                 .threads = threads,
                                 .count = tfos__scan_workers(threads)};
    TFOS_TRY(tfos__file_system_take(options->files, &inference.files, error));
    tfos_status status = make_findings(&inference, wanted, error);
    if (status == TFOS_OK) {
        status = listen_to(paths, options, &inference, error);
    }
    for (int i = 0; i < inference.count && inference.per_thread != NULL; i++) {
        status = status == TFOS_OK ? tfos__findings_join(&survey->all, &inference.per_thread[i], error) : status;
        tfos__findings_reset(&inference.per_thread[i]);
    }
    free(inference.per_thread);
    survey->all.sampled = survey->all.sampled || options->infer_records > 0;
    return status;
}

/* The names that are wanted, as a set; NULL: all are. */
static tfos_status want(const tfos_read_options *options, tfos_schema **out, tfos_error *error)
{
    *out = NULL;
    if (options->columns == NULL) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos_schema_new(TFOS_RECORD_EXAMPLE, out, error));
    for (size_t i = 0; i < options->column_count; i++) {
        if (tfos_schema_find(*out, options->columns[i]) < 0) {
            const tfos_field field = {.name = options->columns[i], .type = TFOS_TYPE_BINARY};
            TFOS_TRY(tfos_schema_add(*out, &field, error));
        }
    }
    return TFOS_OK;
}

static tfos_status add_files(tfos_survey *survey, const tfos_paths *paths, const tfos_read_options *options,
                             int64_t most_bytes, tfos_error *error)
{
    tfos_read_options taken;
    tfos_schema *wanted = NULL;
    TFOS_TRY(tfos__read_options_take(options, &taken, error));
    if (taken.infer_records < 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "the number of records to infer from must be 0 (all) or more, found %lld",
                          (long long)taken.infer_records);
    }
    tfos_status status = want(&taken, &wanted, error);
    status = status == TFOS_OK ? survey_files(survey, paths, &taken, wanted, most_bytes, error) : status;
    tfos_schema_free(wanted);
    return status;
}

tfos_status tfos_survey_add_files(tfos_survey *survey, const tfos_paths *paths, const tfos_read_options *options,
                                  tfos_error *error)
{
    return add_files(survey, paths, options, INT64_MAX, error);
}

tfos_status tfos_survey_add(tfos_survey *survey, const char *exported, size_t bytes, tfos_error *error)
{
    return tfos__findings_import(&survey->all, exported, bytes, error);
}

tfos_status tfos_survey_export(const tfos_survey *survey, char **out, tfos_error *error)
{
    return tfos__findings_export(&survey->all, out, error);
}

int64_t tfos_survey_records(const tfos_survey *survey)
{
    return survey->all.records;
}

tfos_status tfos_survey_schema(const tfos_survey *survey, const char *place, tfos_schema **out, tfos_error *error)
{
    if (survey->record == TFOS_RECORD_BYTES) {
        return tfos_schema_new(TFOS_RECORD_BYTES, out, error);
    }
    return tfos__findings_schema(&survey->all, place, survey->record, out, error);
}

tfos_status tfos__schema_infer_columns(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                                       tfos_error *error)
{
    tfos_survey *survey;
    tfos__buffer place = {0};
    TFOS_TRY(tfos_survey_new(options->record, &survey, error));
    tfos_status status = tfos_survey_add_files(survey, paths, options, error);
    if (status == TFOS_OK) {
        status =
            tfos__buffer_printf(&place, error, "%s%s", paths->path[0], paths->count > 1 ? " and the other files" : "");
    }
    if (status == TFOS_OK) {
        status = tfos_survey_schema(survey, (const char *)place.data, out, error);
    }
    tfos__buffer_reset(&place);
    tfos_survey_free(survey);
    return status;
}

static bool all_kinds_known(const tfos__findings *findings)
{
    for (size_t i = 0; i < tfos_schema_field_count(findings->names); i++) {
        if (findings->of[i].all.most < 0) {
            return false;
        }
    }
    return true;
}

tfos_status tfos__schema_guess(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                               tfos_error *error)
{
    enum { GUESS_RECORDS = 1000, GUESS_BYTES = 4 << 20 };
    tfos_read_options sample = *options;
    tfos_survey *survey;
    sample.infer_records = GUESS_RECORDS;
    TFOS_TRY(tfos_survey_new(options->record, &survey, error));
    tfos_status status = add_files(survey, paths, &sample, GUESS_BYTES, error);
    survey->all.sampled = false;
    if (status == TFOS_OK && !all_kinds_known(&survey->all)) {
        status = tfos__fail(error, TFOS_NOT_FOUND, "the kind of a feature does not show");
    }
    status = status == TFOS_OK ? tfos_survey_schema(survey, paths->path[0], out, error) : status;
    tfos_survey_free(survey);
    return status;
}

tfos_status tfos_schema_infer(const tfos_paths *paths, const tfos_read_options *options, tfos_schema **out,
                              tfos_error *error)
{
    tfos_read_options taken;
    TFOS_TRY(tfos__read_options_take(options, &taken, error));
    if (taken.record == TFOS_RECORD_BYTES && taken.infer_records >= 0) {
        return tfos_schema_new(TFOS_RECORD_BYTES, out, error);
    }
    taken.columns = NULL; /* whoever asks for the schema wants to know all of it */
    return tfos__schema_infer_columns(paths, &taken, out, error);
}
