/* The options of a trainer. */
#include "tensorflow/trainer_options.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/choice.h"
#include "base/json.h"
#include "base/status.h"
#include "fs/local.h"

enum { DEPTH = 8, LIST_MOST = 1 << 20 };

static const char *const on_nan_words[] = {"stop", "continue", "skip", NULL};
static const char *const mode_words[] = {"auto", "min", "max", NULL};
static const char *const on_corrupt_words[] = {"error", "skip", NULL};

typedef tfos__trainer_option option_row;

static const option_row rows[] = {
#define ROW(kind, member, key, fallback, least, most, meaning)                                                         \
    {TFOS__OPTION_##kind, key,    offsetof(tfos__trainer_options, member), (double)(least), (double)(most),            \
     #fallback,           meaning},
    TFOS__TRAINER_OPTION_MAP(ROW)
#undef ROW
};

enum { ROW_COUNT = sizeof rows / sizeof rows[0] };

const tfos__trainer_option *tfos__trainer_option_at(size_t index)
{
    return index < ROW_COUNT ? &rows[index] : NULL;
}

static const char *const other_keys[] = {"data", "validation", "columns", "learning_rate", "op_libraries", "run"};

enum { OTHER_COUNT = sizeof other_keys / sizeof other_keys[0] };

/* ---- messages ---- */

static tfos_status fail(const char *key, const char *expected, json_object *found, tfos_error *error)
{
    return tfos__fail(error, TFOS_INVALID, "%s: expected %s, found %s", key, expected,
                      tfos__printable_text(found != NULL ? json_object_to_json_string(found) : "nothing").text);
}

static tfos_status fail_bounds(const option_row *row, json_object *found, tfos_error *error)
{
    char expected[96];
    snprintf(expected, sizeof expected, "a %snumber from %.15g to %.15g",
             row->kind == TFOS__OPTION_NUMBER ? "whole " : "", row->least, row->most);
    return fail(row->key, expected, found, error);
}

static tfos_status refuse_unknown(json_object *object, tfos_error *error)
{
    json_object_object_foreach(object, key, value)
    {
        bool known = false;
        (void)value;
        for (size_t i = 0; i < ROW_COUNT; i++) {
            known = known || strcmp(rows[i].key, key) == 0;
        }
        for (size_t i = 0; i < OTHER_COUNT; i++) {
            known = known || strcmp(other_keys[i], key) == 0;
        }
        if (!known) {
            return tfos__fail(error, TFOS_INVALID, "a trainer has no option '%s'; docs/native.md lists them",
                              tfos__printable_text(key).text);
        }
    }
    return TFOS_OK;
}

/* ---- values of one form ---- */

static const char *const *words_of(const option_row *row)
{
    return strcmp(row->key, "on_nan") == 0 ? on_nan_words
           : strcmp(row->key, "mode") == 0 ? mode_words
                                           : on_corrupt_words;
}

const char *tfos__trainer_choice_name(const tfos__trainer_option *option, int value)
{
    return tfos__choice_name(words_of(option), (unsigned)value);
}

static tfos_status take_text(const option_row *row, json_object *value, void *to, tfos_error *error)
{
    const char *text = json_object_get_string(value);
    if (!json_object_is_type(value, json_type_string) || text[0] == '\0' ||
        strlen(text) != (size_t)json_object_get_string_len(value)) {
        return fail(row->key, "a text", value, error);
    }
    memcpy(to, &text, sizeof text);
    return TFOS_OK;
}

static tfos_status take_number(const option_row *row, json_object *value, void *to, tfos_error *error)
{
    int64_t whole = json_object_get_int64(value);
    double real = json_object_get_double(value);
    bool is_whole = json_object_is_type(value, json_type_int);
    bool is_number = is_whole || (row->kind == TFOS__OPTION_REAL && json_object_is_type(value, json_type_double));
    if (!is_number || !(real >= row->least && real <= row->most)) {
        return fail_bounds(row, value, error);
    }
    if (row->kind == TFOS__OPTION_NUMBER) {
        memcpy(to, &whole, sizeof whole);
    } else {
        memcpy(to, &real, sizeof real);
    }
    return TFOS_OK;
}

static tfos_status take_switch(const option_row *row, json_object *value, void *to, tfos_error *error)
{
    bool flag = json_object_get_boolean(value);
    if (!json_object_is_type(value, json_type_boolean)) {
        return fail(row->key, "true or false", value, error);
    }
    memcpy(to, &flag, sizeof flag);
    return TFOS_OK;
}

static tfos_status take_choice(const option_row *row, json_object *value, void *to, tfos_error *error)
{
    int number;
    const char *text = json_object_is_type(value, json_type_string) ? json_object_get_string(value) : "";
    TFOS_TRY(tfos__choice_parse(row->key, words_of(row), text, &number, error));
    memcpy(to, &number, sizeof number);
    return TFOS_OK;
}

static tfos_status take_row(const option_row *row, json_object *value, tfos__trainer_options *out, tfos_error *error)
{
    static tfos_status (*const take[])(const option_row *, json_object *, void *,
                                       tfos_error *) = {take_text, take_number, take_number, take_switch, take_choice};
    return take[row->kind](row, value, (char *)out + row->offset, error);
}

/* ---- values of other forms ---- */

static tfos_status take_texts(const char *key, json_object *value, tfos__texts *out, tfos_error *error)
{
    bool one = json_object_is_type(value, json_type_string);
    bool list = json_object_is_type(value, json_type_array);
    size_t count = one ? 1 : list ? json_object_array_length(value) : 0;
    if (count == 0 || count > LIST_MOST) {
        return fail(key, "a path, or a list of paths", value, error);
    }
    out->at = calloc(count, sizeof *out->at);
    if (out->at == NULL) {
        return tfos__fail_memory(error, count * sizeof *out->at);
    }
    for (size_t i = 0; i < count; i++) {
        json_object *each = one ? value : json_object_array_get_idx(value, i);
        if (!json_object_is_type(each, json_type_string) || json_object_get_string_len(each) == 0) {
            return fail(key, "a path, or a list of paths", value, error);
        }
        out->at[out->count++] = json_object_get_string(each);
    }
    return TFOS_OK;
}

static tfos_status take_validation(json_object *value, tfos__trainer_options *out, tfos_error *error)
{
    if (json_object_is_type(value, json_type_boolean)) {
        out->validates = json_object_get_boolean(value);
        return TFOS_OK;
    }
    out->validates = true;
    return take_texts("validation", value, &out->validation, error);
}

static tfos_status take_columns(json_object *value, tfos__trainer_options *out, tfos_error *error)
{
    if (!json_object_is_type(value, json_type_object)) {
        return fail("columns", "an object {column: name in the model}", value, error);
    }
    json_object_object_foreach(value, column, name)
    {
        if (column[0] == '\0' || !json_object_is_type(name, json_type_string)) {
            return fail("columns", "an object {column: name in the model}", value, error);
        }
    }
    out->columns = json_object_object_length(value) > 0 ? value : NULL;
    return TFOS_OK;
}

static bool take_rate_step(json_object *pair, tfos__rate_step *out)
{
    if (!json_object_is_type(pair, json_type_array) || json_object_array_length(pair) != 2 ||
        !json_object_is_type(json_object_array_get_idx(pair, 0), json_type_int)) {
        return false;
    }
    json_object *rate = json_object_array_get_idx(pair, 1);
    out->step = json_object_get_int64(json_object_array_get_idx(pair, 0));
    out->rate = json_object_get_double(rate);
    return out->step >= 0 && out->rate >= 0 && isfinite(out->rate) &&
           (json_object_is_type(rate, json_type_double) || json_object_is_type(rate, json_type_int));
}

static tfos_status take_rates(json_object *value, tfos__trainer_options *out, tfos_error *error)
{
    static const char expected[] = "a rate of 0 or more, or a list [[step, rate], …] in the order of steps";
    bool list = json_object_is_type(value, json_type_array);
    bool one = json_object_is_type(value, json_type_double) || json_object_is_type(value, json_type_int);
    size_t count = list ? json_object_array_length(value) : one ? 1 : 0;
    if (count == 0 || count > LIST_MOST) {
        return fail("learning_rate", expected, value, error);
    }
    out->rates = calloc(count, sizeof *out->rates);
    if (out->rates == NULL) {
        return tfos__fail_memory(error, count * sizeof *out->rates);
    }
    for (size_t i = 0; i < count; i++) {
        tfos__rate_step *to = &out->rates[i];
        *to = (tfos__rate_step){0, json_object_get_double(value)};
        bool good =
            list ? take_rate_step(json_object_array_get_idx(value, i), to) : to->rate >= 0 && isfinite(to->rate);
        if (!good || (i > 0 && to->step <= to[-1].step)) {
            return fail("learning_rate", expected, value, error);
        }
    }
    out->rate_count = count;
    return TFOS_OK;
}

double tfos__trainer_rate(const tfos__trainer_options *options, int64_t step)
{
    double rate = -1;
    for (size_t i = 0; i < options->rate_count && options->rates[i].step <= step; i++) {
        rate = options->rates[i].rate;
    }
    return rate;
}

/* ---- places ---- */

/* The local path of what may begin with file://. */
static tfos_status localize(const char *key, const char *instead, const char **path, tfos_error *error)
{
    const char *local = NULL;
    tfos_status status = *path != NULL ? tfos__path_local(*path, &local, error) : TFOS_OK;
    if (status != TFOS_OK) {
        return tfos__fail(error, status, "%s: '%s' is no local path. %s", key, tfos__printable_text(*path).text,
                          instead);
    }
    *path = local;
    return TFOS_OK;
}

static tfos_status localize_all(tfos__trainer_options *self, tfos_error *error)
{
    static const char folder[] = "Trainers write to folders that the nodes see as local ones, such as a mounted share";
    static const char files[] = "Read them with Spark and feed them: spark.read.format(\"tfrecord\"), InputMode.SPARK";
    TFOS_TRY(localize("model_dir", folder, &self->model_dir, error));
    TFOS_TRY(localize("export_dir", folder, &self->export_dir, error));
    TFOS_TRY(localize("log_dir", folder, &self->log_dir, error));
    for (size_t i = 0; i < self->data.count; i++) {
        TFOS_TRY(localize("data", files, &self->data.at[i], error));
    }
    for (size_t i = 0; i < self->validation.count; i++) {
        TFOS_TRY(localize("validation", files, &self->validation.at[i], error));
    }
    return TFOS_OK;
}

/* ---- all of it ---- */

void tfos__trainer_options_reset(tfos__trainer_options *options)
{
    free((void *)options->data.at);
    free((void *)options->validation.at);
    free((void *)options->libraries.at);
    free(options->rates);
    json_object_put(options->text);
    *options = (tfos__trainer_options){0};
}

static bool is_given(json_object *object, const char *key, json_object **value)
{
    *value = tfos__json_member(object, key);
    return *value != NULL; /* null is as good as nothing */
}

static tfos_status take_all(json_object *object, tfos__trainer_options *out, tfos_error *error)
{
    json_object *value;
    for (size_t i = 0; i < ROW_COUNT; i++) {
        if (is_given(object, rows[i].key, &value)) {
            TFOS_TRY(take_row(&rows[i], value, out, error));
        }
    }
    if (is_given(object, "data", &value)) {
        TFOS_TRY(take_texts("data", value, &out->data, error));
    }
    if (is_given(object, "validation", &value)) {
        TFOS_TRY(take_validation(value, out, error));
    }
    if (is_given(object, "columns", &value)) {
        TFOS_TRY(take_columns(value, out, error));
    }
    if (is_given(object, "op_libraries", &value)) {
        TFOS_TRY(take_texts("op_libraries", value, &out->libraries, error));
    }
    if (is_given(object, "run", &value) && json_object_is_type(value, json_type_string)) {
        out->run = json_object_get_string(value);
    }
    return is_given(object, "learning_rate", &value) ? take_rates(value, out, error) : TFOS_OK;
}

/* Options that would do nothing are errors: whoever gives one counts on it. */
static tfos_status refuse_idle(const tfos__trainer_options *self, const char *const *keys, size_t count,
                               const char *reason, tfos_error *error)
{
    json_object *value;
    for (size_t i = 0; i < count; i++) {
        if (is_given(self->text, keys[i], &value)) {
            return tfos__fail(error, TFOS_INVALID, "%s: %s", keys[i], reason);
        }
    }
    return TFOS_OK;
}

static tfos_status check_idle(const tfos__trainer_options *self, tfos_error *error)
{
    static const char *const of_stopping[] = {"monitor", "min_delta", "mode", "restore_best"};
    static const char *const of_files[] = {"epochs", "shuffle", "seed", "on_corrupt"};
    static const char *const of_folder[] = {"save_steps", "save_seconds", "keep"};
    if (self->patience < 0) {
        TFOS_TRY(refuse_idle(self, of_stopping, sizeof of_stopping / sizeof of_stopping[0],
                             "expected patience beside it, because it is about early stopping, found none", error));
    }
    if (self->data.count == 0) {
        TFOS_TRY(refuse_idle(self, of_files, sizeof of_files / sizeof of_files[0],
                             "expected files as data, because it is about reading them, found none: what Spark feeds "
                             "comes in the order and for the epochs of train(…)",
                             error));
    }
    return self->model_dir == NULL ? refuse_idle(self, of_folder, sizeof of_folder / sizeof of_folder[0],
                                                 "expected model_dir beside it, because it is about checkpoints, "
                                                 "found none",
                                                 error)
                                   : TFOS_OK;
}

/* What cannot be together. */
static tfos_status check(const tfos__trainer_options *self, tfos_error *error)
{
    if (self->model == NULL) {
        return tfos__fail(error, TFOS_INVALID,
                          "model: expected the folder that native.export has written, found nothing");
    }
    if (self->data.count > 0 && self->validates && self->validation.count == 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "validation: expected files, because the data are files, found true: it is what Spark feeds "
                          "beside the data");
    }
    if (self->data.count == 0 && self->validation.count > 0) {
        return tfos__fail(error, TFOS_INVALID,
                          "validation: expected true, because Spark feeds the data, found files: feed them, too "
                          "(train(…, validation=DATAFRAME))");
    }
    if (self->monitor != NULL && strncmp(self->monitor, "val_", 4) == 0 && !self->validates) {
        return tfos__fail(error, TFOS_INVALID, "monitor: '%s' is a value of validation, and there is none",
                          tfos__printable_text(self->monitor).text);
    }
    return check_idle(self, error);
}

