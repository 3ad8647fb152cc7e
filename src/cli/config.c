/* tfos config: the settings, what they are now, and the page about them. */
#include <stdlib.h>

#include "cli/cli.h"

typedef struct config_options {
    bool markdown;
} config_options;

static void print_markdown(void)
{
    tfos__cli_print(
        "# Settings\n\n"
        "What can be set without naming it in a call. An argument of a call or a flag of the command comes "
        "first; then, for clusters, Spark's\n"
        "setting `spark.tfos.` and the key (`--conf spark.tfos.cluster.lease_ms=60000`); then the environment "
        "variable; then the default. A value\n"
        "out of bounds is an error. Sizes may end in KiB, MiB or GiB. `tfos config` shows what is in "
        "force.\n\n"
        "| key | environment variable | default | bounds | meaning |\n"
        "|---|---|---|---|---|\n");
    for (size_t i = 0; i < tfos_setting_count(); i++) {
        const tfos_setting *setting = tfos_setting_at(i);
        tfos__cli_print("| `%s` | `%s` | ", setting->key, setting->environment);
        if (setting->form != NULL) {
            tfos__cli_print("– | %s", setting->form);
        } else {
            tfos__cli_print("%lld | %lld to %lld", (long long)setting->fallback, (long long)setting->least,
                            (long long)setting->most);
        }
        tfos__cli_print(" | %s |\n", setting->text);
    }
}

static void print_values(void)
{
    for (size_t i = 0; i < tfos_setting_count(); i++) {
        const tfos_setting *setting = tfos_setting_at(i);
        const char *text = getenv(setting->environment);
        bool set = text != NULL && text[0] != '\0';
        tfos__cli_print("%s = ", setting->key);
        if (set) {
            tfos__cli_print("%s  (from %s)\n", text, setting->environment);
        } else if (setting->form != NULL) {
            tfos__cli_print("  (%s is not set)\n", setting->environment);
        } else {
            tfos__cli_print("%lld  (default; %s is not set)\n", (long long)setting->fallback, setting->environment);
        }
        if (setting->form != NULL) {
            tfos__cli_print("  %s Takes %s.\n", setting->text, setting->form);
        } else {
            tfos__cli_print("  %s From %lld to %lld.\n", setting->text, (long long)setting->least,
                            (long long)setting->most);
        }
    }
}

static int run(int argc, char **argv)
{
    config_options options = {0};
    tfos__cli_inputs inputs;
    int code;
    if (!tfos__cli_parse(&tfos__cli_config, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    size_t extra = inputs.count;
    free(inputs.text);
    if (extra > 0) {
        return tfos__cli_fail_usage("`tfos config` takes no arguments; `tfos config --help` tells more");
    }
    if (options.markdown) {
        print_markdown();
    } else {
        print_values();
    }
    return tfos__cli_end_output(CLI_OK);
}

static const tfos__cli_option options_of_config[] = {
    {.name = "markdown",
     .kind = CLI_FLAG,
     .offset = offsetof(config_options, markdown),
     .help = "print the table of all settings as Markdown, as in docs/config.md"},
};

const tfos__cli_command tfos__cli_config = {
    .name = "config",
    .summary = "show the settings and where they come from",
    .synopsis = "tfos config [OPTIONS]",
    .details = "Settings are environment variables; arguments and flags come before them.\n\n"
               "Examples:\n"
               "  tfos config\n"
               "  TFOS_RECORDS_THREADS=4 tfos config\n",
    .options = options_of_config,
    .option_count = sizeof options_of_config / sizeof options_of_config[0],
    .run = run,
};
