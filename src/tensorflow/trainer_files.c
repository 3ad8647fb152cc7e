/* The files that workers see, compared when they come together. */
#include "tensorflow/trainer_files.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/status.h"
#include "tensorflow/trainer_state.h"

enum { LISTS = 2, NUMBERS = sizeof(tfos__file_list) / sizeof(double) };

/* Bytes of the path of the folder that all files are in, which may be another one on each host. */
static size_t common_folder(const tfos_paths *paths)
{
    const char *first = paths->path[0];
    size_t bytes = strlen(first);
    for (size_t i = 0; i < paths->count; i++) {
        const char *slash = memrchr(first, '/', bytes);
        while (slash != NULL && strncmp(first, paths->path[i], (size_t)(slash - first) + 1) != 0) {
            slash = memrchr(first, '/', (size_t)(slash - first));
        }
        bytes = slash != NULL ? (size_t)(slash - first) + 1 : 0;
    }
    return bytes;
}

void tfos__file_list_take(const tfos_paths *paths, tfos__file_list *out)
{
    uint64_t hash = 0;
    size_t folder = paths->count > 0 ? common_folder(paths) : 0;
    for (size_t i = 0; i < paths->count; i++) {
        const char *name = paths->path[i] + folder;
        hash = tfos__hash_from(hash, name, strlen(name));
        hash = tfos__hash_from(hash, &paths->bytes[i], sizeof paths->bytes[i]);
    }
    *out = (tfos__file_list){.files = (double)paths->count,
                             .bytes = (double)paths->total_bytes,
                             .names = {(double)(uint32_t)hash, (double)(uint32_t)(hash >> 32)}};
}

static tfos_status fail_lists(const tfos__file_list *first, const tfos__file_list *other, size_t worker,
                              const char *what, tfos_error *error)
{
    char found[160];
    if (first->files == other->files && first->bytes == other->bytes) {
        snprintf(found, sizeof found, "as many and as large ones, with other names or sizes among them");
    } else {
        snprintf(found, sizeof found, "%.0f of %.0f bytes in all", other->files, other->bytes);
    }
    return tfos__fail(error, TFOS_MISMATCH,
                      "%s: workers see different files, and each reads its share of those that it sees, so rows would "
                      "count twice or not at all. Worker 0 sees %.0f files of %.0f bytes in all, worker %zu sees %s. "
                      "See that the paths show the same files on every host, and that nobody writes there; then start "
                      "again",
                      what, first->files, first->bytes, worker, found);
}

tfos_status tfos__file_lists_compare(const tfos__file_list *lists, size_t workers, size_t stride, const char *what,
                                     tfos_error *error)
{
    for (size_t i = 1; i < workers; i++) {
        if (memcmp(&lists[0], &lists[i * stride], sizeof lists[0]) != 0) {
            return fail_lists(&lists[0], &lists[i * stride], i, what, error);
        }
    }
    return TFOS_OK;
}

/* Each worker has a place in the sum, and zeros in those of others. */
tfos_status tfos__trainer_compare_files(tfos__trainer *trainer, tfos_error *error)
{
    const tfos__trainer_input *inputs[LISTS] = {trainer->data, trainer->validation};
    static const char *const names[LISTS] = {"data", "validation"};
    if (tfos__trainer_is_alone(trainer) || tfos__trainer_input_paths(trainer->data) == NULL) {
        return TFOS_OK;
    }
    size_t count = trainer->size * LISTS;
    tfos__file_list *lists = calloc(count, sizeof *lists);
    if (lists == NULL) {
        return tfos__fail_memory(error, count * sizeof *lists);
    }
    for (size_t i = 0; i < LISTS && inputs[i] != NULL; i++) {
        tfos__file_list_take(tfos__trainer_input_paths(inputs[i]), &lists[trainer->rank * LISTS + i]);
    }
    tfos_status status = tfos__trainer_sum(trainer, (double *)lists, count * NUMBERS, "which files there are", error);
    for (size_t i = 0; i < LISTS && status == TFOS_OK; i++) {
        status = tfos__file_lists_compare(&lists[i], trainer->size, LISTS, names[i], error);
    }
    free(lists);
    return status;
}
