/* tfos model: the process of a model beside an executor. A Spark task starts it with a pipe as its stdin. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cli/cli.h"
#include "inference/server.h"
#include "service/seclude.h"

static void print_exit_codes(void)
{
    static const struct {
        int code;
        const char *text;
    } codes[] = {
#define CODE(name, number, text) {number, text},
        TFOS__INFERENCE_EXIT_MAP(CODE)
#undef CODE
    };
    tfos__cli_print("\nExit codes:\n");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        tfos__cli_print("  %3d  %s\n", codes[i].code, codes[i].text);
    }
}

static int run(int argc, char **argv)
{
    tfos__cli_inputs inputs;
    int code;
    char unused;
    tfos__seclude();
    if (!tfos__cli_parse(&tfos__cli_model, argc, argv, &unused, &inputs, &code)) {
        return code;
    }
    size_t extra = inputs.count;
    free(inputs.text);
    if (extra > 0) {
        return tfos__cli_fail_usage("`tfos model` takes no arguments; `tfos model --help` tells more");
    }
    code = (int)tfos__inference_run();
    fflush(NULL);
    _exit(code);
}

const tfos__cli_command tfos__cli_model = {
    .name = "model",
    .summary = "computes results of a SavedModel for Spark tasks; started by them",
    .synopsis = "tfos model",
    .details =
        "Started by a Spark task (TFModel.transform) as a child of the executor, once for each model. It reads its\n"
        "orders from stdin, loads TensorFlow and the model, says `ready` on stdout, and answers the rows of tasks of\n"
        "this executor with results. It ends with the executor, or when no task has come for a while\n"
        "(model.idle_ms).\n",
    .print_exit_codes = print_exit_codes,
    .run = run,
};
