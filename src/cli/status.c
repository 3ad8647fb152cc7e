/* tfos status: the status page of a cluster, in a terminal. */
#include <json-c/json.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/cli.h"

enum { WATCH_MS = 2000 };

typedef struct status_options {
    bool json;
    bool watch;
    bool logs;
} status_options;

static const char *text_of(struct json_object *object, const char *key)
{
    struct json_object *found = json_object_object_get(object, key);
    return json_object_is_type(found, json_type_string) ? json_object_get_string(found) : "";
}

static double number_of(struct json_object *object, const char *key)
{
    return json_object_get_double(json_object_object_get(object, key));
}

/* ---- texts ---- */

/* "2 h 5 m" */
static tfos__cli_text show_duration(double seconds)
{
    tfos__cli_text out;
    long long whole = (long long)seconds;
    if (whole < 60) {
        snprintf(out.text, sizeof out.text, "%lld s", whole);
    } else if (whole < 3600) {
        snprintf(out.text, sizeof out.text, "%lld m %lld s", whole / 60, whole % 60);
    } else if (whole < 86400) {
        snprintf(out.text, sizeof out.text, "%lld h %lld m", whole / 3600, whole / 60 % 60);
    } else {
        snprintf(out.text, sizeof out.text, "%lld d %lld h", whole / 86400, whole / 3600 % 24);
    }
    return out;
}

/* Length of the escape sequence at `at` with which programs colour their lines; 0 when there is none. */
static size_t escape_bytes(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\033' || at[1] != '[') {
        return 0;
    }
    const char *last = at + 2;
    while (last < end && (*last < '@' || *last > '~')) {
        last++;
    }
    return last < end ? (size_t)(last - at) + 1 : 0;
}

/* Prints a line of a text from outside: colours are left out, and what else a terminal would obey is shown. */
static void print_line(const char *at, const char *end)
{
    tfos__buffer line = {0};
    while (at < end) {
        const char *from = at;
        while (at < end && *at != '\033' && *at != '\t' && *at != '\\') {
            at++;
        }
        tfos__cli_show_text(from, (size_t)(at - from), &line);
        size_t escape = escape_bytes(at, end);
        if (at < end && escape == 0) {
            if (*at == '\033') {
                tfos__cli_show_text(at, 1, &line);
            } else {
                (void)tfos__buffer_append(&line, *at == '\t' ? "    " : "\\", *at == '\t' ? 4 : 1, NULL);
            }
            escape = 1;
        }
        at += escape;
    }
    tfos__cli_print("  ");
    tfos__cli_write(line.data != NULL ? (const char *)line.data : "", line.size);
    tfos__cli_print("\n");
    tfos__buffer_reset(&line);
}

static void print_lines(const char *text)
{
    while (*text != '\0') {
        const char *end = strchrnul(text, '\n');
        print_line(text, end > text && end[-1] == '\r' ? end - 1 : end);
        text = *end == '\n' ? end + 1 : end;
    }
}

/* A text from outside inside a line of ours. */
static void print_inline(const char *before, const char *text)
{
    tfos__buffer shown = {0};
    tfos__cli_show_text(text, strlen(text), &shown);
    tfos__cli_print("%s%.*s", before, (int)shown.size, shown.size > 0 ? (const char *)shown.data : "");
    tfos__buffer_reset(&shown);
}

/* ---- the page ---- */

static bool has_ended(const char *state)
{
    return strcmp(state, "finished") == 0 || strcmp(state, "failed") == 0 || strcmp(state, "lost") == 0 ||
           strcmp(state, "stopped") == 0;
}

static void add_cell(tfos__cli_table *table, const char *text)
{
    tfos__cli_table_add(table, text[0] != '\0' ? text : "-");
}

static void add_node(tfos__cli_table *table, struct json_object *node)
{
    const char *state = text_of(node, "state");
    bool here = strcmp(state, "absent") != 0;
    bool alive = here && !has_ended(state);
    char cpu[32];
    char heard[32];
    snprintf(cpu, sizeof cpu, "%.0f %%", number_of(node, "cpu_share") * 100);
    snprintf(heard, sizeof heard, "%.1f s ago", number_of(node, "heard_s"));
    tfos__cli_table_add(table, text_of(node, "node"));
    tfos__cli_table_add(table, state);
    add_cell(table, text_of(node, "host"));
    add_cell(table, text_of(node, "executor"));
    add_cell(table, here ? show_duration(number_of(node, "uptime_s")).text : "");
    add_cell(table, alive ? cpu : "");
    add_cell(table, alive ? tfos__cli_show_bytes(number_of(node, "rss_bytes")).text : "");
    add_cell(table, text_of(node, "gpus"));
    add_cell(table, alive ? heard : "");
}

