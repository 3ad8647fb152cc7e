/* tfos trainer: the process of a trainer. A node starts it. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "training/process.h"

static void print_exit_codes(void)
{
    static const tfos__cli_code codes[] = {
#define CODE(name, number, text) {number, text},
        TFOS__TRAINING_EXIT_MAP(CODE)
#undef CODE
    };
    tfos__cli_print_codes(codes, sizeof codes / sizeof codes[0]);
}

static int run(int argc, char **argv)
{
    int code;
    if (!tfos__cli_parse_nothing(&tfos__cli_trainer, argc, argv, &code)) {
        return code;
    }
    code = (int)tfos__training_run();
    fflush(NULL);
    _exit(code);
}

const tfos__cli_command tfos__cli_trainer = {
    .name = "trainer",
    .summary = "trains an exported model as the program of a node; started by it",
    .synopsis = "tfos trainer",
    .details =
        "Started by a node of a cluster (`tfos train`, native.Trainer in Python, Trainer in Java), with its options "
        "as\n"
        "JSON. It loads TensorFlow and the model, trains together with the other workers of the cluster, on what "
        "Spark\n"
        "feeds or on TFRecord files, and tells its node how it goes. SIGTERM makes it write a checkpoint and end.\n",
    .print_exit_codes = print_exit_codes,
    .run = run,
};
