/* The orders of the process of a model: a line of JSON. */
#include "inference/orders.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/config.h"
#include "base/json.h"
#include "base/status.h"

enum { ORDERS_BYTES = 4 << 20, ORDERS_DEPTH = 8, SETTINGS_MOST = 1024 };

void tfos__inference_orders_reset(tfos__inference_orders *orders)
{
    json_object_put(orders->text);
    tfos__secret_wipe(orders, sizeof *orders);
}

static tfos_status read_line(int fd, tfos__buffer *line, tfos_error *error)
{
    for (;;) {
        char byte; /* one at a time: what is behind the line is not ours */
        ssize_t count = read(fd, &byte, 1);
        if (count < 0 && errno == EINTR) {
            continue;
        }
        if (count <= 0 || line->size > ORDERS_BYTES) {
            return tfos__fail(error, TFOS_INVALID,
                              "`tfos model` is started by Spark tasks, which give it a line of orders on stdin; use "
                              "TFModel.transform in a Spark application instead");
        }
        if (byte == '\n') {
            return TFOS_OK;
        }
        TFOS_TRY(tfos__buffer_append(line, &byte, 1, error));
    }
}

static tfos_status read_token(const char *text, uint8_t token[TFOS__KEY_BYTES], tfos_error *error)
{
    if (strlen(text) != 2 * TFOS__KEY_BYTES || strspn(text, "0123456789abcdef") != 2 * TFOS__KEY_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "expected a token of %d hexadecimal digits", 2 * TFOS__KEY_BYTES);
    }
    for (size_t i = 0; i < TFOS__KEY_BYTES; i++) {
        char digits[3] = {text[2 * i], text[2 * i + 1], '\0'};
        token[i] = (uint8_t)strtoul(digits, NULL, 16);
    }
    return TFOS_OK;
}

static tfos_status read_settings(tfos__inference_orders *out, tfos_error *error)
{
    const char *given[SETTINGS_MOST + 1] = {NULL};
    json_object *list = tfos__json_member_of(out->text, "settings", json_type_array);
    size_t count = list != NULL ? json_object_array_length(list) : 0;
    for (size_t i = 0; i < count && i < SETTINGS_MOST; i++) {
        const char *setting = json_object_get_string(json_object_array_get_idx(list, i));
        given[i] = setting != NULL ? setting : "";
        TFOS_TRY(tfos__setting_check(given[i], strlen(given[i]), error));
    }
    int64_t threads;
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_MODEL_IDLE_MS, given, &out->idle_ms, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_MODEL_MEMORY_BYTES, given, &out->memory_bytes, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_MODEL_THREADS, given, &threads, error));
    TFOS_TRY(tfos__setting_number(TFOS__SETTING_FEED_LANE_BYTES, given, &out->lane_bytes, error));
    int64_t cores = json_object_get_int64(tfos__json_member_of(out->text, "threads", json_type_int));
    out->threads = (int)(threads > 0 ? threads : cores > 0 ? cores : 1);
    return TFOS_OK;
}

static tfos_status parse(const tfos__buffer *line, tfos__inference_orders *out, tfos_error *error)
{
    tfos__json_fault fault;
    tfos_status status =
        tfos__json_object_parse((const char *)line->data, line->size, ORDERS_DEPTH, &out->text, &fault, error);
    if (status == TFOS_INVALID) {
        return tfos__fail(error, TFOS_INVALID, "the orders on stdin are no JSON object: %s, at byte %zu", fault.what,
                          fault.at);
    }
    TFOS_TRY(status);
    out->folder = tfos__json_text(out->text, "folder");
    out->tags = tfos__json_text(out->text, "tags");
    const char *python = tfos__json_text(out->text, "python");
    out->python = python[0] != '\0' ? python : NULL;
    out->libraries = tfos__json_member_of(out->text, "libraries", json_type_array);
    if (out->folder[0] == '\0') {
        return tfos__fail(error, TFOS_INVALID, "the orders on stdin name no folder of a model");
    }
    TFOS_TRY(read_token(tfos__json_text(out->text, "token"), out->token, error));
    return read_settings(out, error);
}

tfos_status tfos__inference_orders_read(int fd, tfos__inference_orders *out, tfos_error *error)
{
    tfos__buffer line = {0};
    *out = (tfos__inference_orders){0};
    tfos_status status = read_line(fd, &line, error);
    status = status == TFOS_OK ? parse(&line, out, error) : status;
    if (line.data != NULL) {
        tfos__secret_wipe(line.data, line.size);
    }
    tfos__buffer_reset(&line);
    return status;
}
