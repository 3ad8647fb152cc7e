/* Checkpoints of a trainer, and going on from them. Beside each of them lies a note that says where training was:
 * epoch, batches, what was seen in the epoch, and how early stopping stood. Numbers in it are texts, for JSON has no
 * word for those that are not finite, and not a digit may be lost. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/status.h"
#include "tensorflow/trainer_state.h"

enum { NOTE_DEPTH = 8 };

/* Larger than any number of epochs or batches, and small enough to count on. */
static const int64_t position_most = INT64_MAX / 4;

/* ---- places ---- */

static tfos_status open_checkpoints(tfos__trainer *self, tfos_error *error)
{
    const tfos__trainer_options *options = self->options;
    tfos_status status = tfos__checkpoints_open(options->model_dir, (size_t)options->keep, &self->checkpoints, error);
    if (status == TFOS_CORRUPT) {
        tfos__error_prefix(error, "remove this file, or give another model_dir");
    }
    return status;
}

tfos_status tfos__trainer_keep_open(tfos__trainer *trainer, tfos_error *error)
{
    const tfos__trainer_options *options = trainer->options;
    trainer->saved_ms = tfos__clock_ms();
    if (!tfos__trainer_is_first(trainer)) {
        return TFOS_OK;
    }
    if (options->model_dir != NULL) {
        TFOS_TRY(open_checkpoints(trainer, error));
        trainer->keeps = true;
    }
    return options->export_dir != NULL ? tfos__trainer_check_export(trainer, error) : TFOS_OK;
}

/* ---- notes ---- */

static json_object *exact(double number)
{
    char text[40];
    snprintf(text, sizeof text, "%.17g", number);
    return json_object_new_string(text);
}

/* INT64 and texts of real numbers, as they were written; everything else is damage. */
static bool read_number(json_object *value, double *out)
{
    const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    char *end;
    *out = strtod(text, &end);
    return text[0] != '\0' && *end == '\0';
}

static bool read_whole(json_object *object, const char *key, int64_t *out)
{
    json_object *value = tfos__json_member_of(object, key, json_type_int);
    *out = json_object_get_int64(value);
    return value != NULL && *out >= 0 && *out <= position_most;
}

static json_object *describe_stopping(const tfos__stopping *stopping)
{
    json_object *object = json_object_new_object();
    json_object_object_add(object, "best", exact(stopping->best));
    json_object_object_add(object, "best_epoch", json_object_new_int64(stopping->best_epoch));
    json_object_object_add(object, "waited", json_object_new_int64(stopping->waited));
    return object;
}

static void add_seen(const tfos__trainer *self, json_object *note)
{
    json_object *seen = self->seen_is_known && !self->seen_lacks ? json_object_new_array() : NULL;
    for (size_t i = 0; i < self->seen.count && self->at.batches > 0 && seen != NULL; i++) {
        json_object_array_add(seen, exact(self->seen.at[i]));
    }
    json_object_object_add(note, "seen", seen);
}

static json_object *make_note(const tfos__trainer *self)
{
    json_object *note = json_object_new_object();
    const char *data = tfos__trainer_input_about(self->data);
    const char *run = self->options->run;
    json_object_object_add(note, "tfos", json_object_new_string(tfos_version()));
    json_object_object_add(note, "run", run != NULL ? json_object_new_string(run) : NULL);
    json_object_object_add(note, "step", json_object_new_int64(self->at.step));
    json_object_object_add(note, "reached", json_object_new_int64(tfos__max_i64(self->at.step, self->at.reached)));
    json_object_object_add(note, "epoch", json_object_new_int64(self->at.epoch));
    json_object_object_add(note, "batches", json_object_new_int64(self->at.batches));
    json_object_object_add(note, "done", json_object_new_boolean(self->at.done));
    json_object_object_add(note, "data", data != NULL ? json_object_new_string(data) : NULL);
    add_seen(self, note);
    if (self->monitor != NULL && self->stopping.seen) {
        json_object_object_add(note, "monitor", json_object_new_string(self->monitor));
        json_object_object_add(note, "stopping", describe_stopping(&self->stopping));
        json_object_object_add(note, "best_checkpoint", json_object_new_string(self->best_name));
    }
    return note;
}

static tfos_status fail_note(const char *name, const char *key, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "%s.json: '%s' makes no sense", name, key);
}

