/* tfos records verify: reads every byte, names every damaged place. */
#include "base/status.h"
#include "cli/cli.h"
#include "record/json_lines.h"

typedef struct verify_options {
    tfos__cli_common common;
    bool parse;
} verify_options;

typedef struct verification {
    bool json;
    int64_t places;
    int64_t bytes;
    tfos__buffer text; /* of the damage, as JSON */
    tfos_status status;
    tfos_error error;
} verification;

/* The object is collected and printed as a whole: a file that cannot be read leaves no half of one behind. */
static tfos_status add_json(tfos__buffer *json, const tfos_damage *damage, bool first, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_printf(json, error, "%s\n  {\"path\": ", first ? "" : ","));
    TFOS_TRY(tfos__json_write_string(damage->path, strlen(damage->path), json, error));
    TFOS_TRY(tfos__buffer_printf(
        json, error, ", \"offset\": %lld, \"record\": %lld, \"bytes\": %lld, \"status\": \"%s\", \"message\": ",
        (long long)damage->offset, (long long)damage->record, (long long)damage->bytes,
        tfos_status_name(damage->status)));
    TFOS_TRY(tfos__json_write_string(damage->message, strlen(damage->message), json, error));
    return tfos__buffer_printf(json, error, "}");
}

static void take_damage(const tfos_damage *damage, void *context)
{
    verification *self = context;
    if (self->json && self->status == TFOS_OK) {
        self->status = add_json(&self->text, damage, self->places == 0, &self->error);
    } else if (!self->json) {
        tfos__cli_progress_hold();
        tfos__cli_print("%s: offset %lld (record %lld): %s: %s\n", damage->path, (long long)damage->offset,
                        (long long)damage->record, tfos_status_name(damage->status), damage->message);
        fflush(stdout);
        tfos__cli_progress_release();
    }
    self->places++;
    self->bytes += damage->bytes;
}

static void ask(void *context, tfos_progress *out)
{
    const tfos_progress *now = context; /* another thread writes it meanwhile */
    out->total_bytes = __atomic_load_n(&now->total_bytes, __ATOMIC_RELAXED);
    out->done_bytes = __atomic_load_n(&now->done_bytes, __ATOMIC_RELAXED);
    out->records = __atomic_load_n(&now->records, __ATOMIC_RELAXED);
}

static void print_summary(const verification *self, const tfos_paths *paths, const tfos_progress *progress)
{
    if (self->json) {
        tfos__cli_print("{\"damage\": [");
        tfos__cli_write(self->text.data, self->text.size);
        tfos__cli_print("%s],\n \"files\": %zu, \"records\": %lld, \"bytes\": %lld, \"damaged_places\": %lld, "
                        "\"damaged_bytes\": %lld}\n",
                        self->places > 0 ? "\n " : "", paths->count, (long long)progress->records,
                        (long long)paths->total_bytes, (long long)self->places, (long long)self->bytes);
        return;
    }
    tfos__cli_print("%zu file%s, %s records, %s: ", paths->count, paths->count == 1 ? "" : "s",
                    tfos__cli_show_count(progress->records).text,
                    tfos__cli_show_bytes((double)paths->total_bytes).text);
    if (self->places == 0) {
        tfos__cli_print("no damage\n");
    } else {
        tfos__cli_print("%s damaged place%s, %s cannot be read\n", tfos__cli_show_count(self->places).text,
                        self->places == 1 ? "" : "s", tfos__cli_show_bytes((double)self->bytes).text);
    }
}

static int verify(const void *context, const tfos_paths *paths)
{
    const verify_options *options = context;
    tfos_read_options read;
    tfos_progress progress = {0};
    tfos_error error;
    verification self = {.json = options->common.json};
    tfos__cli_read_options(&options->common, &read);
    tfos__cli_progress_start("verifying", ask, &progress, options->common.quiet);
    tfos_status status = tfos_records_verify(paths, &read, options->parse, take_damage, &self, &progress, &error);
    tfos__cli_progress_stop();
    int code = self.places == 0 ? CLI_OK : CLI_BAD_DATA;
    if (status != TFOS_OK || self.status != TFOS_OK) {
        code = tfos__cli_fail(status != TFOS_OK ? &error : &self.error);
    } else if (self.json || !options->common.quiet) {
        print_summary(&self, paths, &progress);
    }
    tfos__buffer_reset(&self.text);
    return code;
}

static int run(int argc, char **argv)
{
    verify_options options = {0};
    return tfos__cli_run_on_paths(&tfos__cli_records_verify, argc, argv, &options, verify);
}

static const tfos__cli_option table[] = {
    {.name = "parse",
     .kind = CLI_FLAG,
     .offset = offsetof(verify_options, parse),
     .help = "also check that every record is a tf.train.Example or SequenceExample"},
    CLI_OPTION_JSON(verify_options, "one JSON object instead of lines"),
    CLI_OPTION_RECORD(verify_options),
    CLI_OPTION_CODEC(verify_options, "compression of the files: auto (default), none, gzip or zlib"),
    CLI_OPTION_THREADS(verify_options),
    {.name = "quiet",
     .letter = 'q',
     .kind = CLI_FLAG,
     .offset = offsetof(verify_options, common.quiet),
     .help = "no progress bar and no summary: nothing is printed unless there is damage"},
};

const tfos__cli_command tfos__cli_records_verify = {
    .name = "records verify",
    .summary = "check every checksum and name every damaged place",
    .synopsis = "tfos records verify [OPTIONS] INPUT…",
    .details = "Each damaged place is one line on stdout:\n"
               "  FILE: offset BYTES (record NUMBER): CORRUPT|TRUNCATED: what is wrong\n"
               "The exit code is 1 if there is any.\n\n"
               "Examples:\n"
               "  tfos records verify data/\n"
               "  tfos records verify --parse --json data/ | jq .damage\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .least_inputs = 1,
    .missing_input = "expected a file, a folder or a glob to verify",
    .run = run,
};
