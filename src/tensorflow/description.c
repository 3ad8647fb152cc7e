/* Descriptions of trainable models: JSON, read strictly in what is used of it. */
#include "tensorflow/description.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/json.h"
#include "base/status.h"
#include "fs/fs.h"

enum {
    CONTRACT = 1,
    DEPTH = 16,
    FILE_BYTES = 64 << 20,
    PORTS_MOST = 4096,
    METRICS_MOST = 1 << 24,
};

static const char file_name[] = "assets.extra/tfos.json";

const char *tfos__port_kind_name(tfos__port_kind kind)
{
    static const char *const names[] = {"input", "label", "sample weight"};
    return names[kind];
}

static tfos_status fail(const char *where, const char *key, const char *expected, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "%s: expected %s in '%s'; export the model again (native.export)", where,
                      expected, key);
}

/* ---- parts ---- */

static tfos_status read_ports(tfos__description *self, const char *key, tfos__port_kind kind, const char *where,
                              tfos_error *error)
{
    json_object *list = tfos__json_member_of(self->text, key, json_type_array);
    size_t count = list != NULL ? json_object_array_length(list) : 0;
    if (list == NULL || count > PORTS_MOST) {
        return fail(where, key, "a list of tensors", error);
    }
    tfos__port *ports = realloc(self->ports, (self->port_count + count + 1) * sizeof *ports);
    if (ports == NULL) {
        return tfos__fail_memory(error, count * sizeof *ports);
    }
    self->ports = ports;
    for (size_t i = 0; i < count; i++) {
        json_object *each = json_object_array_get_idx(list, i);
        tfos__port port = {kind, tfos__json_text(each, "name"), tfos__json_text(each, "key")};
        if (port.name[0] == '\0' || port.key[0] == '\0') {
            return fail(where, key, "a name and a key for each tensor", error);
        }
        ports[self->port_count++] = port;
    }
    return TFOS_OK;
}

static tfos_status read_names(json_object *object, const char *key, const char *where, tfos__description_names *out,
                              tfos_error *error)
{
    json_object *list = tfos__json_member_of(object, key, json_type_array);
    size_t count = list != NULL ? json_object_array_length(list) : 0;
    if (list == NULL || count > PORTS_MOST) {
        return fail(where, key, "a list of names", error);
    }
    out->at = calloc(count + 1, sizeof *out->at);
    if (out->at == NULL) {
        return tfos__fail_memory(error, count * sizeof *out->at);
    }
    for (size_t i = 0; i < count; i++) {
        out->at[i] = json_object_get_string(json_object_array_get_idx(list, i));
        if (out->at[i] == NULL) {
            return fail(where, key, "a list of names", error);
        }
    }
    out->count = count;
    return TFOS_OK;
}

static tfos_status read_logs(const tfos__description *self, const char *key, const char *where, tfos__step_logs *out,
                             tfos_error *error)
{
    json_object *logs = tfos__json_member(tfos__json_member(self->text, "logs"), key);
    TFOS_TRY(read_names(logs, "metrics", where, &out->metrics, error));
    return read_names(logs, "means", where, &out->means, error);
}

static tfos_status read_numbers(tfos__description *self, const char *where, tfos_error *error)
{
    json_object *rows = tfos__json_member_of(self->text, "batch_size", json_type_int);
    json_object *metrics = tfos__json_member(self->text, "metrics");
    json_object *length = tfos__json_member_of(metrics, "length", json_type_int);
    json_object *optimizer = tfos__json_member(self->text, "optimizer");
    self->batch_rows = rows != NULL ? json_object_get_int64(rows) : -1;
    self->metrics_length = length != NULL ? json_object_get_int64(length) : -1;
    if (self->batch_rows == 0 || self->batch_rows < -1) {
        return fail(where, "batch_size", "null or a number of rows", error);
    }
    if (self->metrics_length < 0 || self->metrics_length > METRICS_MOST) {
        return fail(where, "metrics", "a length", error);
    }
    self->together = tfos__json_member_of(self->text, "together", json_type_object) != NULL;
    self->averages = json_object_get_boolean(tfos__json_member(optimizer, "averages"));
    self->has_schedule = tfos__json_member_of(optimizer, "schedule", json_type_string) != NULL;
    self->exact_resume = json_object_get_boolean(tfos__json_member(self->text, "exact_resume"));
    return TFOS_OK;
}