/* What was seen in the epoch that is under way, or null if whoever wrote it did not know. */
static tfos_status take_seen(tfos__trainer *self, json_object *note, const char *name, tfos_error *error)
{
    json_object *seen = tfos__json_member_of(note, "seen", json_type_array);
    self->seen_is_known = self->at.batches == 0 || seen != NULL;
    if (self->at.batches == 0) {
        return TFOS_OK;
    }
    if (seen == NULL) {
        tfos__trainer_say(self,
                          "what was seen in epoch %" PRId64 " before is not known: its values are those of the rest",
                          self->at.epoch + 1);
        return TFOS_OK;
    }
    if (json_object_array_length(seen) != self->seen.count) {
        return fail_note(name, "seen", error);
    }
    for (size_t i = 0; i < self->seen.count; i++) {
        if (!read_number(json_object_array_get_idx(seen, i), &self->seen.at[i])) {
            return fail_note(name, "seen", error);
        }
    }
    return TFOS_OK;
}

static tfos_status take_stopping(tfos__trainer *self, json_object *note, const char *name, tfos_error *error)
{
    json_object *from = tfos__json_member_of(note, "stopping", json_type_object);
    tfos__stopping *to = &self->stopping;
    if (from == NULL || self->monitor == NULL || strcmp(self->monitor, tfos__json_text(note, "monitor")) != 0) {
        return TFOS_OK;
    }
    if (!read_number(tfos__json_member(from, "best"), &to->best) || !read_whole(from, "best_epoch", &to->best_epoch) ||
        !read_whole(from, "waited", &to->waited)) {
        return fail_note(name, "stopping", error);
    }
    to->seen = true;
    snprintf(self->best_name, sizeof self->best_name, "%s", tfos__json_text(note, "best_checkpoint"));
    /* That it was the end is true as long as nobody wants more patience, or looks at something else. */
    self->at.done = json_object_get_boolean(tfos__json_member(note, "done")) && to->waited >= to->patience;
    return TFOS_OK;
}

/* Where training was, as far as that is true of the data that there are now. */
static tfos_status take_note(tfos__trainer *self, json_object *note, const char *name, tfos_error *error)
{
    const char *data = tfos__trainer_input_about(self->data);
    tfos__trainer_position *at = &self->at;
    if (!read_whole(note, "epoch", &at->epoch) || !read_whole(note, "batches", &at->batches)) {
        return fail_note(name, "epoch, batches", error);
    }
    if (tfos__json_member(note, "reached") != NULL && !read_whole(note, "reached", &at->reached)) {
        return fail_note(name, "reached", error);
    }
    bool same = data != NULL && strcmp(data, tfos__json_text(note, "data")) == 0;
    if (at->batches > 0 && !same) {
        if (data != NULL) {
            tfos__trainer_say(self,
                              "%s was written with other data, or in another order: epoch %" PRId64
                              " begins anew (then: %s; now: %s)",
                              name, at->epoch + 1, tfos__json_text(note, "data"), data);
        }
        at->batches = 0;
    }
    TFOS_TRY(take_seen(self, note, name, error));
    return take_stopping(self, note, name, error);
}

/* *out is NULL if there is none, as beside checkpoints of others. */
static tfos_status load_note(const tfos__trainer *self, size_t index, json_object **out, tfos_error *error)
{
    tfos__buffer text = {0};
    tfos__json_fault fault;
    const char *name = self->checkpoints.at[index].name;
    *out = NULL;
    tfos_status status = tfos__checkpoints_note(&self->checkpoints, index, &text, error);
    if (status == TFOS_OK) {
        status = tfos__json_object_parse((const char *)text.data, text.size, NOTE_DEPTH, out, &fault, error);
    }
    if (status == TFOS_INVALID) {
        status =
            tfos__fail(error, TFOS_CORRUPT, "%s.json is no JSON object: %s, at byte %zu", name, fault.what, fault.at);
    }
    tfos__buffer_reset(&text);
    return status == TFOS_NOT_FOUND ? TFOS_OK : status;
}

static tfos_status read_note(tfos__trainer *self, size_t index, tfos_error *error)
{
    json_object *note;
    const char *name = self->checkpoints.at[index].name;
    self->at = (tfos__trainer_position){0};
    TFOS_TRY(load_note(self, index, &note, error));
    if (note == NULL) {
        tfos__trainer_say(self, "%s has no note (%s.json) of where training was: it goes on with epoch 1", name, name);
        return TFOS_OK;
    }
    tfos_status status = take_note(self, note, name, error);
    json_object_put(note);
    return status;
}

