/* The command tfos: finds the command that is asked for and runs it. */
#include <errno.h>
#include <fcntl.h>
#include <locale.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"

static const tfos__cli_command *const records[] = {
    &tfos__cli_records_head,  &tfos__cli_records_schema, &tfos__cli_records_count,   &tfos__cli_records_verify,
    &tfos__cli_records_stats, &tfos__cli_records_index,  &tfos__cli_records_convert,
};

enum { RECORDS_COUNT = sizeof records / sizeof records[0] };

/* The last word of "records head". */
static const char *short_name(const tfos__cli_command *command)
{
    return strrchr(command->name, ' ') + 1;
}

static int show_records_help(void)
{
    tfos__cli_print("tfos records: look at, check and make TFRecord files\n\nUsage: tfos records COMMAND [OPTIONS] "
                    "…\n\nCommands:\n");
    for (size_t i = 0; i < RECORDS_COUNT; i++) {
        tfos__cli_print("  %-8s %s\n", short_name(records[i]), records[i]->summary);
    }
    tfos__cli_print(
        "\nInputs are files, folders (their files) and globs ('data/part-*'). Names that begin with _ or . are left\n"
        "out of folders. Files that end in .gz or are compressed with gzip or zlib are read as they are.\n\n"
        "`tfos records COMMAND --help` tells the rest.\n");
    tfos__cli_print_exit_codes();
    return tfos__cli_end_output(CLI_OK);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0;
}

static int run_records(int argc, char **argv)
{
    const char *names[RECORDS_COUNT];
    if (argc == 0) {
        return tfos__cli_fail_usage("a command is missing behind `tfos records`; `tfos records --help` lists them");
    }
    if (is_help(argv[0])) {
        return show_records_help();
    }
    for (size_t i = 0; i < RECORDS_COUNT; i++) {
        names[i] = short_name(records[i]);
        if (strcmp(argv[0], names[i]) == 0) {
            return records[i]->run(argc - 1, argv + 1);
        }
    }
    const char *near = tfos__cli_nearest(argv[0], names, RECORDS_COUNT);
    if (near != NULL) {
        return tfos__cli_fail_usage("unknown command 'records %s'; did you mean `tfos records %s`?", argv[0], near);
    }
    return tfos__cli_fail_usage("unknown command 'records %s'; `tfos records --help` lists them", argv[0]);
}

static int run_config(int argc, char **argv)
{
    return tfos__cli_config.run(argc, argv);
}

static int run_ps(int argc, char **argv)
{
    return tfos__cli_ps.run(argc, argv);
}

static int run_tensorflow(int argc, char **argv)
{
    return tfos__cli_tensorflow.run(argc, argv);
}

static int run_status(int argc, char **argv)
{
    return tfos__cli_status.run(argc, argv);
}

static int run_coordinator(int argc, char **argv)
{
    return tfos__cli_coordinator.run(argc, argv);
}

static int run_node(int argc, char **argv)
{
    return tfos__cli_node.run(argc, argv);
}

static int run_model(int argc, char **argv)
{
    return tfos__cli_model.run(argc, argv);
}

static int run_train(int argc, char **argv)
{
    return tfos__cli_train_about.run(argc, argv);
}

static int run_infer(int argc, char **argv)
{
    return tfos__cli_infer.run(argc, argv);
}

static int run_trainer(int argc, char **argv)
{
    return tfos__cli_trainer.run(argc, argv);
}

/* Every command, in the order of `tfos --help`. */
static const struct {
    const char *name;
    const char *summary;
    int (*run)(int argc, char **argv);
    bool inner; /* started by the others */
} commands[] = {
    {"records", "look at, check and make TFRecord files", run_records, false},
    {"train", "train an exported model on TFRecord files, without Python", run_train, false},
    {"infer", "compute results of a SavedModel for the rows of files, without Python", run_infer, false},
    {"ps", "serve as a parameter server or worker of a TensorFlow cluster, without Python", run_ps, false},
    {"tensorflow", "say where TensorFlow's library is on this machine", run_tensorflow, false},
    {"config", "show the settings and where they come from", run_config, false},
    {"status", "show a running cluster: nodes, states, failure, logs", run_status, false},
    {"coordinator", "keeps a cluster together", run_coordinator, true},
    {"node", "supervises one TensorFlow process", run_node, true},
    {"model", "computes results of a SavedModel for Spark tasks", run_model, true},
    {"trainer", "trains an exported model as the program of a node", run_trainer, true},
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static void show_commands(bool inner)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        if (commands[i].inner == inner) {
            tfos__cli_print("  %-11s  %s\n", commands[i].name, commands[i].summary);
        }
    }
}

static int show_help(void)
{
    tfos__cli_print("tfos: TensorFlow on Spark, with a native core\n\n"
                    "Usage: tfos COMMAND …\n\n"
                    "Commands:\n");
    show_commands(false);
    tfos__cli_print("\nStarted by the others:\n");
    show_commands(true);
    tfos__cli_print("\nOptions:\n"
                    "  -h, --help     this text; also behind every command\n"
                    "      --version  the version\n\n"
                    "Example:\n"
                    "  tfos records head data/train-00000.tfrecord\n");
    tfos__cli_print_exit_codes();
    return tfos__cli_end_output(CLI_OK);
}

static int run(int argc, char **argv)
{
    const char *known[COMMAND_COUNT + 2] = {"--help", "--version"};
    if (argc < 2) {
        return tfos__cli_fail_usage("a command is missing; `tfos --help` lists them");
    }
    if (is_help(argv[1])) {
        return show_help();
    }
    if (strcmp(argv[1], "--version") == 0) {
        tfos__cli_print("tfos %s\n", tfos_version());
        return tfos__cli_end_output(CLI_OK);
    }
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        known[i + 2] = commands[i].name;
        if (strcmp(argv[1], commands[i].name) == 0) {
            return commands[i].run(argc - 2, argv + 2);
        }
    }
    const char *near = tfos__cli_nearest(argv[1], known, COMMAND_COUNT + 2);
    if (near != NULL) {
        return tfos__cli_fail_usage("unknown command '%s'; did you mean `tfos %s`?", argv[1], near);
    }
    return tfos__cli_fail_usage("unknown command '%s'; `tfos --help` lists them", argv[1]);
}

/* Whatever is opened next would otherwise get the number of a standard file that somebody has closed (`>&-`), and what
 * is meant for that would go there. Opened the wrong way round, these fail as if they were closed. */
static void open_standard_files(void)
{
    const int flags[] = {O_WRONLY, O_RDONLY, O_RDONLY};
    for (int file = STDIN_FILENO; file <= STDERR_FILENO; file++) {
        if (fcntl(file, F_GETFD) < 0 && errno == EBADF && open("/dev/null", flags[file]) != file) {
            _exit(CLI_SYSTEM);
        }
    }
}

int main(int argc, char **argv)
{
    open_standard_files();
    /* Only for what the terminal can show: numbers stay as data files write them. */
    setlocale(LC_CTYPE, "");
    tfos__cli_signals_init();
    return tfos__cli_end_output(run(argc, argv));
}
