/* What is said of a training that has ended, wherever it was. */
#include "base/bytes.h"
#include "base/json.h"
#include "cli/train.h"

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

int tfos__cli_train_stopped(const tfos__cli_train *train)
{
    bool keeps = json_object_object_get_ex(train->options, "model_dir", NULL);
    tfos__cli_note(keeps ? "stopped; started again, training goes on from the newest checkpoint"
                         : "stopped; without --model-dir there is no checkpoint to go on from");
    return CLI_INTERRUPTED;
}
