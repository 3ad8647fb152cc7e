/* A table: texts of a data source's options become options of readers and writers. */
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/json.h"
#include "base/status.h"
#include "record/codec.h"

enum { MAX_OPTIONS_BYTES = 16 << 20, MAX_OPTIONS_DEPTH = 8 };

struct tfos_table {
    tfos_record_kind record;
    tfos_codec codec;
    tfos_on_corrupt on_corrupt;
    int64_t infer_records; /* 0: all */
    bool index;
};

/* A word, and the number that it stands for. */
typedef struct word {
    const char *text;
    int number;
} word;

static const word records[] = {{"Example", TFOS_RECORD_EXAMPLE},
                               {"SequenceExample", TFOS_RECORD_SEQUENCE},
                               {"ByteArray", TFOS_RECORD_BYTES},
                               {NULL, 0}};

/* The first of several words for a codec is the one that is told to people. */
static const word codecs[] = {{"none", TFOS_CODEC_NONE},
                              {"gzip", TFOS_CODEC_GZIP},
                              {"zlib", TFOS_CODEC_ZLIB},
                              {NULL, 0},
                              {"uncompressed", TFOS_CODEC_NONE},
                              {"deflate", TFOS_CODEC_ZLIB},
                              {"org.apache.hadoop.io.compress.GzipCodec", TFOS_CODEC_GZIP},
                              {"org.apache.hadoop.io.compress.DefaultCodec", TFOS_CODEC_ZLIB},
                              {"org.apache.hadoop.io.compress.DeflateCodec", TFOS_CODEC_ZLIB},
                              {NULL, 0}};

static const word corruptions[] = {{"fail", TFOS_ON_CORRUPT_ERROR},
                                   {"skip", TFOS_ON_CORRUPT_SKIP},
                                   {NULL, 0},
                                   {"error", TFOS_ON_CORRUPT_ERROR},
                                   {NULL, 0}};

static const word switches[] = {{"true", true}, {"false", false}, {NULL, 0}};

static bool find_word(const word *words, const char *text, int *out)
{
    for (; words->text != NULL; words++) {
        if (strcasecmp(words->text, text) == 0) {
            *out = words->number;
            return true;
        }
    }
    return false;
}

static tfos_status fail_option(const char *name, const char *value, const word *words, tfos_error *error)
{
    char known[128] = "";
    for (const word *each = words; each->text != NULL; each++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s",
                 each == words              ? ""
                 : (each + 1)->text == NULL ? " or "
                                            : ", ",
                 each->text);
    }
    return tfos__fail(error, TFOS_INVALID, "option %s: expected %s, found '%s'", name, known,
                      tfos__printable_text(value).text);
}

/* `others` are words that are taken, too, and not told. */
static tfos_status parse_word(const char *name, const char *value, const word *words, const word *others, int *out,
                              tfos_error *error)
{
    if (find_word(words, value, out) || (others != NULL && find_word(others, value, out))) {
        return TFOS_OK;
    }
    return fail_option(name, value, words, error);
}

static tfos_status parse_sample(const char *value, int64_t *out, tfos_error *error)
{
    int64_t records_wanted = 0;
    if (strcasecmp(value, "all") != 0 &&
        (tfos_number_parse(value, &records_wanted, NULL) != TFOS_OK || records_wanted < 0)) {
        return tfos__fail(error, TFOS_INVALID, "option inferSample: expected a number of records, or all; found '%s'",
                          tfos__printable_text(value).text);
    }
    *out = records_wanted;
    return TFOS_OK;
}

