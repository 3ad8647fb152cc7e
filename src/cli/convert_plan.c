/* What the options of a conversion come to: formats, and how CSV is read and written. */
#include <errno.h>
#include <stdlib.h>

#include "cli/convert.h"

enum { BATCH_ROWS = 1024 };

const char *const tfos__convert_format_names[] = {"auto", "tfrecord", "csv", "jsonl", NULL};

/* ---- formats ---- */

static bool ends_with(const char *name, size_t length, const char *ending)
{
    size_t bytes = strlen(ending);
    return length >= bytes && strncmp(name + length - bytes, ending, bytes) == 0;
}

/* Of a path, without the ending that tells its compression. */
static size_t plain_length(const char *path)
{
    static const char *const compressed[] = {".gz", ".zlib", ".zz", ".deflate"};
    size_t length = strlen(path);
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++) {
        if (ends_with(path, length, compressed[i])) {
            return length - strlen(compressed[i]);
        }
    }
    return length;
}

char tfos__convert_delimiter_of(const char *path)
{
    return ends_with(path, plain_length(path), ".tsv") ? '\t' : ',';
}

tfos__convert_format tfos__convert_format_of(const char *path, tfos__convert_format otherwise)
{
    static const struct {
        const char *ending;
        tfos__convert_format format;
    } endings[] = {
        {".csv", CONVERT_CSV},
        {".tsv", CONVERT_CSV},
        {".jsonl", CONVERT_JSONL},
        {".ndjson", CONVERT_JSONL},
        {".json", CONVERT_JSONL},
        {".tfrecord", CONVERT_TFRECORD},
        {".tfrecords", CONVERT_TFRECORD},
    };
    size_t length = plain_length(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        if (ends_with(path, length, endings[i].ending)) {
            return endings[i].format;
        }
    }
    return otherwise;
}

const char *tfos__convert_format_ending(tfos__convert_format format)
{
    return format == CONVERT_CSV ? ".csv" : format == CONVERT_JSONL ? ".jsonl" : ".tfrecord";
}

static int check_same_format(const tfos_paths *paths, tfos__convert_format format)
{
    for (size_t i = 0; i < paths->count; i++) {
        if (tfos__convert_format_of(paths->path[i], format) != format) {
            return tfos__cli_fail_usage(
                "the inputs have different formats: %s is %s, %s is not; convert them one format at a "
                "time, or say --from",
                paths->path[0], tfos__convert_format_ending(format) + 1, paths->path[i]);
        }
    }
    return CLI_OK;
}

/* ---- options of CSV ---- */

bool tfos__convert_delimiter_parse(const char *text, char *out)
{
    static const struct {
        const char *name;
        char delimiter;
    } names[] = {{"tab", '\t'}, {"\\t", '\t'}, {"comma", ','}, {"semicolon", ';'}, {"pipe", '|'}, {"space", ' '}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(text, names[i].name) == 0) {
            *out = names[i].delimiter;
            return true;
        }
    }
    *out = text[0];
    return strlen(text) == 1;
}

static bool parse_label(const char *text, tfos__csv_options *csv)
{
    size_t side = strcspn(text, "=");
    if (side == 5 && strncmp(text, "first", 5) == 0) {
        csv->label = TFOS__CSV_LABEL_FIRST;
    } else if (side == 4 && strncmp(text, "last", 4) == 0) {
        csv->label = TFOS__CSV_LABEL_LAST;
    } else {
        return false;
    }
    csv->label_name = text[side] == '=' ? text + side + 1 : "label";
    return csv->label_name[0] != '\0';
}

static bool parse_position(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoll(text, &end, 10);
    return end > text && *end == '\0' && errno == 0;
}

