/* tfos records schema: the columns of the data. */
#include <stdlib.h>

#include "cli/cli.h"
#include "column/schema.h"

typedef struct schema_options {
    tfos__cli_common common;
    int64_t sample;
} schema_options;

static int print_json(const tfos_schema *schema)
{
    char *text;
    tfos_error error;
    if (tfos_schema_to_json(schema, &text, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    tfos__cli_print("%s\n", text);
    tfos_string_free(text);
    return CLI_OK;
}

static int print_table(const tfos_schema *schema)
{
    tfos__cli_table *table = tfos__cli_table_new(3, "lll");
    if (table == NULL) {
        return CLI_SYSTEM;
    }
    tfos__cli_table_add(table, "column");
    tfos__cli_table_add(table, "type");
    tfos__cli_table_add(table, "");
    for (size_t i = 0; i < tfos_schema_field_count(schema); i++) {
        const tfos_field *field = tfos_schema_field(schema, i);
        char type[64];
        tfos__field_describe(field, type, sizeof type);
        tfos__cli_table_add(table, field->name);
        tfos__cli_table_add(table, type);
        tfos__cli_table_add(table, field->nullable ? "nullable" : "");
    }
    tfos__cli_table_print(table);
    tfos__cli_table_free(table);
    tfos__cli_print("\nrecord: %s, %zu columns\n", tfos_record_kind_name(tfos_schema_kind(schema)),
                    tfos_schema_field_count(schema));
    return CLI_OK;
}

static int show(const void *context, const tfos_paths *paths)
{
    const schema_options *options = context;
    tfos_schema *schema;
    tfos_schema *chosen;
    int code = tfos__cli_find_schema(&options->common, paths, options->sample, false, &schema, &chosen);
    if (code == CLI_OK) {
        code = options->common.json ? print_json(chosen) : print_table(chosen);
        tfos_schema_free(schema);
        tfos_schema_free(chosen);
    }
    return code;
}

static int run(int argc, char **argv)
{
    schema_options options = {0};
    return tfos__cli_run_on_paths(&tfos__cli_records_schema, argc, argv, &options, show);
}

static const tfos__cli_option table[] = {
    {.name = "sample",
     .value = "N",
     .kind = CLI_INTEGER,
     .offset = offsetof(schema_options, sample),
     .least = 0,
     .most = INT64_MAX,
     .help = "look at the first N records only; every column is then nullable (default 0: at all)"},
    CLI_OPTION_COLUMNS(schema_options),
    CLI_OPTION_JSON(schema_options, "the JSON form, which --schema of other commands reads"),
    CLI_OPTION_RECORD(schema_options),
    CLI_OPTION_CODEC(schema_options, "compression of the files: auto (default), none, gzip or zlib"),
    CLI_OPTION_ON_CORRUPT(schema_options),
    CLI_OPTION_THREADS(schema_options),
};

const tfos__cli_command tfos__cli_records_schema = {
    .name = "records schema",
    .summary = "show the columns: names, types, shapes, whether values are missing",
    .synopsis = "tfos records schema [OPTIONS] INPUT…",
    .details = "A type is float (one value), float[784] (a list of 784), float[] (a list of any length) or, in a\n"
               "sequence_example, \"list of float[]\".\n\n"
               "Examples:\n"
               "  tfos records schema data/\n"
               "  tfos records schema --sample 1000 --json data/ > schema.json\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob",
    .run = run,
};