/* Whether a checkpoint was written by this training, before it was started again. */
static bool is_ours(const tfos__trainer *self, size_t index)
{
    json_object *note = NULL;
    bool ours = false;
    if (self->options->run != NULL && load_note(self, index, &note, NULL) == TFOS_OK) {
        ours = strcmp(self->options->run, tfos__json_text(note, "run")) == 0;
    }
    json_object_put(note);
    return ours;
}

/* ---- going on ---- */

/* Whether the fault is that of the checkpoint's files, so that an older one may be better. */
static bool is_damage(tfos_status status)
{
    return status == TFOS_CORRUPT || status == TFOS_RANGE || status == TFOS_IO || status == TFOS_TRUNCATED;
}

/* Whether TensorFlow has found other variables, or variables of other shapes, than the model has. What else may go
 * wrong, such as memory that is short, says nothing of the model. */
static bool is_other_model(tfos_status status)
{
    return status == TFOS_NOT_FOUND || status == TFOS_INVALID;
}

static tfos_status fail_other_model(const char *prefix, tfos_error *error)
{
    tfos_error cause = *error;
    return tfos__fail(error, TFOS_MISMATCH,
                      "%s is a checkpoint of another model, or of one with another optimizer: give another model_dir, "
                      "or resume=False, which begins anew (%s)",
                      prefix, cause.message);
}

static tfos_status restore(tfos__trainer *self, size_t index, tfos_error *error)
{
    char *prefix = tfos__checkpoints_prefix(&self->checkpoints, self->checkpoints.at[index].name);
    if (prefix == NULL) {
        return tfos__fail_memory(error, 1);
    }
    tfos_status status = tfos__checkpoints_look(&self->checkpoints, index, error);
    if (status == TFOS_NOT_FOUND) {
        status = tfos__fail(error, TFOS_CORRUPT, "%s: not all of its files are there", prefix);
    } else if (status == TFOS_OK) {
        status = tfos__trainable_restore(self->model, prefix, error);
        if (is_other_model(status)) {
            status = fail_other_model(prefix, error);
        }
    }
    free(prefix);
    status = status == TFOS_OK ? tfos__trainer_check_finite(self, error) : status;
    return status == TFOS_OK ? read_note(self, index, error) : status;
}

/* The newest that can be read. */
static tfos_status restore_any(tfos__trainer *self, tfos_error *error)
{
    size_t count = self->checkpoints.count;
    for (size_t i = count; i > 0; i--) {
        tfos__trainable_status now;
        const char *name = self->checkpoints.at[i - 1].name;
        tfos_status status = restore(self, i - 1, error);
        if (is_damage(status)) {
            tfos__trainer_say(self, "%s is damaged, and the checkpoint before it is tried: %s", name, error->message);
            continue;
        }
        TFOS_TRY(status);
        TFOS_TRY(tfos__trainable_status_of(self->model, &now, error));
        self->at.step = now.iterations;
        if (strlen(name) < sizeof self->state_name && strchr(name, '/') == NULL) { /* it is one of our own */
            memcpy(self->state_name, name, strlen(name) + 1);
        }
        tfos__trainer_say(self, "goes on from %s: epoch %" PRId64 ", step %" PRId64, name, self->at.epoch + 1,
                          self->at.step);
        tfos__checkpoints_cut(&self->checkpoints, i);
        self->goes_on = true;
        return TFOS_OK;
    }
    tfos_error last = *error;
    return tfos__fail(error, TFOS_CORRUPT,
                      "%s: none of its %zu checkpoints can be read. Give another model_dir, or resume=False, which "
                      "begins anew. The last: %s",
                      self->checkpoints.folder, count, last.message);
}

/* All are told where training is. */
static tfos_status share_position(tfos__trainer *self, tfos_error *error)
{
    bool first = tfos__trainer_is_first(self);
    tfos__stopping *stopping = &self->stopping;
    double numbers[] = {(double)self->at.epoch,       (double)self->at.batches, (double)self->at.step,
                        self->at.done ? 1 : 0,        stopping->seen ? 1 : 0,   stopping->best,
                        (double)stopping->best_epoch, (double)stopping->waited, (double)self->at.reached,
                        self->seen_is_known ? 1 : 0,  self->goes_on ? 1 : 0};
    enum { COUNT = sizeof numbers / sizeof numbers[0] };
    if (!first) {
        memset(numbers, 0, sizeof numbers);
    }
    TFOS_TRY(tfos__trainer_sum(self, numbers, COUNT, "where training is", error));
    self->at = (tfos__trainer_position){.epoch = (int64_t)numbers[0],
                                        .batches = (int64_t)numbers[1],
                                        .step = (int64_t)numbers[2],
                                        .reached = (int64_t)numbers[8],
                                        .done = numbers[3] > 0};
    self->seen_is_known = numbers[9] > 0;
    self->goes_on = numbers[10] > 0;
    stopping->seen = numbers[4] > 0;
    stopping->best = numbers[5];
    stopping->best_epoch = (int64_t)numbers[6];
    stopping->waited = (int64_t)numbers[7];
    TFOS_TRY(tfos__trainer_sum(self, self->seen.at, self->seen.count, "what was seen", error));
    return tfos__trainer_share(self, first, first ? 1 : 0, error);
}