static tfos_status parse_option(tfos_table *table, const char *name, const char *value, tfos_error *error)
{
    int number = 0;
    if (strcasecmp(name, "recordType") == 0) {
        TFOS_TRY(parse_word("recordType", value, records, NULL, &number, error));
        table->record = (tfos_record_kind)number;
    } else if (strcasecmp(name, "codec") == 0 || strcasecmp(name, "compression") == 0) {
        /* Empty is what the other connectors call none. */
        const char *codec = value[0] == '\0' ? "none" : value;
        TFOS_TRY(parse_word(name, codec, codecs, codecs + 4, &number, error));
        table->codec = (tfos_codec)number;
    } else if (strcasecmp(name, "onCorrupt") == 0) {
        TFOS_TRY(parse_word("onCorrupt", value, corruptions, corruptions + 3, &number, error));
        table->on_corrupt = (tfos_on_corrupt)number;
    } else if (strcasecmp(name, "inferSample") == 0) {
        TFOS_TRY(parse_sample(value, &table->infer_records, error));
    } else if (strcasecmp(name, "index") == 0) {
        TFOS_TRY(parse_word("index", value, switches, NULL, &number, error));
        table->index = number != 0;
    }
    return TFOS_OK;
}

static tfos_status parse_options(tfos_table *table, json_object *options, tfos_error *error)
{
    json_object_object_foreach(options, name, value)
    {
        if (!json_object_is_type(value, json_type_string)) {
            return tfos__fail(error, TFOS_INVALID, "option %s: expected a text", name);
        }
        TFOS_TRY(parse_option(table, name, json_object_get_string(value), error));
    }
    if (table->index && table->codec > TFOS_CODEC_NONE) {
        return tfos__fail(error, TFOS_INVALID,
                          "options index and codec: files that are compressed (%s) cannot be indexed: ask for one of "
                          "the two",
                          tfos_codec_name(table->codec));
    }
    return TFOS_OK;
}

tfos_status tfos_table_new(const char *options, size_t bytes, tfos_table **out, tfos_error *error)
{
    json_object *root;
    tfos__json_fault fault = {0};
    if (bytes > MAX_OPTIONS_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "options have at most %d bytes, found %zu", MAX_OPTIONS_BYTES, bytes);
    }
    tfos_status status = tfos__json_object_parse(options, bytes, MAX_OPTIONS_DEPTH, &root, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, status, "options must be a JSON object of texts: %s, at byte %zu", fault.what,
                          fault.at);
    }
    TFOS_TRY(status);
    tfos_table *table = calloc(1, sizeof *table);
    if (table == NULL) {
        json_object_put(root);
        return tfos__fail_memory(error, sizeof *table);
    }
    table->record = TFOS_RECORD_EXAMPLE;
    table->codec = TFOS_CODEC_AUTO;
    status = parse_options(table, root, error);
    json_object_put(root);
    if (status != TFOS_OK) {
        free(table);
        return status;
    }
    *out = table;
    return TFOS_OK;
}

void tfos_table_free(tfos_table *table)
{
    free(table);
}

tfos_record_kind tfos_table_record(const tfos_table *table)
{
    return table->record;
}

/* Hadoop's name for zlib's ending: its readers choose the codec by it. */
const char *tfos_table_ending(const tfos_table *table)
{
    return table->codec == TFOS_CODEC_GZIP   ? ".tfrecord.gz"
           : table->codec == TFOS_CODEC_ZLIB ? ".tfrecord.deflate"
                                             : ".tfrecord";
}

bool tfos_table_splits(const tfos_table *table, const char *path)
{
    return table->codec <= TFOS_CODEC_NONE && tfos__codec_of_name(path) == TFOS_CODEC_NONE;
}

bool tfos_table_holds(const char *path)
{
    return !tfos__path_is_index(path);
}

bool tfos_table_skips(const tfos_table *table)
{
    return table->on_corrupt == TFOS_ON_CORRUPT_SKIP;
}

int64_t tfos_table_sample(const tfos_table *table)
{
    return table->record == TFOS_RECORD_BYTES ? 1 : table->infer_records; /* what these are is known */
}

/* ---- reading ---- */

/* A list of one file. Nobody writes to the path. */
typedef struct one_file {
    char *path;
    int64_t bytes;
    tfos_paths paths;
} one_file;

static const tfos_paths *list_one(const tfos_file_part *part, one_file *list)
{
    list->path = (char *)(uintptr_t)part->path;
    list->bytes = part->bytes;
    list->paths = (tfos_paths){.count = 1, .path = &list->path, .bytes = &list->bytes, .total_bytes = part->bytes};
    return &list->paths;
}