/* "image=1:785" or "image=pixel_0:pixel_783". The caller frees the name, with which the others go. */
static bool parse_fold(const char *text, tfos__csv_fold *out)
{
    const char *equals = strchr(text, '=');
    const char *colon = equals != NULL ? strchr(equals, ':') : NULL;
    bool complete = colon != NULL && equals > text && colon > equals + 1 && colon[1] != '\0';
    if (!complete || strchr(colon + 1, ':') != NULL) {
        return false;
    }
    char *name = strdup(text);
    if (name == NULL) {
        return false;
    }
    name[equals - text] = '\0';
    name[colon - text] = '\0';
    const char *first = name + (equals - text) + 1;
    const char *last = name + (colon - text) + 1;
    *out = (tfos__csv_fold){.name = name};
    if (!parse_position(first, &out->start) || !parse_position(last, &out->end)) {
        out->first = first;
        out->last = last;
    }
    return true;
}

static int read_csv_options(const tfos__convert_options *options, tfos__csv_fold *folds, tfos__csv_options *csv)
{
    tfos_error error;
    tfos__csv_options_init(csv);
    csv->header = options->header;
    csv->batch_rows = options->batch_rows > 0 ? options->batch_rows : BATCH_ROWS;
    if (options->delimiter != NULL && !tfos__convert_delimiter_parse(options->delimiter, &csv->delimiter)) {
        return tfos__cli_fail_usage(
            "--delimiter: expected one character, tab, comma, semicolon, pipe or space, found '%s'",
            options->delimiter);
    }
    if (options->label != NULL && !parse_label(options->label, csv)) {
        return tfos__cli_fail_usage("--label: expected first, last, first=NAME or last=NAME, found '%s'",
                                    options->label);
    }
    for (size_t i = 0; i < options->folds.count; i++) {
        if (!parse_fold(options->folds.text[i], &folds[i])) {
            return tfos__cli_fail_usage("--fold: expected NAME=START:END, as in image=1:785, or NAME=FIRST:LAST, as in "
                                        "image=pixel_0:pixel_783, found '%s'",
                                        options->folds.text[i]);
        }
        csv->fold_count = i + 1;
    }
    csv->folds = folds;
    return tfos__csv_options_check(csv, &error) == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

/* ---- the plan ---- */

static int check_options(const tfos__convert_options *options, const tfos__convert_plan *plan, const char *first)
{
    bool csv = plan->from == CONVERT_CSV || plan->to == CONVERT_CSV;
    const char *found = tfos__convert_format_names[plan->from + 1];
    if (plan->from != CONVERT_CSV && (options->folds.count > 0 || options->label != NULL)) {
        return tfos__cli_fail_usage("--fold and --label are for CSV input, but %s is read as %s", first, found);
    }
    if (!csv && (options->delimiter != NULL || !options->header)) {
        return tfos__cli_fail_usage("--delimiter and --no-header are for CSV, but neither input nor output is");
    }
    if (plan->from != CONVERT_TFRECORD && (options->common.on_corrupt != 0 || options->common.record != 0)) {
        return tfos__cli_fail_usage("--on-corrupt and --record are for TFRecord input, but %s is read as %s", first,
                                    found);
    }
    return CLI_OK;
}

int tfos__convert_plan_make(const tfos__convert_options *options, const tfos_paths *paths, const char *first,
                            const char *output, tfos__convert_plan *plan)
{
    int code = CLI_OK;
    if (options->from != 0) {
        plan->from = (tfos__convert_format)(options->from - 1);
    } else {
        plan->from = tfos__convert_format_of(paths->path[0], CONVERT_TFRECORD);
        code = check_same_format(paths, plan->from);
    }
    plan->to =
        options->to != 0 ? (tfos__convert_format)(options->to - 1) : tfos__convert_format_of(output, CONVERT_TFRECORD);
    code = code == CLI_OK ? check_options(options, plan, first) : code;
    code = code == CLI_OK ? read_csv_options(options, plan->folds, &plan->csv) : code;
    plan->delimiter = plan->csv.delimiter;
    if (options->delimiter == NULL) {
        plan->csv.delimiter = tfos__convert_delimiter_of(paths->path[0]);
        plan->delimiter = tfos__convert_delimiter_of(output);
    }
    return code;
}

void tfos__convert_plan_reset(tfos__convert_plan *plan)
{
    for (size_t i = 0; i < plan->csv.fold_count; i++) {
        free((char *)(uintptr_t)plan->folds[i].name);
    }
    plan->csv.fold_count = 0;
}