/* With resume=False, checkpoints count that this training has written before it was started again. */
static void leave_out_others(tfos__trainer *self)
{
    size_t count = self->checkpoints.count;
    if (count > 0 && !is_ours(self, count - 1)) {
        tfos__trainer_say(self, "%s has checkpoints of an earlier training, which are not used (resume=False)",
                          self->checkpoints.folder);
        tfos__checkpoints_cut(&self->checkpoints, 0);
    }
}

tfos_status tfos__trainer_resume(tfos__trainer *trainer, tfos_error *error)
{
    tfos__trainable_status now;
    trainer->seen_is_known = true;
    if (trainer->keeps && !trainer->options->resume) {
        leave_out_others(trainer);
    }
    if (trainer->keeps && trainer->checkpoints.count > 0) {
        TFOS_TRY(restore_any(trainer, error));
    } else if (trainer->keeps && trainer->options->resume) {
        tfos__trainer_say(trainer, "%s has no checkpoint: training begins", trainer->checkpoints.folder);
    }
    TFOS_TRY(tfos__trainable_status_of(trainer->model, &now, error));
    trainer->at.step = now.iterations;
    trainer->unsaved = trainer->state_name[0] == '\0';
    TFOS_TRY(share_position(trainer, error));
    trainer->asked_step = trainer->at.step;
    trainer->outcome->epochs = trainer->at.epoch;
    return TFOS_OK;
}

/* ---- saving ---- */

bool tfos__trainer_save_is_due(const tfos__trainer *trainer)
{
    double waited_s = (double)(tfos__clock_ms() - trainer->saved_ms) / 1000;
    return trainer->keeps && trainer->options->save_s > 0 && waited_s >= trainer->options->save_s;
}

tfos_status tfos__trainer_check_finite(tfos__trainer *trainer, tfos_error *error)
{
    bool finite = true;
    if (trainer->options->on_nan == TFOS__ON_NAN_CONTINUE) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__trainable_is_finite(trainer->model, &finite, error));
    return finite ? TFOS_OK
                  : tfos__fail(error, TFOS_RANGE,
                               "there are weights, or numbers of the optimizer, that are not finite. Behind step "
                               "%" PRId64 ": lower the learning rate, or clip gradients; on_nan says what else may be "
                               "done (skip, continue). Such a state is not kept",
                               trainer->at.step);
}

/* A name that no other state has, for what counts is never written over: with gradients that are accumulated a step has
 * several states, and an earlier training has left its own. */
static void name_state(tfos__trainer *self)
{
    snprintf(self->state_name, sizeof self->state_name, "ckpt-%" PRId64, self->at.step);
    for (int i = 2; tfos__checkpoints_is_taken(&self->checkpoints, self->state_name); i++) {
        snprintf(self->state_name, sizeof self->state_name, "ckpt-%" PRId64 "-%d", self->at.step, i);
    }
}

static tfos_status write_state(tfos__trainer *self, const char *prefix, tfos_error *error)
{
    tfos__checkpoint_remove(prefix); /* of one that did not count */
    tfos_status status = tfos__trainable_save(self->model, prefix, error);
    status = status == TFOS_OK ? tfos__checkpoint_sync(prefix, error) : status;
    if (status != TFOS_OK) {
        tfos__checkpoint_remove(prefix);
    }
    return status;
}

static tfos_status write_checkpoint(tfos__trainer *self, bool best, tfos_error *error)
{
    if (self->unsaved) {
        name_state(self);
    }
    char *prefix = tfos__checkpoints_prefix(&self->checkpoints, self->state_name);
    tfos_status status = prefix == NULL   ? tfos__fail_memory(error, 1)
                         : !self->unsaved ? TFOS_OK
                                          : write_state(self, prefix, error);
    if (status == TFOS_OK) {
        if (best) {
            memcpy(self->best_name, self->state_name, sizeof self->best_name);
        }
        json_object *note = make_note(self);
        const char *text = json_object_to_json_string_ext(note, JSON_C_TO_STRING_PRETTY);
        status = tfos__checkpoints_add(&self->checkpoints, self->state_name, text,
                                       self->best_name[0] != '\0' ? self->best_name : NULL, error);
        json_object_put(note);
    }
    if (status == TFOS_OK) {
        self->unsaved = false;
        free(self->outcome->checkpoint);
        self->outcome->checkpoint = prefix;
        return TFOS_OK;
    }
    if (best) {
        self->best_name[0] = '\0'; /* of which there are no files */
    }
    free(prefix);
    return status;
}

