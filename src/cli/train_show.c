/* What is said of a training that has ended, wherever it was. */
#include <unistd.h>

#include "base/bytes.h"
#include "base/json.h"
#include "cli/train.h"
#include "tensorflow/checkpoints.h"

static void show_outcome(json_object *outcome)
{
    json_object *values = tfos__json_member(outcome, "values");
    tfos__buffer line = {0};
    json_object_object_foreach(values, name, value)
    {
        tfos__buffer_printf(&line, NULL, " · %s %.4g", name, json_object_get_double(value));
    }
    tfos__cli_note("trained %lld epochs, %s steps%.*s",
                   (long long)json_object_get_int64(tfos__json_member(outcome, "epochs")),
                   tfos__cli_show_count(json_object_get_int64(tfos__json_member(outcome, "steps"))).text,
                   (int)line.size, line.size > 0 ? (const char *)line.data : "");
    tfos__buffer_reset(&line);
    if (tfos__json_text(outcome, "checkpoint")[0] != '\0') {
        tfos__cli_note("checkpoint: %s", tfos__json_text(outcome, "checkpoint"));
    }
    if (tfos__json_text(outcome, "export_dir")[0] != '\0') {
        tfos__cli_note("model for prediction: %s", tfos__json_text(outcome, "export_dir"));
    }
}

void tfos__cli_train_report(const tfos__cli_train *train, json_object *value, json_object *history)
{
    if (value != NULL && !train->quiet) {
        show_outcome(value);
    }
    if (value != NULL && train->json) {
        json_object_object_add(value, "history", json_object_get(history));
        tfos__cli_print("%s\n", json_object_to_json_string_ext(value, JSON_C_TO_STRING_PLAIN));
    }
}

/* The newest checkpoint of this machine, which may be an older one, if the last could not be written. */
static void say_newest(const char *folder)
{
    tfos__checkpoints found = {0};
    if (access(folder, F_OK) == 0 && tfos__checkpoints_open(folder, 1, &found, NULL) == TFOS_OK && found.count > 0) {
        tfos__cli_note("stopped; started again, training goes on from %s", found.at[found.count - 1].name);
    } else {
        tfos__cli_note("stopped; there is no checkpoint in %s to go on from", folder);
    }
    tfos__checkpoints_close(&found);
}

int tfos__cli_train_stopped(const tfos__cli_train *train, bool here)
{
    const char *folder = tfos__json_text(train->options, "model_dir");
    if (folder[0] == '\0') {
        tfos__cli_note("stopped; without --model-dir there is no checkpoint to go on from");
    } else if (here) {
        say_newest(folder);
    } else {
        tfos__cli_note("stopped; started again, training goes on from the newest checkpoint");
    }
    return CLI_INTERRUPTED;
}
