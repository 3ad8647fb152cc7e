/* tfos tensorflow: where TensorFlow's library is. Executors ask before they fetch the driver's. */
#include <limits.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "tensorflow/api.h"

typedef struct tensorflow_options {
    const char *python;
} tensorflow_options;

static int run(int argc, char **argv)
{
    tensorflow_options options = {0};
    tfos__cli_inputs inputs;
    char path[PATH_MAX];
    tfos_error error;
    int code;
    if (!tfos__cli_parse(&tfos__cli_tensorflow, argc, argv, &options, &inputs, &code)) {
        return code;
    }
    size_t extra = inputs.count;
    free(inputs.text);
    if (extra > 0) {
        return tfos__cli_fail_usage("`tfos tensorflow` takes options only; `tfos tensorflow --help` tells more");
    }
    if (tfos__tensorflow_locate(options.python, path, &error) != TFOS_OK) {
        return tfos__cli_fail(&error);
    }
    tfos__cli_print("%s\n", path);
    return tfos__cli_end_output(CLI_OK);
}

static const tfos__cli_option options_of_tensorflow[] = {
    {.name = "python",
     .value = "PATH",
     .kind = CLI_TEXT,
     .offset = offsetof(tensorflow_options, python),
     .help = "the Python whose TensorFlow is meant, which is not run unless its packages lie in unusual places "
             "(default: PYSPARK_PYTHON, VIRTUAL_ENV, python3)"},
};

const tfos__cli_command tfos__cli_tensorflow = {
    .name = "tensorflow",
    .summary = "say where TensorFlow's library is on this machine",
    .synopsis = "tfos tensorflow [OPTIONS]",
    .details = "Prints the path of the library that other commands, and executors of Spark with the same environment,\n"
               "would load. If there is none, says where it has looked, and ends with 3.\n\n"
               "Examples:\n"
               "  tfos tensorflow\n"
               "  tfos tensorflow --python /opt/env/bin/python\n",
    .options = options_of_tensorflow,
    .option_count = sizeof options_of_tensorflow / sizeof options_of_tensorflow[0],
    .run = run,
};
