/* The command line, by table. What a table says is what is parsed and what `--help` shows. */
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

/* ---- near names ---- */

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* The number of letters to insert, remove or replace to make one word of the other. */
static size_t distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    size_t row[LONGEST + 1];
    size_t length = strlen(b);
    if (length > LONGEST || strlen(a) > LONGEST) {
        return SIZE_MAX;
    }
    for (size_t j = 0; j <= length; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < length; j++) {
            size_t above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[length];
}

const char *tfos__cli_nearest(const char *word, const char *const *names, size_t count)
{
    const char *nearest = NULL;
    /* A third of the letters may be wrong, at least two. */
    size_t best = strlen(word) / 3 > 2 ? strlen(word) / 3 : 2;
    for (size_t i = 0; i < count; i++) {
        size_t far = distance(word, names[i]);
        if (far <= best && far < strlen(names[i])) {
            nearest = names[i];
            best = far > 0 ? far - 1 : 0;
        }
    }
    return nearest;
}

/* ---- values ---- */

static bool parse_integer(const tfos__cli_option *option, const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < option->least || value > option->most) {
        tfos__cli_fail_usage("--%s: expected a whole number from %lld to %lld, found '%s'", option->name,
                             (long long)option->least, (long long)option->most, text);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_size(const tfos__cli_option *option, const char *text, int64_t *out)
{
    int64_t value;
    tfos_error error;
    if (tfos_number_parse(text, &value, &error) != TFOS_OK) {
        tfos__cli_fail_usage("--%s: %s", option->name, error.message);
        return false;
    }
    if (value < option->least || value > option->most) {
        tfos__cli_fail_usage("--%s: expected %s to %s, found '%s'", option->name,
                             tfos__cli_show_bytes((double)option->least).text,
                             tfos__cli_show_bytes((double)option->most).text, text);
        return false;
    }
    *out = value;
    return true;
}

static bool parse_choice(const tfos__cli_option *option, const char *text, int *out)
{
    size_t count = 0;
    for (; option->choices[count] != NULL; count++) {
        if (strcmp(option->choices[count], text) == 0) {
            *out = (int)count;
            return true;
        }
    }
    char names[256] = "";
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s",
                 i == 0          ? ""
                 : i + 1 < count ? ", "
                                 : " or ",
                 option->choices[i]);
    }
    const char *near = tfos__cli_nearest(text, option->choices, count);
    if (near != NULL) {
        tfos__cli_fail_usage("--%s: expected %s, found '%s'; did you mean %s?", option->name, names, text, near);
    } else {
        tfos__cli_fail_usage("--%s: expected %s, found '%s'", option->name, names, text);
    }
    return false;
}

static bool add_text(const tfos__cli_option *option, tfos__cli_texts *texts, const char *text)
{
    if (texts->count == CLI_MAX_TEXTS) {
        tfos__cli_fail_usage("--%s: more than %d are given", option->name, CLI_MAX_TEXTS);
        return false;
    }
    texts->text[texts->count++] = text;
    return true;
}

/* Splits "a,b" where it stands, on the command line of the process. */
static bool add_names(const tfos__cli_option *option, tfos__cli_texts *texts, const char *text)
{
    char *rest = (char *)(uintptr_t)text;
    for (char *name = strsep(&rest, ","); name != NULL; name = strsep(&rest, ",")) {
        if (*name == '\0') {
            tfos__cli_fail_usage("--%s: expected names separated by commas, found an empty one", option->name);
            return false;
        }
        if (!add_text(option, texts, name)) {
            return false;
        }
    }
    return true;
}

static bool set_value(const tfos__cli_option *option, const char *text, void *options)
{
    void *variable = (char *)options + option->offset;
    switch (option->kind) {
    case CLI_FLAG:
        *(bool *)variable = true;
        return true;
    case CLI_UNFLAG:
        *(bool *)variable = false;
        return true;
    case CLI_TEXT:
        *(const char **)variable = text;
        return true;
    case CLI_TEXTS:
        return add_text(option, variable, text);
    case CLI_NAMES:
        return add_names(option, variable, text);
    case CLI_INTEGER:
        return parse_integer(option, text, variable);
    case CLI_BYTES:
        return parse_size(option, text, variable);
    case CLI_CHOICE:
        return parse_choice(option, text, variable);
    }
    return false;
}