tfos_status tfos__trainer_options_parse(const char *text, size_t bytes, tfos__trainer_options *out, tfos_error *error)
{
#define INITIAL_TEXT(member, fallback) .member = (fallback),
#define INITIAL_NUMBER(member, fallback) .member = (fallback),
#define INITIAL_REAL(member, fallback) .member = (fallback),
#define INITIAL_SWITCH(member, fallback) .member = (fallback),
#define INITIAL_CHOICE(member, fallback)
#define INITIAL(kind, member, key, fallback, least, most, meaning) INITIAL_##kind(member, fallback)
    tfos__trainer_options self = {TFOS__TRAINER_OPTION_MAP(INITIAL)}; /* the first word of each choice is its default */
#undef INITIAL
    tfos__json_fault fault;
    tfos_status status = tfos__json_object_parse(text, bytes, DEPTH, &self.text, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "the options of a trainer are no JSON object: %s, at byte %zu",
                          fault.what, fault.at);
    }
    status = status == TFOS_OK ? refuse_unknown(self.text, error) : status;
    status = status == TFOS_OK ? take_all(self.text, &self, error) : status;
    status = status == TFOS_OK ? check(&self, error) : status;
    status = status == TFOS_OK ? localize_all(&self, error) : status;
    if (status != TFOS_OK) {
        tfos__trainer_options_reset(&self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}
