/* tfos model: the process of a model beside an executor. A Spark task starts it with a pipe as its stdin. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "inference/server.h"
#include "service/seclude.h"

static void print_exit_codes(void)
{
    static const tfos__cli_code codes[] = {
#define CODE(name, number, text) {number, text},
        TFOS__INFERENCE_EXIT_MAP(CODE)
#undef CODE
    };
    tfos__cli_print_codes(codes, sizeof codes / sizeof codes[0]);
}

static int run(int argc, char **argv)
{
    int code;
    tfos__seclude();
    if (!tfos__cli_parse_nothing(&tfos__cli_model, argc, argv, &code)) {
        return code;
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
