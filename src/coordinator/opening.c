/* OPEN brings everything at once, so that a coordinator needs no arguments, and nobody sees the key in them. */
#include "coordinator/opening.h"

#include "base/config.h"
#include "base/status.h"

static void fill_options(const tfos__message *open, tfos__roster_options *out)
{
    *out = (tfos__roster_options){
        .roles = {.nodes = (uint32_t)tfos__message_number(open, TFOS__FIELD_NODES),
                  .ps = (uint32_t)tfos__message_number(open, TFOS__FIELD_PS),
                  .evaluators = (uint32_t)tfos__message_number(open, TFOS__FIELD_EVALUATORS)},
        .attempt = (uint32_t)tfos__message_number(open, TFOS__FIELD_ATTEMPT),
        .flags = (uint32_t)tfos__message_number(open, TFOS__FIELD_FLAGS),
        .worker_gpus = (int64_t)tfos__message_number(open, TFOS__FIELD_WORKER_GPUS) - 1,
        .all_gpus = tfos__message_number(open, TFOS__FIELD_ALL_GPUS),
        .timeout_ms = tfos__message_number(open, TFOS__FIELD_RESERVATION_MS),
        .beat_ms = tfos__message_number(open, TFOS__FIELD_BEAT_MS),
        .lease_ms = tfos__message_number(open, TFOS__FIELD_LEASE_MS),
    };
    tfos__message_copy(open, TFOS__FIELD_MASTER, out->roles.master, sizeof out->roles.master);
    tfos__message_copy(open, TFOS__FIELD_CLUSTER, out->name, sizeof out->name);
}

/* The driver's settings are this process's. */
static tfos_status take_settings(const tfos__message *open, tfos__roster_options *options, tfos_error *error)
{
    tfos__text list = tfos__message_text(open, TFOS__FIELD_SETTINGS);
    int64_t kill_ms;
    for (size_t at = 0; at < list.count;) {
        size_t count = strnlen(list.at + at, list.count - at);
        TFOS_TRY(tfos__setting_assign(list.at + at, count, error));
        at += count + 1;
    }
    TFOS_TRY(tfos__setting_choose(TFOS__SETTING_NODE_KILL_MS, -1, -1, &kill_ms, error));
    options->stop_ms = (uint64_t)kill_ms + TFOS__STOP_MS;
    return TFOS_OK;
}

tfos_status tfos__opening_read(const tfos__message *open, tfos__roster_options *out, tfos_error *error)
{
    fill_options(open, out);
    return take_settings(open, out, error);
}
