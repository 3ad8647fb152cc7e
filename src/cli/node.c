/* tfos node: the process beside an executor. A Spark task starts it with a pipe as its stdin. */
#include <stdio.h>
#include <unistd.h>

#include "cli/cli.h"
#include "node/node.h"
#include "service/seclude.h"

static void print_exit_codes(void)
{
    static const tfos__cli_code codes[] = {
#define CODE(name, number, text) {number, text},
        TFOS__NODE_EXIT_MAP(CODE)
#undef CODE
    };
    tfos__cli_print_codes(codes, sizeof codes / sizeof codes[0]);
}

static int run(int argc, char **argv)
{
    int code;
    tfos__seclude();
    if (!tfos__cli_parse_nothing(&tfos__cli_node, argc, argv, &code)) {
        return code;
    }
    code = (int)tfos__node_run();
    /* Not by way of exit: it would wait for the thread that resolves the coordinator's name, and nobody knows for how
     * long name servers do not answer. */
    fflush(NULL);
    _exit(code);
}

const tfos__cli_command tfos__cli_node = {
    .name = "node",
    .summary = "supervises one TensorFlow process; started by Spark tasks",
    .synopsis = "tfos node",
    .details =
        "Started by a Spark task (TFCluster.run) as a child of the executor. It reads its orders from stdin, runs the\n"
        "program that they name for as long as executor and coordinator live, and leaves no process behind. To\n"
        "stdout it says `running` once the program runs, and `ended` with one word for how, at the end.\n",
    .print_exit_codes = print_exit_codes,
    .run = run,
};
