/* The event files of a trainer, as Keras lays them out: what is seen in training and in validation in two folders, with
 * the same tags, so that TensorBoard draws them in one picture.
 *
 *   LOG_DIR/train, LOG_DIR/validation        epoch_NAME by epochs from 0, as Keras has it; NAME by steps;
 * rows_per_second
 *
 * That something cannot be written is said once, and no reason to stop training. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "fs/fs.h"
#include "tensorflow/saved_model_parts.h"
#include "tensorflow/trainer_state.h"

enum { MODEL_BYTES = 1 << 30, FIELD_META_GRAPH = 2, FIELD_GRAPH = 2 };

static const char validation_prefix[] = "val_";

static void give_up(tfos__trainer *self, const tfos_error *error)
{
    tfos__trainer_say(self, "no more event files are written: %s", error->message);
    tfos__trainer_events_close(self);
}

void tfos__trainer_events_close(tfos__trainer *trainer)
{
    tfos__events_close(trainer->train_events);
    tfos__events_close(trainer->validation_events);
    trainer->train_events = NULL;
    trainer->validation_events = NULL;
}

/* ---- the graph ---- */

static tfos_status take_graph(void *context, const tfos__model_field *field, tfos_error *error)
{
    tfos__events *events = context;
    size_t bytes = (size_t)(field->bytes.end - field->bytes.at);
    return field->number == FIELD_GRAPH && bytes > 0 ? tfos__events_graph(events, field->bytes.at, bytes, error)
                                                     : TFOS_OK;
}

static tfos_status take_meta_graph(void *context, const tfos__model_field *field, tfos_error *error)
{
    return field->number == FIELD_META_GRAPH ? tfos__model_each_field(field->bytes, take_graph, context, error)
                                             : TFOS_OK;
}

/* That of the model for prediction, which people know; the one of training has little but calls of functions in it. */
static tfos_status write_graph(tfos__trainer *self, tfos_error *error)
{
    char *path = NULL;
    tfos__buffer file = {0};
    if (asprintf(&path, "%s/serving/saved_model.pb", tfos__trainable_folder(self->model)) < 0) {
        return tfos__fail_memory(error, 1);
    }
    tfos_status status = tfos__file_slurp(NULL, path, MODEL_BYTES, &file, error);
    if (status == TFOS_OK) {
        tfos__wire bytes = {file.data, file.data + file.size};
        status = tfos__model_each_field(bytes, take_meta_graph, self->train_events, error);
    }
    tfos__buffer_reset(&file);
    free(path);
    return status;
}

/* ---- files ---- */

static tfos_status open_in(const char *folder, const char *name, tfos__events **out, tfos_error *error)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0) {
        return tfos__fail_memory(error, strlen(folder));
    }
    tfos_status status = tfos__events_open(path, out, error);
    free(path);
    return status;
}

void tfos__trainer_events_open(tfos__trainer *trainer)
{
    tfos_error error;
    const char *folder = trainer->options->log_dir != NULL ? trainer->options->log_dir : trainer->options->model_dir;
    if (folder == NULL || !tfos__trainer_is_first(trainer)) {
        return;
    }
    tfos_status status = open_in(folder, "train", &trainer->train_events, &error);
    if (status == TFOS_OK && trainer->validation != NULL) {
        status = open_in(folder, "validation", &trainer->validation_events, &error);
    }
    if (status != TFOS_OK) {
        give_up(trainer, &error);
    } else if (write_graph(trainer, &error) != TFOS_OK) {
        tfos__trainer_say(trainer, "event files have no graph: %s", error.message);
    }
}

/* ---- values ---- */

static tfos_status add_value(tfos__trainer *self, const tfos__step_value *value, bool epoch_end, tfos_error *error)
{
    const size_t prefix = sizeof validation_prefix - 1;
    bool validated = strncmp(value->name, validation_prefix, prefix) == 0 && self->validation_events != NULL;
    char tag[TFOS__STEP_NAME_BYTES * 2];
    snprintf(tag, sizeof tag, "%s%s", epoch_end ? "epoch_" : "", value->name + (validated ? prefix : 0));
    return tfos__events_scalar(validated ? self->validation_events : self->train_events, tag,
                               epoch_end ? self->epoch_now - 1 : self->at.step, value->value, error);
}

static tfos_status add_rate(tfos__trainer *self, tfos_error *error)
{
    tfos__trainable_status now;
    double rate = tfos__trainer_rate(self->options, self->at.step);
    TFOS_TRY(tfos__trainable_status_of(self->model, &now, error));
    return tfos__events_scalar(self->train_events, "epoch_learning_rate", self->epoch_now - 1,
                               rate >= 0 ? rate : now.rate, error);
}

void tfos__trainer_events_add(tfos__trainer *trainer, const tfos__step_values *values, bool epoch_end,
                              double rows_per_s)
{
    tfos_error error;
    tfos_status status = TFOS_OK;
    if (trainer->train_events == NULL) {
        return;
    }
    for (size_t i = 0; i < values->count && status == TFOS_OK; i++) {
        status = add_value(trainer, &values->at[i], epoch_end, &error);
    }
    status = status == TFOS_OK && epoch_end ? add_rate(trainer, &error) : status;
    if (status == TFOS_OK && !isnan(rows_per_s)) {
        status = tfos__events_scalar(trainer->train_events, "rows_per_second", trainer->at.step, rows_per_s, &error);
    }
    if (status != TFOS_OK) {
        give_up(trainer, &error);
    }
}
