/* Reads the orders. A frame may announce two gigabytes, and be a lie: it is read into a mapping without reserved
 * memory, whose pages come into being as bytes arrive, and which leaves no copies of the key behind when it grows. */
#include "node/orders.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/status.h"
#include "net/frame.h"

static tfos_status read_bytes(int file, void *to, size_t count, int64_t deadline, tfos_error *error)
{
    for (size_t done = 0; done < count;) {
        struct pollfd wait = {.fd = file, .events = POLLIN};
        int64_t left = deadline - tfos__clock_ms();
        int ready = left > 0 ? poll(&wait, 1, (int)left) : 0;
        if (ready == 0) {
            return tfos__fail(error, TFOS_IO, "the orders on stdin did not come in time: %zu of %zu bytes", done,
                              count);
        }
        ssize_t got = ready > 0 ? read(file, (char *)to + done, count - done) : -1;
        if (got == 0) {
            return tfos__fail(error, TFOS_TRUNCATED,
                              "stdin ended after %zu of %zu bytes of the orders: the Spark task is gone", done, count);
        }
        if (got < 0 && errno != EINTR && errno != EAGAIN) {
            return tfos__fail_errno(error, errno, "cannot read the orders from stdin");
        }
        done += got > 0 ? (size_t)got : 0;
    }
    return TFOS_OK;
}