/* In the calling thread: a task of Spark's has one core. */
static void set_options(const tfos_table *table, const tfos_file_part *part, const tfos_file_system *files,
                        bool (*interrupted)(void *context), void *context, tfos_read_options *out)
{
    tfos_read_options_init(out, sizeof *out);
    out->record = table->record;
    out->codec = table->codec;
    out->on_corrupt = table->on_corrupt;
    out->threads = 0;
    out->range_start = part->start;
    out->range_end = part->end;
    out->files = files;
    out->interrupted = interrupted;
    out->interrupted_context = context;
}

tfos_status tfos_table_read(const tfos_table *table, const tfos_file_part *part, const char *schema,
                            size_t schema_bytes, const tfos_file_system *files, bool (*interrupted)(void *context),
                            void *context, tfos_reader **out, tfos_error *error)
{
    one_file list;
    tfos_schema *columns = NULL;
    tfos_read_options options;
    TFOS_TRY(tfos_schema_from_spark(schema, schema_bytes, table->record, &columns, error));
    set_options(table, part, files, interrupted, context, &options);
    options.schema = columns;
    tfos_status status = tfos_reader_open(list_one(part, &list), &options, out, error);
    tfos_schema_free(columns);
    return status;
}

tfos_status tfos_table_survey(const tfos_table *table, const tfos_file_part *parts, size_t count,
                              const tfos_file_system *files, bool (*interrupted)(void *context), void *context,
                              char **out, tfos_error *error)
{
    tfos_survey *survey;
    TFOS_TRY(tfos_survey_new(table->record, &survey, error));
    tfos_status status = TFOS_OK;
    count = table->record == TFOS_RECORD_BYTES ? 0 : count;
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        one_file list;
        tfos_read_options options;
        set_options(table, &parts[i], files, interrupted, context, &options);
        if (table->infer_records > 0) {
            options.infer_records = table->infer_records - tfos_survey_records(survey);
            if (options.infer_records <= 0) {
                break;
            }
        }
        status = tfos_survey_add_files(survey, list_one(&parts[i], &list), &options, error);
    }
    status = status == TFOS_OK ? tfos_survey_export(survey, out, error) : status;
    tfos_survey_free(survey);
    return status;
}

tfos_status tfos_table_schema(const tfos_table *table, const char *const *surveys, size_t count, char **out,
                              tfos_error *error)
{
    static const char bytes[] = "{\"type\":\"struct\",\"fields\":[{\"name\":\"byteArray\",\"type\":\"binary\","
                                "\"nullable\":true,\"metadata\":{}}]}";
    tfos_survey *survey;
    tfos_schema *schema = NULL;
    if (table->record == TFOS_RECORD_BYTES) {
        char *copy = strdup(bytes);
        *out = copy != NULL ? copy : *out;
        return copy != NULL ? TFOS_OK : tfos__fail_memory(error, sizeof bytes);
    }
    TFOS_TRY(tfos_survey_new(table->record, &survey, error));
    tfos_status status = TFOS_OK;
    for (size_t i = 0; i < count && status == TFOS_OK; i++) {
        status = tfos_survey_add(survey, surveys[i], strlen(surveys[i]), error);
    }
    status = status == TFOS_OK ? tfos_survey_schema(survey, "the files of the table", &schema, error) : status;
    status = status == TFOS_OK ? tfos_schema_to_spark(schema, out, error) : status;
    tfos_schema_free(schema);
    tfos_survey_free(survey);
    return status;
}

/* ---- writing ---- */

tfos_status tfos_table_write(const tfos_table *table, const char *path, const tfos_file_system *files,
                             tfos_writer **out, tfos_error *error)
{
    tfos_write_options options;
    tfos_write_options_init(&options, sizeof options);
    options.record = table->record;
    options.codec = table->codec == TFOS_CODEC_AUTO ? TFOS_CODEC_NONE : table->codec;
    options.overwrite = true; /* an attempt that failed may have left something behind */
    options.files = files;
    options.index = table->index;
    return tfos_writer_open(path, &options, out, error);
}