static void print_nodes(struct json_object *nodes)
{
    static const char *const heads[] = {"node", "state",  "host", "executor", "uptime",
                                        "cpu",  "memory", "gpus", "heard"};
    tfos__cli_table *table = tfos__cli_table_new(sizeof heads / sizeof heads[0], "llllrrrlr");
    if (table == NULL) {
        return;
    }
    for (size_t i = 0; i < sizeof heads / sizeof heads[0]; i++) {
        tfos__cli_table_add(table, heads[i]);
    }
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        add_node(table, json_object_array_get_idx(nodes, i));
    }
    tfos__cli_print("\n");
    tfos__cli_table_print(table);
    tfos__cli_table_free(table);
}

/* "1.5", or what stands for a number that is not finite. */
static void show_number(struct json_object *number, char out[32])
{
    if (json_object_is_type(number, json_type_string)) {
        snprintf(out, 32, "%.31s", json_object_get_string(number));
    } else {
        snprintf(out, 32, "%.6g", json_object_get_double(number));
    }
}

/* A number that a report may have; nothing is printed where it has not. */
static void print_number(struct json_object *report, const char *key, const char *before, const char *behind)
{
    char text[32];
    struct json_object *number = json_object_object_get(report, key);
    if (number != NULL) {
        show_number(number, text);
        tfos__cli_print("%s%s%s", before, text, behind);
    }
}

static void print_report(struct json_object *node, struct json_object *report)
{
    char text[32];
    print_inline("  ", text_of(node, "node"));
    tfos__cli_print(":");
    print_number(report, "epoch", " epoch ", "");
    print_number(report, "epochs", "/", "");
    print_number(report, "step", " step ", "");
    print_number(report, "steps", "/", "");
    struct json_object *values = json_object_object_get(report, "values");
    if (values != NULL) {
        json_object_object_foreach(values, name, value)
        {
            show_number(value, text);
            print_inline(", ", name);
            print_inline(" ", text);
        }
    }
    print_number(report, "rows_per_s", ", ", " rows/s");
    tfos__cli_print(" (%.0f s ago)\n", number_of(report, "reported_s"));
}

/* What programs have reported last. */
static void print_progress(struct json_object *nodes)
{
    const char *before = "\nProgress:\n";
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        struct json_object *report = json_object_object_get(node, "progress");
        if (report != NULL) {
            tfos__cli_print("%s", before);
            print_report(node, report);
            before = "";
        }
    }
}

static void print_head(struct json_object *status, struct json_object *nodes)
{
    print_inline("Cluster ", text_of(status, "cluster"));
    print_inline(text_of(status, "failure")[0] != '\0' ? ": failed, " : ": ", text_of(status, "phase"));
    tfos__cli_print("; %.0f of %zu nodes registered; attempt %.0f", number_of(status, "registered"),
                    json_object_array_length(nodes), number_of(status, "attempt"));
    print_inline("; tfos ", text_of(status, "version"));
    tfos__cli_print("\n");
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *url = text_of(node, "tensorboard");
        if (url[0] != '\0' && !has_ended(text_of(node, "state"))) {
            print_inline("TensorBoard: ", url);
            tfos__cli_print("\n");
        }
    }
}

static void print_refused(struct json_object *connections)
{
    static const struct {
        const char *key;
        const char *text;
    } causes[] = {
        {"refused_key", "without the cluster key, or not with TLS"},
        {"refused_version", "of another version of tfos"},
        {"refused_slow", "too slow to say who they are"},
        {"refused_other", "that left, sent nonsense or were too many"},
    };
    const char *before = "\nRefused connections: ";
    for (size_t i = 0; i < sizeof causes / sizeof causes[0]; i++) {
        double count = number_of(connections, causes[i].key);
        if (count > 0) {
            tfos__cli_print("%s%.0f %s", before, count, causes[i].text);
            before = "; ";
        }
    }
    tfos__cli_print("%s", before[0] == ';' ? "\n" : "");
}

static void print_logs(struct json_object *nodes)
{
    for (size_t i = 0; i < json_object_array_length(nodes); i++) {
        struct json_object *node = json_object_array_get_idx(nodes, i);
        const char *log = text_of(node, "log");
        if (log[0] != '\0') {
            print_inline("\nEnd of the log of ", text_of(node, "node"));
            tfos__cli_print(":\n");
            print_lines(log);
        }
    }
}

static void print_page(struct json_object *status, bool logs)
{
    struct json_object *nodes = json_object_object_get(status, "nodes");
    const char *failure = text_of(status, "failure");
    print_head(status, nodes);
    if (failure[0] != '\0') {
        tfos__cli_print("\nFirst failure:\n");
        print_lines(failure);
    }
    print_nodes(nodes);
    print_progress(nodes);
    print_refused(json_object_object_get(status, "connections"));
    if (logs) {
        print_logs(nodes);
    }
}

/* ---- fetching ---- */