static tfos_status save(tfos__trainer *self, bool best, bool last, tfos_error *error)
{
    if (!self->keeps) {
        return TFOS_OK;
    }
    self->saved_ms = tfos__clock_ms(); /* also of one that fails: it is tried again after as long */
    TFOS_TRY(tfos__trainer_check_finite(self, error));
    tfos_status status = write_checkpoint(self, best, error);
    if (status == TFOS_OK || last) {
        return status;
    }
    self->unsaved = true;
    tfos__trainer_say(self, "the checkpoint of step %" PRId64 " cannot be written, and training goes on: %s",
                      self->at.step, error->message);
    return TFOS_OK;
}

tfos_status tfos__trainer_save(tfos__trainer *trainer, bool last, tfos_error *error)
{
    return save(trainer, false, last, error);
}

/* ---- the best epoch ---- */

tfos_status tfos__trainer_keep_best(tfos__trainer *trainer, tfos_error *error)
{
    TFOS_TRY(tfos__trainable_take(trainer->model, &trainer->best, error));
    trainer->best_name[0] = '\0';
    return save(trainer, true, false, error);
}

/* The best epoch was before this run began, and only the first worker has it, in a checkpoint. */
static tfos_status read_best(tfos__trainer *self, bool *done, tfos_error *error)
{
    tfos__snapshot *before = NULL;
    char *prefix = NULL;
    tfos_status status = TFOS_OK;
    *done = false;
    if (self->keeps) {
        TFOS_TRY(tfos__trainable_take(self->model, &before, error));
        prefix = tfos__checkpoints_prefix(&self->checkpoints, self->best_name);
        status = self->best_name[0] == '\0' ? tfos__fail(error, TFOS_NOT_FOUND, "there is no checkpoint of it")
                 : prefix == NULL           ? tfos__fail_memory(error, 1)
                                            : tfos__trainable_restore(self->model, prefix, error);
        *done = status == TFOS_OK;
        if (!*done) {
            tfos__trainer_say(self,
                              "the best epoch, %" PRId64 ", cannot be read, and the model stays that of the last: %s",
                              self->stopping.best_epoch, error->message);
            status = tfos__trainable_put(self->model, before, error);
        }
    }
    tfos__snapshot_free(self->model, before);
    free(prefix);
    TFOS_TRY(status);
    double numbers[] = {*done ? 1 : 0};
    TFOS_TRY(tfos__trainer_sum(self, numbers, 1, "whether the best epoch is there", error));
    *done = numbers[0] > 0;
    return *done ? tfos__trainer_share(self, tfos__trainer_is_first(self), tfos__trainer_is_first(self) ? 1 : 0, error)
                 : TFOS_OK;
}

tfos_status tfos__trainer_use_best(tfos__trainer *trainer, tfos_error *error)
{
    double numbers[] = {trainer->best != NULL ? 1 : 0};
    tfos__trainable_status now;
    bool done = true;
    if (trainer->monitor == NULL || !trainer->options->restore_best || !trainer->stopping.seen) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__trainer_sum(trainer, numbers, 1, "who has the best epoch", error));
    TFOS_TRY(numbers[0] == (double)trainer->size ? tfos__trainable_put(trainer->model, trainer->best, error)
                                                 : read_best(trainer, &done, error));
    if (!done) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__trainable_status_of(trainer->model, &now, error));
    if (now.iterations != trainer->at.step && tfos__trainer_is_first(trainer)) {
        tfos__trainer_say(trainer, "goes back to epoch %" PRId64 ", the best by %s (%g)", trainer->stopping.best_epoch,
                          trainer->monitor, trainer->stopping.best);
    }
    trainer->at.reached = tfos__max_i64(trainer->at.reached, trainer->at.step);
    trainer->at.step = now.iterations;
    trainer->unsaved = !tfos__checkpoints_has(&trainer->checkpoints, trainer->best_name);
    if (!trainer->unsaved) {
        memcpy(trainer->state_name, trainer->best_name, sizeof trainer->state_name);
    }
    return TFOS_OK;
}
