/* tfos coordinator: the process beside the driver. A driver starts it with a socket as its stdin. */
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cli/cli.h"
#include "coordinator/coordinator.h"
#include "service/seclude.h"

static bool is_socket(int file)
{
    int type;
    socklen_t bytes = sizeof type;
    return getsockopt(file, SOL_SOCKET, SO_TYPE, &type, &bytes) == 0;
}

static int run(int argc, char **argv)
{
    tfos__cli_inputs inputs;
    tfos_error error;
    int code;
    char unused;
    tfos__seclude();
    if (!tfos__cli_parse(&tfos__cli_coordinator, argc, argv, &unused, &inputs, &code)) {
        return code;
    }
    free(inputs.text);
    if (!is_socket(STDIN_FILENO)) {
        return tfos__cli_fail_usage(
            "`tfos coordinator` is started by a driver, which holds the other end of its stdin; "
            "call TFCluster.run in a Spark application instead");
    }
    signal(SIGPIPE, SIG_IGN);
    if (tfos__coordinator_run(STDIN_FILENO, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    return CLI_OK;
}

const tfos__cli_command tfos__cli_coordinator = {
    .name = "coordinator",
    .summary = "keeps a cluster together; started by a driver",
    .synopsis = "tfos coordinator",
    .details = "Started by a driver (TFCluster.run) with a socket as its stdin. It ends with the driver.\n",
    .run = run,
};