static tfos_status fetch(const status_options *options, const char *url, struct json_object **out, tfos_error *error)
{
    tfos__buffer body = {0};
    tfos_status status = tfos__cli_fetch(url, options->logs ? "status.json?logs=all" : "status.json", &body, error);
    *out = NULL;
    if (status == TFOS_OK) {
        struct json_tokener *parser = json_tokener_new();
        if (parser != NULL && body.size > 0) {
            *out = json_tokener_parse_ex(parser, (const char *)body.data, (int)body.size);
            json_tokener_free(parser);
        }
        if (!json_object_is_type(json_object_object_get(*out, "nodes"), json_type_array)) {
            json_object_put(*out);
            *out = NULL;
            status = tfos__fail(error, TFOS_CORRUPT, "what answers at this address is no status page of tfos");
        }
    }
    tfos__buffer_reset(&body);
    return status;
}

static void print_status(const status_options *options, struct json_object *status)
{
    if (options->json) {
        int form = options->watch ? JSON_C_TO_STRING_PLAIN : JSON_C_TO_STRING_PRETTY;
        tfos__cli_print("%s\n", json_object_to_json_string_ext(status, form | JSON_C_TO_STRING_NOSLASHESCAPE));
    } else {
        print_page(status, options->logs);
    }
}

static int fail_fetch(const tfos_error *error)
{
    int code = tfos__cli_fail(error);
    return error->status == TFOS_PERMISSION ? CLI_REFUSED : code;
}

/* Shows the status again and again until the coordinator is gone. That is how a cluster that went well ends, too. */
static int watch(const status_options *options, const char *url)
{
    bool screen = !options->json && isatty(STDOUT_FILENO);
    bool seen = false;
    bool well = false;
    char when[64] = "";
    tfos_error error;
    struct json_object *status;
    while (fetch(options, url, &status, &error) == TFOS_OK) {
        struct tm local;
        time_t now = time(NULL);
        tfos__cli_print("%s", screen ? "\033[H\033[2J" : seen && !options->json ? "\n" : "");
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", localtime_r(&now, &local));
        print_status(options, status);
        well = text_of(status, "failure")[0] == '\0' && strcmp(text_of(status, "phase"), "waiting for nodes") != 0;
        seen = true;
        json_object_put(status);
        if (tfos__cli_end_output(CLI_OK) != CLI_OK) {
            return CLI_OK; /* the caller says what is wrong with the output */
        }
        nanosleep(&(struct timespec){.tv_sec = WATCH_MS / 1000, .tv_nsec = WATCH_MS % 1000 * 1000000L}, NULL);
    }
    if (!seen || error.status != TFOS_IO) {
        return fail_fetch(&error);
    }
    tfos__cli_note("the cluster is gone; last seen %s", when);
    return well ? CLI_OK : CLI_SYSTEM;
}

static int show_once(const status_options *options, const char *url)
{
    struct json_object *status;
    tfos_error error;
    if (fetch(options, url, &status, &error) != TFOS_OK) {
        return fail_fetch(&error);
    }
    print_status(options, status);
    json_object_put(status);
    return tfos__cli_end_output(CLI_OK);
}

static int run(int argc, char **argv)
{
    status_options options = {0};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(&tfos__cli_status, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    const char *url = inputs.count > 0 ? inputs.text[0] : getenv("TFOS_STATUS_URL");
    size_t count = inputs.count;
    free(inputs.text);
    if (count > 1) {
        return tfos__cli_fail_usage("`tfos status` takes one address, found %zu", count);
    }
    if (url == NULL || url[0] == '\0') {
        return tfos__cli_fail_usage(
            "expected the address of a status page, which the driver prints, or TFOS_STATUS_URL; "
            "`tfos status --help` shows how");
    }
    return options.watch ? watch(&options, url) : show_once(&options, url);
}

static const tfos__cli_option table[] = {
    {.name = "json",
     .kind = CLI_FLAG,
     .offset = offsetof(status_options, json),
     .help = "the status as JSON; with --watch one line each time"},
    {.name = "logs",
     .kind = CLI_FLAG,
     .offset = offsetof(status_options, logs),
     .help = "also the ends of the nodes' logs"},
    {.name = "watch",
     .letter = 'w',
     .kind = CLI_FLAG,
     .offset = offsetof(status_options, watch),
     .help = "show it again every two seconds, until the cluster is gone"},
};

const tfos__cli_command tfos__cli_status = {
    .name = "status",
    .summary = "show a running cluster: nodes, states, failure, logs",
    .synopsis = "tfos status [OPTIONS] [URL]",
    .details =
        "URL is the address of the cluster's status page, with its token, as the driver prints it. Without it,\n"
        "TFOS_STATUS_URL is taken.\n\n"
        "Exit codes of this command: 0 when the status was shown, whatever it is; 1 when what answers there is no\n"
        "status page; 2 when URL is no address; 3 when nobody answers; 4 when the token is wrong. With --watch:\n"
        "0 when the cluster is gone and had not failed, 3 when it had.\n\n"
        "Examples:\n"
        "  tfos status http://driver:40123/0123456789abcdef0123456789abcdef/\n"
        "  tfos status --json $URL | jq -r '.nodes[] | select(.state == \"failed\") | .node'\n"
        "  TFOS_STATUS_URL=$URL tfos status --watch --logs\n",
    .options = table,
    .option_count = sizeof table / sizeof table[0],
    .run = run,
};
