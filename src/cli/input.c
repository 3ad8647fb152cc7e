/* What the commands on records have in common: their options, schemas and columns. */
#include <stdlib.h>

#include "base/status.h"
#include "cli/cli.h"
#include "fs/fs.h"

enum { MAX_SCHEMA_BYTES = 64 << 20 };

void tfos__cli_read_options(const tfos__cli_common *common, tfos_read_options *out)
{
    tfos_read_options_init(out, sizeof *out);
    out->threads = common->threads == 0 ? -1 : (int32_t)common->threads;
    out->codec = (tfos_codec)common->codec;
    out->on_corrupt = (tfos_on_corrupt)common->on_corrupt;
    out->record = (tfos_record_kind)common->record;
}

int tfos__cli_run_on_paths(const tfos__cli_command *command, int argc, char **argv, void *options,
                           tfos__cli_paths_function work)
{
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(command, argc, argv, options, &inputs, &code)) {
        return code;
    }
    tfos_paths *paths;
    tfos_error error;
    if (tfos_paths_expand(inputs.text, inputs.count, &paths, &error) == TFOS_OK) {
        code = work(options, paths);
        tfos_paths_free(paths);
    } else {
        code = tfos__cli_fail(&error);
    }
    free(inputs.text);
    return code;
}

tfos_status tfos__cli_read_schema(const char *path, tfos_schema **out, tfos_error *error)
{
    tfos__buffer text = {0};
    tfos_status status = tfos__file_slurp(NULL, path, MAX_SCHEMA_BYTES, &text, error);
    if (status == TFOS_OK) {
        status = tfos_schema_from_json(text.size > 0 ? (const char *)text.data : "", text.size, out, error);
        if (status != TFOS_OK) {
            tfos__error_prefix(error, "%s", path);
        }
    }
    tfos__buffer_reset(&text);
    return status;
}

int tfos__cli_load_schema(const char *path, tfos_schema **out)
{
    tfos_error error;
    return tfos__cli_read_schema(path, out, &error) == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

int tfos__cli_choose_columns(const tfos__cli_common *common, const tfos_schema *schema, tfos_schema **chosen)
{
    tfos_error error;
    size_t count = common->columns.count;
    const char *const *names = common->columns.text;
    const char **all = NULL;
    if (count == 0) {
        count = tfos_schema_field_count(schema);
        all = calloc(count + 1, sizeof *all);
        for (size_t i = 0; all != NULL && i < count; i++) {
            all[i] = tfos_schema_field(schema, i)->name;
        }
        names = all;
    }
    tfos_status status = names == NULL ? tfos__fail_memory(&error, count * sizeof *all)
                                       : tfos_schema_select(schema, names, count, chosen, &error);
    free(all);
    if (status == TFOS_INVALID) {
        return tfos__cli_fail_usage("--columns: %s", error.message);
    }
    return status == TFOS_OK ? CLI_OK : tfos__cli_fail(&error);
}

int tfos__cli_find_schema(const tfos__cli_common *common, const tfos_paths *paths, int64_t infer_records, bool reads_on,
                          tfos_schema **out, tfos_schema **chosen)
{
    tfos_schema *schema = NULL;
    int code = CLI_OK;
    if (common->schema != NULL) {
        code = tfos__cli_load_schema(common->schema, &schema);
    } else {
        tfos_read_options options;
        tfos_error error;
        tfos__cli_read_options(common, &options);
        options.infer_records = infer_records;
        /* Records of bytes have one schema, for which nothing is read. */
        bool reads_twice = reads_on && options.record != TFOS_RECORD_BYTES;
        tfos_status status = reads_twice ? tfos__paths_check_twice(paths, &error) : TFOS_OK;
        if (status == TFOS_OK) {
            status = tfos_schema_infer(paths, &options, &schema, &error);
        }
        if (status != TFOS_OK) {
            code = tfos__cli_fail(&error);
        }
    }
    if (code == CLI_OK) {
        code = tfos__cli_choose_columns(common, schema, chosen);
    }
    if (code != CLI_OK) {
        tfos_schema_free(schema);
        return code;
    }
    *out = schema;
    return CLI_OK;
}

void tfos__cli_report_skipped(const tfos_progress *progress)
{
    if (progress->skipped_bytes > 0 || progress->skipped_records > 0) {
        tfos__cli_note("skipped at least %s damaged records in %s; `tfos records verify` names them",
                       tfos__cli_show_count(progress->skipped_records).text,
                       tfos__cli_show_bytes((double)progress->skipped_bytes).text);
    }
}