static tfos_status check_contract(const tfos__description *self, const char *where, tfos_error *error)
{
    json_object *contract = tfos__json_member_of(self->text, "contract", json_type_int);
    if (contract == NULL) {
        return fail(where, "contract", "a number", error);
    }
    if (json_object_get_int64(contract) != CONTRACT) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "%s: the model was exported by tfos %s under contract %lld, and this is tfos %s, which knows "
                          "%d: export it with the version that trains it",
                          where,
                          tfos__printable_text(tfos__json_text(tfos__json_member(self->text, "made_by"), "tfos")).text,
                          (long long)json_object_get_int64(contract), tfos_version(), CONTRACT);
    }
    return TFOS_OK;
}

static tfos_status read_parts(tfos__description *self, const char *where, tfos_error *error)
{
    TFOS_TRY(check_contract(self, where, error));
    TFOS_TRY(read_ports(self, "inputs", TFOS__PORT_INPUT, where, error));
    TFOS_TRY(read_ports(self, "labels", TFOS__PORT_LABEL, where, error));
    TFOS_TRY(read_ports(self, "sample_weights", TFOS__PORT_WEIGHT, where, error));
    if (self->port_count == 0) {
        return fail(where, "inputs", "at least one tensor", error);
    }
    TFOS_TRY(read_logs(self, "train", where, &self->train, error));
    TFOS_TRY(read_logs(self, "evaluate", where, &self->evaluate, error));
    return read_numbers(self, where, error);
}

/* ---- all of it ---- */

void tfos__description_reset(tfos__description *description)
{
    free(description->ports);
    free(description->train.metrics.at);
    free(description->train.means.at);
    free(description->evaluate.metrics.at);
    free(description->evaluate.means.at);
    json_object_put(description->text);
    *description = (tfos__description){0};
}

tfos_status tfos__description_parse(const char *text, size_t bytes, const char *where, tfos__description *out,
                                    tfos_error *error)
{
    tfos__description self = {0};
    tfos__json_fault fault;
    tfos_status status = tfos__json_object_parse(text, bytes, DEPTH, &self.text, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_CORRUPT, "%s: no JSON object: %s, at byte %zu", where, fault.what, fault.at);
    }
    status = status == TFOS_OK ? read_parts(&self, where, error) : status;
    if (status != TFOS_OK) {
        tfos__description_reset(&self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

static tfos_status fail_missing(const char *folder, tfos_error *error)
{
    return tfos__fail(error, TFOS_NOT_FOUND,
                      "%s: there is no %s in it, so it is no model that can be trained: make one with "
                      "tensorflowonspark.native.export, in Python",
                      folder, file_name);
}

tfos_status tfos__description_read(const tfos_file_system *served, const char *folder, tfos__description *out,
                                   tfos_error *error)
{
    char *path = NULL;
    tfos__buffer text = {0};
    if (asprintf(&path, "%s/%s", folder, file_name) < 0) {
        return tfos__fail_memory(error, strlen(folder));
    }
    tfos_status status = tfos__file_slurp(served, path, FILE_BYTES, &text, error);
    if (status == TFOS_NOT_FOUND) {
        status = fail_missing(folder, error);
    }
    status = status == TFOS_OK ? tfos__description_parse((const char *)text.data, text.size, path, out, error) : status;
    tfos__buffer_reset(&text);
    free(path);
    return status;
}

const tfos__port *tfos__description_port(const tfos__description *description, const char *name)
{
    for (size_t i = 0; i < description->port_count; i++) {
        if (strcmp(description->ports[i].name, name) == 0) {
            return &description->ports[i];
        }
    }
    return NULL;
}
