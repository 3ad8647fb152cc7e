/* What a driver wants to know of a trainer before anything is started. */
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "tensorflow/description.h"
#include "tensorflow/trainable.h"
#include "tensorflow/trainer_options.h"

/* An option as it holds, given or not; NULL: there is none. */
static json_object *value_of(const tfos__trainer_options *options, const tfos__trainer_option *row)
{
    const char *member = (const char *)options + row->offset;
    switch (row->kind) {
    case TFOS__OPTION_TEXT: {
        const char *text = *(const char *const *)member;
        return text != NULL ? json_object_new_string(text) : NULL;
    }
    case TFOS__OPTION_NUMBER:
        return json_object_new_int64(*(const int64_t *)member);
    case TFOS__OPTION_REAL:
        return json_object_new_double(*(const double *)member);
    case TFOS__OPTION_SWITCH:
        return json_object_new_boolean(*(const bool *)member);
    case TFOS__OPTION_CHOICE:
        break;
    }
    return json_object_new_string(tfos__trainer_choice_name(row, *(const int *)member));
}

static json_object *describe_options(const tfos__trainer_options *options)
{
    json_object *all = json_object_new_object();
    const tfos__trainer_option *row;
    for (size_t i = 0; (row = tfos__trainer_option_at(i)) != NULL; i++) {
        json_object_object_add(all, row->key, value_of(options, row));
    }
    return all;
}

enum {
    KILL_MS = 60000, /* a node that is stopped waits so long for its trainer, which writes a last checkpoint */
    /* One may validate, or wait for what Spark has yet to compute, while others wait for it. Who is lost is noticed by
     * other means, and so is who stands still. */
    GROUP_MS = 86400000,
};

static json_object *settings(void)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "node.kill_ms", json_object_new_int64(KILL_MS));
    json_object_object_add(object, "collective.timeout_ms", json_object_new_int64(GROUP_MS));
    return object;
}

/* Restarts go on with the epoch that was being fed. */
static json_object *restart_problem(const tfos__trainer_options *options)
{
    return options->data.count > 0 || options->model_dir != NULL
               ? NULL
               : json_object_new_string("restarts go on with the epoch that was being fed, and a trainer without "
                                        "model_dir would have forgotten those before it: give it a model_dir");
}

static json_object *describe(const tfos__trainer_options *options, const tfos__description *about)
{
    json_object *plan = json_object_new_object();
    json_object *columns = json_object_new_array();
    json_object *inputs = json_object_new_array();
    json_object *optional = json_object_new_array();
    for (size_t i = 0; i < about->port_count; i++) {
        const char *column = tfos__port_column(&about->ports[i], options->columns);
        json_object_array_add(columns, json_object_new_string(column));
        if (about->ports[i].kind == TFOS__PORT_INPUT) {
            json_object_array_add(inputs, json_object_new_string(column));
        }
        if (about->ports[i].kind == TFOS__PORT_WEIGHT && column == about->ports[i].name) {
            json_object_array_add(optional, json_object_new_string(column));
        }
    }
    json_object_object_add(plan, "columns", columns);
    json_object_object_add(plan, "inputs", inputs);
    json_object_object_add(plan, "optional", optional);
    json_object_object_add(plan, "fed", json_object_new_boolean(options->data.count == 0));
    json_object_object_add(plan, "validates", json_object_new_boolean(options->validates));
    json_object_object_add(plan, "together", json_object_new_boolean(about->together));
    json_object_object_add(plan, "restart_problem", restart_problem(options));
    json_object_object_add(plan, "options", describe_options(options));
    json_object_object_add(plan, "settings", settings());
    return plan;
}

static tfos_status make_plan(const tfos_file_system *served, const tfos__trainer_options *options, char **plan,
                             tfos_error *error)
{
    tfos__description about;
    TFOS_TRY(tfos__description_read(served, options->model, &about, error));
    tfos_status status = tfos__ports_check_columns(&about, options->columns, error);
    if (status == TFOS_OK) {
        json_object *object = describe(options, &about);
        const char *text = json_object_to_json_string_ext(object, JSON_C_TO_STRING_PLAIN);
        *plan = text != NULL ? strdup(text) : NULL;
        status = *plan != NULL ? TFOS_OK : tfos__fail_memory(error, 1);
        json_object_put(object);
    }
    tfos__description_reset(&about);
    return status;
}

tfos_status tfos_trainer_plan(const tfos_file_system *served, const char *options, size_t bytes, char **plan,
                              tfos_error *error)
{
    tfos__trainer_options parsed;
    TFOS_TRY(tfos__trainer_options_parse(options, bytes, &parsed, error));
    tfos_status status = make_plan(served, &parsed, plan, error);
    tfos__trainer_options_reset(&parsed);
    return status;
}