/* A memfd with the payload that nobody can change any more. */
static tfos_status make_payload(tfos__text payload, int *out, tfos_error *error)
{
    int file = memfd_create("tfos-payload", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (file < 0) {
        return tfos__fail_errno(error, errno, "cannot make a memory file for the payload");
    }
    for (size_t done = 0; done < payload.count;) {
        ssize_t count = write(file, payload.at + done, payload.count - done);
        if (count < 0 && errno != EINTR) {
            int code = errno;
            close(file);
            return tfos__fail_errno(error, code, "cannot keep the payload of %zu bytes in memory", payload.count);
        }
        done += count > 0 ? (size_t)count : 0;
    }
    if (lseek(file, 0, SEEK_SET) != 0 ||
        fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0) {
        int code = errno;
        close(file);
        return tfos__fail_errno(error, code, "cannot seal the payload");
    }
    *out = file;
    return TFOS_OK;
}

static tfos_status apply_settings(tfos__text settings, tfos_error *error)
{
    static const char driver_only[] = "server.";
    const char *at = settings.at;
    const char *end = settings.at + settings.count;
    while (at < end) {
        size_t bytes = strnlen(at, (size_t)(end - at));
        if (bytes > 0 && strncmp(at, driver_only, sizeof driver_only - 1) != 0) {
            TFOS_TRY(tfos__setting_assign(at, bytes, error));
        }
        at += bytes + 1;
    }
    return TFOS_OK;
}

static tfos_status take_lists(const tfos__message *ticket, const tfos__message *start, tfos__orders *out,
                              tfos_error *error)
{
    tfos__text program = tfos__message_text(ticket, TFOS__FIELD_PROGRAM);
    tfos__text tensorboard = tfos__message_text(ticket, TFOS__FIELD_TENSORBOARD);
    bool has_environment = tfos__message_has(start, TFOS__FIELD_ENVIRONMENT);
    tfos__text environment = tfos__message_text(has_environment ? start : ticket, TFOS__FIELD_ENVIRONMENT);
    TFOS_TRY(tfos__words_split(&out->program, program.at, program.count, error));
    TFOS_TRY(tfos__words_split(&out->environment, environment.at, environment.count, error));
    TFOS_TRY(tfos__words_split(&out->tensorboard, tensorboard.at, tensorboard.count, error));
    if (out->program.count == 0 || out->program.at[0][0] == '\0') {
        return tfos__fail(error, TFOS_INVALID, "the orders name no program");
    }
    out->context = tfos__message_duplicate(ticket, TFOS__FIELD_CONTEXT);
    out->spark = tfos__message_duplicate(start, TFOS__FIELD_SPARK);
    if (out->context == NULL || out->spark == NULL) {
        return tfos__fail_memory(error, 1 << 20);
    }
    return make_payload(tfos__message_text(ticket, TFOS__FIELD_PAYLOAD), &out->payload, error);
}

static tfos_status take_ticket(const tfos__message *ticket, tfos__orders *out, tfos_error *error)
{
    tfos__text key = tfos__message_text(ticket, TFOS__FIELD_KEY);
    uint64_t port = tfos__message_number(ticket, TFOS__FIELD_PORT);
    if (key.count != TFOS__KEY_BYTES) {
        return tfos__fail(error, TFOS_INVALID, "expected a cluster key of %d bytes in the orders, found %zu",
                          TFOS__KEY_BYTES, key.count);
    }
    if (tfos__message_text(ticket, TFOS__FIELD_HOST).count == 0 || port == 0 || port > UINT16_MAX) {
        return tfos__fail(error, TFOS_INVALID, "the orders have no address of a coordinator");
    }
    memcpy(out->key, key.at, TFOS__KEY_BYTES);
    out->port = (uint16_t)port;
    tfos__message_copy(ticket, TFOS__FIELD_HOST, out->host, sizeof out->host);
    tfos__message_copy(ticket, TFOS__FIELD_CLUSTER, out->cluster, sizeof out->cluster);
    out->attempt = tfos__message_number(ticket, TFOS__FIELD_ATTEMPT);
    out->flags = tfos__message_number(ticket, TFOS__FIELD_FLAGS);
    out->beat_ms = tfos__message_number(ticket, TFOS__FIELD_BEAT_MS);
    out->lease_ms = tfos__message_number(ticket, TFOS__FIELD_LEASE_MS);
    return apply_settings(tfos__message_text(ticket, TFOS__FIELD_SETTINGS), error);
}

static void take_start(const tfos__message *start, tfos__orders *out)
{
    tfos__message_copy(start, TFOS__FIELD_HOST, out->node_host, sizeof out->node_host);
    tfos__message_copy(start, TFOS__FIELD_EXECUTOR, out->executor, sizeof out->executor);
    tfos__message_copy(start, TFOS__FIELD_GPUS, out->gpus, sizeof out->gpus);
    tfos__message_copy(start, TFOS__FIELD_GPU_SOURCE, out->gpu_source, sizeof out->gpu_source);
    tfos__message_copy(start, TFOS__FIELD_WORK_FOLDER, out->work_folder, sizeof out->work_folder);
    out->has_gpus = tfos__message_has(start, TFOS__FIELD_GPUS);
    out->executor_pid = (pid_t)tfos__message_number(start, TFOS__FIELD_EXECUTOR_PID);
    out->index = tfos__message_number(start, TFOS__FIELD_INDEX);
    out->cores = tfos__message_number(start, TFOS__FIELD_CORES);
    if (out->node_host[0] == '\0' && gethostname(out->node_host, sizeof out->node_host - 1) != 0) {
        snprintf(out->node_host, sizeof out->node_host, "localhost");
    }
    if (out->work_folder[0] == '\0') {
        snprintf(out->work_folder, sizeof out->work_folder, ".");
    }
}

/* ---- frames ---- */

/* One frame, as it came. */
typedef struct order {
    uint8_t *bytes;
    size_t count;
    tfos__message message;
} order;

static void reset_order(order *it)
{
    if (it->bytes != NULL) {
        tfos__secret_wipe(it->bytes, it->count);
        munmap(it->bytes, it->count);
    }
}

static tfos_status read_order(int file, int64_t deadline, size_t most, tfos__message_type type, order *out,
                              tfos_error *error)
{
    uint8_t length[TFOS__FRAME_LENGTH_BYTES];
    size_t whole;
    size_t used;
    TFOS_TRY(read_bytes(file, length, sizeof length, deadline, error));
    TFOS_TRY(tfos__frame_measure(length, sizeof length, most, &whole, error));
    void *bytes = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (bytes == MAP_FAILED) {
        return tfos__fail_memory(error, whole);
    }
    out->bytes = bytes;
    out->count = whole;
    memcpy(bytes, length, sizeof length);
    TFOS_TRY(read_bytes(file, out->bytes + sizeof length, whole - sizeof length, deadline, error));
    TFOS_TRY(tfos__frame_take(bytes, whole, most, &out->message, &used, error));
    if (out->message.type != type) {
        return tfos__fail(error, TFOS_INVALID, "expected the message %s, found %s", tfos__message_name(type),
                          tfos__message_name(out->message.type));
    }
    return TFOS_OK;
}

tfos_status tfos__orders_read(int file, int timeout_ms, tfos__orders *out, tfos_error *error)
{
    int64_t deadline = tfos__clock_ms() + timeout_ms;
    order ticket = {0};
    order start = {0};
    *out = (tfos__orders){.payload = -1};
    tfos_status status = read_order(file, deadline, TFOS__FRAME_TICKET_BYTES, TFOS__MESSAGE_TICKET, &ticket, error);
    if (status == TFOS_OK) {
        status = read_order(file, deadline, TFOS__FRAME_BYTES, TFOS__MESSAGE_START, &start, error);
    }
    if (status == TFOS_OK) {
        take_start(&start.message, out);
        status = take_ticket(&ticket.message, out, error);
    }
    if (status == TFOS_OK) {
        status = take_lists(&ticket.message, &start.message, out, error);
    }
    reset_order(&ticket);
    reset_order(&start);
    if (status != TFOS_OK) {
        tfos__error_prefix(error, "the orders on stdin are not understood");
        tfos__orders_reset(out);
    }
    return status;
}

void tfos__orders_reset(tfos__orders *orders)
{
    tfos__secret_wipe(orders->key, sizeof orders->key);
    free(orders->context);
    free(orders->spark);
    orders->context = NULL;
    orders->spark = NULL;
    tfos__words_reset(&orders->program);
    tfos__words_reset(&orders->environment);
    tfos__words_reset(&orders->tensorboard);
    if (orders->payload >= 0) {
        close(orders->payload);
        orders->payload = -1;
    }
}

bool tfos__orders_are_fed(const tfos__orders *orders)
{
    return (orders->flags & (TFOS__FLAG_TENSORFLOW | TFOS__FLAG_PARALLEL)) == 0;
}
