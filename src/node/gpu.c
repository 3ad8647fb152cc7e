/* Reads what nvidia-smi prints. A line that is not understood makes the whole text suspect: it is an error rather
 * than a GPU that silently is not used. */
#include "node/gpu.h"

#include <stdio.h>
#include <string.h>

#include "base/status.h"

/* The next line without spaces around it; NULL at the end. `*text` moves behind it. */
static const char *next_line(const char **text, size_t *count)
{
    while (**text != '\0') {
        const char *line = *text;
        size_t bytes = strcspn(line, "\n");
        *text = line + bytes + (line[bytes] == '\n' ? 1 : 0);
        while (bytes > 0 && strchr(" \t\r", line[bytes - 1]) != NULL) {
            bytes--;
        }
        while (bytes > 0 && (*line == ' ' || *line == '\t')) {
            line++;
            bytes--;
        }
        if (bytes > 0) {
            *count = bytes;
            return line;
        }
    }
    return NULL;
}

static tfos_status fail_line(const char *line, size_t count, const char *expected, tfos_error *error)
{
    return tfos__fail(error, TFOS_CORRUPT, "expected a line like '%s' from nvidia-smi, found '%s'", expected,
                      tfos__printable_of(line, count).text);
}

/* Adds a GPU. False if the texts are too long or no number. */
static bool add(tfos__gpus *gpus, const char *index, size_t index_bytes, const char *uuid, size_t uuid_bytes)
{
    tfos__gpu *gpu = &gpus->at[gpus->count];
    if (gpus->count == TFOS__GPU_MOST || index_bytes == 0 || index_bytes > 8 || uuid_bytes >= sizeof gpu->uuid ||
        strspn(index, "0123456789") < index_bytes) {
        return false;
    }
    memcpy(gpu->index, index, index_bytes);
    gpu->index[index_bytes] = '\0';
    memcpy(gpu->uuid, uuid, uuid_bytes);
    gpu->uuid[uuid_bytes] = '\0';
    gpu->taken = false;
    gpus->count++;
    return true;
}

tfos_status tfos__gpus_read_query(const char *text, tfos__gpus *out, tfos_error *error)
{
    size_t count;
    out->count = 0;
    for (const char *line = next_line(&text, &count); line != NULL; line = next_line(&text, &count)) {
        const char *comma = memchr(line, ',', count);
        const char *uuid = comma != NULL ? comma + 1 : line;
        const char *end = line + count;
        while (uuid < end && *uuid == ' ') {
            uuid++;
        }
        if (comma == NULL || !add(out, line, (size_t)(comma - line), uuid, (size_t)(end - uuid))) {
            return fail_line(line, count, "0, GPU-5c1d…", error);
        }
    }
    return TFOS_OK;
}

tfos_status tfos__gpus_read_list(const char *text, tfos__gpus *out, tfos_error *error)
{
    static const char before[] = "GPU ";
    static const char mark[] = "(UUID: ";
    size_t count;
    out->count = 0;
    for (const char *line = next_line(&text, &count); line != NULL; line = next_line(&text, &count)) {
        const char *colon = memchr(line, ':', count);
        const char *uuid = memmem(line, count, mark, sizeof mark - 1);
        const char *end = line + count;
        if (strncmp(line, "MIG ", 4) == 0) {
            continue; /* a part of the GPU in the line above */
        }
        if (colon == NULL || strncmp(line, before, sizeof before - 1) != 0) {
            return fail_line(line, count, "GPU 0: Tesla K80 (UUID: GPU-5c1d…)", error);
        }
        const char *index = line + sizeof before - 1;
        uuid = uuid != NULL ? uuid + sizeof mark - 1 : end;
        const char *close = memchr(uuid, ')', (size_t)(end - uuid));
        if (!add(out, index, (size_t)(colon - index), uuid, (size_t)((close != NULL ? close : uuid) - uuid))) {
            return fail_line(line, count, "GPU 0: Tesla K80 (UUID: GPU-5c1d…)", error);
        }
    }
    return TFOS_OK;
}

void tfos__gpus_mark_busy(tfos__gpus *gpus, const char *text)
{
    size_t count;
    for (const char *line = next_line(&text, &count); line != NULL; line = next_line(&text, &count)) {
        for (size_t i = 0; i < gpus->count; i++) {
            if (strlen(gpus->at[i].uuid) == count && memcmp(gpus->at[i].uuid, line, count) == 0) {
                gpus->at[i].taken = true;
            }
        }
    }
}

static bool is_named(const tfos__gpu *gpu, const char *visible)
{
    while (*visible != '\0') {
        size_t bytes = strcspn(visible, ",");
        const char *name = visible;
        visible += bytes + (visible[bytes] == ',' ? 1 : 0);
        while (bytes > 0 && *name == ' ') {
            name++;
            bytes--;
        }
        while (bytes > 0 && name[bytes - 1] == ' ') {
            bytes--;
        }
        if (bytes > 0 && *name == '-') {
            return false; /* CUDA stops at the first that is not valid */
        }
        bool by_index = strlen(gpu->index) == bytes && memcmp(gpu->index, name, bytes) == 0;
        bool by_uuid = bytes > 4 && strncmp(gpu->uuid, name, bytes) == 0;
        if (bytes > 0 && (by_index || by_uuid)) {
            return true;
        }
    }
    return false;
}

void tfos__gpus_restrict(tfos__gpus *gpus, const char *visible)
{
    for (size_t i = 0; i < gpus->count && visible != NULL; i++) {
        gpus->at[i].taken |= !is_named(&gpus->at[i], visible);
    }
}

void tfos__gpus_free_list(const tfos__gpus *gpus, char *out, size_t bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < gpus->count && used < bytes; i++) {
        if (!gpus->at[i].taken) {
            used += (size_t)snprintf(out + used, bytes - used, "%s%s", used > 0 ? "," : "", gpus->at[i].index);
        }
    }
}