/* ---- the walk over the arguments ---- */

typedef struct arguments {
    const tfos__cli_command *command;
    int argc;
    char **argv;
    int at;
    void *options;
    tfos__cli_inputs *inputs;
} arguments;

static bool takes_value(const tfos__cli_option *option)
{
    return option->kind != CLI_FLAG && option->kind != CLI_UNFLAG;
}

static bool fail_unknown(const tfos__cli_command *command, const char *argument, size_t name_length)
{
    char name[65];
    const char **names = calloc(command->option_count + 1, sizeof *names);
    snprintf(name, sizeof name, "%.*s", (int)(name_length > 64 ? 64 : name_length), argument + 2);
    for (size_t i = 0; names != NULL && i < command->option_count; i++) {
        names[i] = command->options[i].name;
    }
    const char *near = names != NULL ? tfos__cli_nearest(name, names, command->option_count) : NULL;
    if (near != NULL) {
        tfos__cli_fail_usage("unknown option '%s'; did you mean --%s? `tfos %s --help` lists all", argument, near,
                             command->name);
    } else {
        tfos__cli_fail_usage("unknown option '%s'; `tfos %s --help` lists all", argument, command->name);
    }
    free(names);
    return false;
}

/* `value` is what stands behind "=" or a letter, or NULL: then the next argument is the value, if one is needed. */
static bool apply(arguments *walk, const tfos__cli_option *option, const char *value)
{
    if (!takes_value(option)) {
        if (value != NULL) {
            tfos__cli_fail_usage("--%s takes no value, found '%s'", option->name, value);
            return false;
        }
    } else if (value == NULL) {
        if (walk->at + 1 >= walk->argc) {
            tfos__cli_fail_usage("--%s needs a value: --%s %s", option->name, option->name, option->value);
            return false;
        }
        value = walk->argv[++walk->at];
    }
    return set_value(option, value, walk->options);
}

static bool take_long(arguments *walk, const char *argument)
{
    const char *equals = strchr(argument, '=');
    size_t length = equals != NULL ? (size_t)(equals - argument) - 2 : strlen(argument) - 2;
    for (size_t i = 0; i < walk->command->option_count; i++) {
        const tfos__cli_option *option = &walk->command->options[i];
        if (strlen(option->name) == length && strncmp(option->name, argument + 2, length) == 0) {
            return apply(walk, option, equals != NULL ? equals + 1 : NULL);
        }
    }
    return fail_unknown(walk->command, argument, length);
}

static bool take_short(arguments *walk, const char *argument)
{
    for (size_t i = 0; i < walk->command->option_count; i++) {
        const tfos__cli_option *option = &walk->command->options[i];
        if (option->letter == argument[1]) {
            if (!takes_value(option) && argument[2] != '\0') {
                break;
            }
            return apply(walk, option, argument[2] != '\0' ? argument + 2 : NULL);
        }
    }
    tfos__cli_fail_usage("unknown option '%s'; `tfos %s --help` lists all", argument, walk->command->name);
    return false;
}

static bool take_all(arguments *walk, bool *help)
{
    bool options_ended = false;
    for (walk->at = 0; walk->at < walk->argc; walk->at++) {
        const char *argument = walk->argv[walk->at];
        if (!options_ended && strcmp(argument, "--") == 0) {
            options_ended = true;
            walk->inputs->before_dashes = walk->inputs->count;
        } else if (!options_ended && (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0)) {
            *help = true;
            return true;
        } else if (!options_ended && strncmp(argument, "--", 2) == 0) {
            if (!take_long(walk, argument)) {
                return false;
            }
        } else if (!options_ended && argument[0] == '-' && argument[1] != '\0') {
            if (!take_short(walk, argument)) {
                return false;
            }
        } else {
            walk->inputs->text[walk->inputs->count++] = argument;
        }
    }
    walk->inputs->before_dashes = options_ended ? walk->inputs->before_dashes : walk->inputs->count;
    return true;
}

bool tfos__cli_parse(const tfos__cli_command *command, int argc, char **argv, void *options, tfos__cli_inputs *inputs,
                     int *code)
{
    inputs->count = 0;
    inputs->text = calloc((size_t)argc + 1, sizeof *inputs->text);
    arguments walk = {.command = command, .argc = argc, .argv = argv, .options = options, .inputs = inputs};
    bool help = false;
    *code = CLI_USAGE;
    bool go_on = inputs->text != NULL && take_all(&walk, &help);
    if (go_on && help) {
        tfos__cli_print_help(command);
        *code = tfos__cli_end_output(CLI_OK);
        go_on = false;
    } else if (go_on && inputs->count < command->least_inputs) {
        *code = tfos__cli_fail_usage("%s; `tfos %s --help` shows how", command->missing_input, command->name);
        go_on = false;
    }
    if (!go_on) {
        free(inputs->text);
        inputs->text = NULL;
    }
    return go_on;
}

/* ---- help ---- */

enum { HELP_INDENT = 24, HELP_WIDTH = 100 };

/* Breaks a help text at spaces, each line indented. */
static void print_wrapped(const char *text)
{
    size_t column = HELP_INDENT;
    while (*text != '\0') {
        size_t word = strcspn(text, " ");
        if (column > HELP_INDENT && column + 1 + word > HELP_WIDTH) {
            tfos__cli_print("\n%*s", HELP_INDENT, "");
            column = HELP_INDENT;
        } else if (column > HELP_INDENT) {
            tfos__cli_print(" ");
            column++;
        }
        tfos__cli_print("%.*s", (int)word, text);
        column += tfos__cli_text_width(text, word);
        text += word;
        text += strspn(text, " ");
    }
    tfos__cli_print("\n");
}

static void print_option(const tfos__cli_option *option)
{
    char head[128];
    snprintf(head, sizeof head, option->letter != 0 ? "  -%c, " : "      ", option->letter);
    size_t used = strlen(head);
    snprintf(head + used, sizeof head - used, "--%s%s%s", option->name, option->value != NULL ? " " : "",
             option->value != NULL ? option->value : "");
    size_t width = tfos__cli_text_width(head, strlen(head));
    if (width + 2 > HELP_INDENT) {
        tfos__cli_print("%s\n%*s", head, HELP_INDENT, "");
    } else {
        tfos__cli_print("%s%*s", head, (int)(HELP_INDENT - width), "");
    }
    print_wrapped(option->help);
}

void tfos__cli_print_help(const tfos__cli_command *command)
{
    tfos__cli_print("tfos %s: %s\n\nUsage: %s\n\nOptions:\n", command->name, command->summary, command->synopsis);
    for (size_t i = 0; i < command->option_count; i++) {
        print_option(&command->options[i]);
    }
    print_option(&(tfos__cli_option){.name = "help", .letter = 'h', .help = "this text"});
    tfos__cli_print("\n%s", command->details);
    if (command->print_exit_codes != NULL) {
        command->print_exit_codes();
    } else {
        tfos__cli_print_exit_codes();
    }
}

bool tfos__cli_parse_nothing(const tfos__cli_command *command, int argc, char **argv, int *code)
{
    tfos__cli_inputs inputs;
    char unused;
    if (!tfos__cli_parse(command, argc, argv, &unused, &inputs, code)) {
        return false;
    }
    free(inputs.text);
    if (inputs.count > 0) {
        *code = tfos__cli_fail_usage("`tfos %s` takes no arguments; `tfos %s --help` tells more", command->name,
                                     command->name);
    }
    return inputs.count == 0;
}
