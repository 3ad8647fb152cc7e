/* Folders of checkpoints. The file `checkpoint` is protobuf's text form of CheckpointState: a line for each field. */
#include "tensorflow/checkpoints.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/status.h"
#include "fs/fs.h"

enum { STATE_BYTES = 64 << 20, NOTE_BYTES = 256 << 20, SHARDS_MOST = 99999 };

static const char state_name[] = "checkpoint";

static void forget(tfos__checkpoints *self, size_t index)
{
    free(self->at[index].name);
    memmove(&self->at[index], &self->at[index + 1], (self->count - index - 1) * sizeof self->at[0]);
    self->count--;
}

void tfos__checkpoints_close(tfos__checkpoints *checkpoints)
{
    tfos__checkpoints_cut(checkpoints, 0);
    free(checkpoints->at);
    free(checkpoints->folder);
    *checkpoints = (tfos__checkpoints){0};
}

void tfos__checkpoints_cut(tfos__checkpoints *checkpoints, size_t count)
{
    while (checkpoints->count > count) {
        forget(checkpoints, checkpoints->count - 1);
    }
}

static tfos_status append(tfos__checkpoints *self, char *name, double time_s, tfos_error *error)
{
    tfos_status status = name == NULL
                             ? tfos__fail_memory(error, 1)
                             : tfos__array_reserve(&self->at, self->count, &self->capacity, sizeof self->at[0], error);
    if (status != TFOS_OK) {
        free(name);
        return status;
    }
    self->at[self->count++] = (tfos__checkpoint){name, time_s};
    return TFOS_OK;
}

/* ---- the text ---- */

/* A quoted text of protobuf's, as a new one. NULL: it is none, or too long. */
static char *unquote(const char *at, const char *end)
{
    char *out = malloc((size_t)(end - at) + 1);
    char *to = out;
    if (out == NULL || end - at < 2 || at[0] != '"' || end[-1] != '"') {
        free(out);
        return NULL;
    }
    for (at++, end--; at < end; at++) {
        if (*at != '\\') {
            *to++ = *at;
        } else if (end - at >= 4 && at[1] >= '0' && at[1] <= '3') {
            *to++ = (char)((at[1] - '0') * 64 + (at[2] - '0') * 8 + (at[3] - '0'));
            at += 3;
        } else if (end - at >= 2) {
            at++;
            *to++ = *at == 'n' ? '\n' : *at == 't' ? '\t' : *at == 'r' ? '\r' : *at;
        }
    }
    *to = '\0';
    return out;
}

static bool is_key(const char *line, size_t bytes, const char *key)
{
    return bytes == strlen(key) && memcmp(line, key, bytes) == 0;
}

typedef struct state_text {
    size_t times; /* that were read */
    char *newest; /* NULL: it does not say */
} state_text;

static tfos_status parse_name(const char *value, const char *end, char **out, tfos_error *error)
{
    *out = unquote(value, end);
    return *out != NULL ? TFOS_OK
                        : tfos__fail(error, TFOS_CORRUPT, "expected a name in quotes, found '%s'",
                                     tfos__printable_of(value, (size_t)(end - value)).text);
}

static tfos_status parse_line(tfos__checkpoints *self, const char *line, const char *end, state_text *state,
                              tfos_error *error)
{
    const char *colon = memchr(line, ':', (size_t)(end - line));
    if (colon == NULL) {
        return line == end ? TFOS_OK
                           : tfos__fail(error, TFOS_CORRUPT, "expected lines of the form 'key: value', found '%s'",
                                        tfos__printable_of(line, (size_t)(end - line)).text);
    }
    const char *value = colon + 1;
    while (value < end && *value == ' ') {
        value++;
    }
    size_t bytes = (size_t)(colon - line);
    if (is_key(line, bytes, "all_model_checkpoint_paths")) {
        char *name;
        TFOS_TRY(parse_name(value, end, &name, error));
        return append(self, name, 0, error);
    }
    if (is_key(line, bytes, "model_checkpoint_path")) {
        free(state->newest);
        state->newest = NULL;
        return parse_name(value, end, &state->newest, error);
    }
    if (is_key(line, bytes, "all_model_checkpoint_timestamps") && state->times < self->count) {
        char number[64] = {0};
        memcpy(number, value, (size_t)tfos__min_i64(end - value, (int64_t)sizeof number - 1));
        self->at[state->times++].time_s = strtod(number, NULL);
    }
    return TFOS_OK;
}

/* What the file calls the newest is the last, whether or not it stands in the list. */
static tfos_status put_newest_last(tfos__checkpoints *self, char *newest, tfos_error *error)
{
    double time_s = 0;
    for (size_t i = self->count; i > 0; i--) {
        if (strcmp(self->at[i - 1].name, newest) == 0) {
            time_s = self->at[i - 1].time_s;
            forget(self, i - 1);
        }
    }
    return append(self, newest, time_s, error);
}

tfos_status tfos__checkpoints_parse(tfos__checkpoints *checkpoints, const char *text, size_t bytes, tfos_error *error)
{
    const char *end = text + bytes;
    state_text state = {0};
    tfos_status status = TFOS_OK;
    while (text < end && status == TFOS_OK) {
        const char *line_end = memchr(text, '\n', (size_t)(end - text));
        line_end = line_end != NULL ? line_end : end;
        status = parse_line(checkpoints, text, line_end, &state, error);
        text = line_end + (line_end < end ? 1 : 0);
    }
    if (status == TFOS_OK && state.newest != NULL) {
        return put_newest_last(checkpoints, state.newest, error);
    }
    free(state.newest);
    return status;
}

static tfos_status put_quoted(tfos__buffer *out, const char *key, const char *text, tfos_error *error)
{
    TFOS_TRY(tfos__buffer_printf(out, error, "%s: \"", key));
    for (; *text != '\0'; text++) {
        if ((unsigned char)*text < 0x20) {
            TFOS_TRY(tfos__buffer_printf(out, error, "\\%03o", (unsigned)(unsigned char)*text));
        } else {
            TFOS_TRY(tfos__buffer_printf(out, error, *text == '"' || *text == '\\' ? "\\%c" : "%c", *text));
        }
    }
    return tfos__buffer_printf(out, error, "\"\n");
}

static tfos_status format_state(const tfos__checkpoints *self, tfos__buffer *out, tfos_error *error)
{
    TFOS_TRY(put_quoted(out, "model_checkpoint_path", self->at[self->count - 1].name, error));
    for (size_t i = 0; i < self->count; i++) {
        TFOS_TRY(put_quoted(out, "all_model_checkpoint_paths", self->at[i].name, error));
    }
    for (size_t i = 0; i < self->count; i++) {
        TFOS_TRY(tfos__buffer_printf(out, error, "all_model_checkpoint_timestamps: %.6f\n", self->at[i].time_s));
    }
    return TFOS_OK;
}

/* ---- files ---- */

static tfos_status join(const char *folder, const char *name, const char *end, char **out, tfos_error *error)
{
    bool absolute = name[0] == '/';
    return asprintf(out, "%s%s%s%s", absolute ? "" : folder, absolute ? "" : "/", name, end) >= 0
               ? TFOS_OK
               : tfos__fail_memory(error, strlen(name));
}

char *tfos__checkpoints_prefix(const tfos__checkpoints *checkpoints, const char *name)
{
    char *out = NULL;
    return join(checkpoints->folder, name, "", &out, NULL) == TFOS_OK ? out : NULL;
}

static tfos_status write_file(const char *path, const void *bytes, size_t count, tfos_error *error)
{
    tfos__output *output;
    TFOS_TRY(tfos__output_open(NULL, path, true, &output, error));
    tfos_status status = tfos__output_write(output, bytes, count, error);
    if (status != TFOS_OK) {
        tfos__output_abort(output);
        return status;
    }
    return tfos__output_commit(output, error);
}

static tfos_status write_state(const tfos__checkpoints *self, tfos_error *error)
{
    tfos__buffer text = {0};
    char *path = NULL;
    tfos_status status = join(self->folder, state_name, "", &path, error);
    status = status == TFOS_OK ? format_state(self, &text, error) : status;
    status = status == TFOS_OK ? write_file(path, text.data, text.size, error) : status;
    tfos__buffer_reset(&text);
    free(path);
    return status;
}

/* Whether a file of the folder is one of the checkpoint `name`: name.index, name.data-…, name.json. */
static bool is_file_of(const char *file, const char *name)
{
    size_t bytes = strlen(name);
    const char *rest = file + bytes;
    return strncmp(file, name, bytes) == 0 && (strcmp(rest, ".index") == 0 || strcmp(rest, ".json") == 0 ||
                                               strncmp(rest, ".data-", strlen(".data-")) == 0);
}

static bool is_leftover_of(const char *file, const char *name)
{
    size_t bytes = strlen(name);
    return strncmp(file, name, bytes) == 0 && strcmp(file + bytes, "_temp") == 0;
}

/* A folder that TensorFlow has for parts of a checkpoint until it is whole. */
static void remove_leftover(const char *path, const char *name)
{
    char *whole = NULL;
    if (join(path, name, "", &whole, NULL) == TFOS_OK) {
        tfos__folder_remove(whole);
    }
    free(whole);
}

static void remove_in(const char *path, const char *name)
{
    DIR *folder = opendir(path);
    for (struct dirent *each; folder != NULL && (each = readdir(folder)) != NULL;) {
        if (is_file_of(each->d_name, name)) {
            unlinkat(dirfd(folder), each->d_name, 0);
        } else if (is_leftover_of(each->d_name, name)) {
            remove_leftover(path, each->d_name);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
}

/* The folder of a checkpoint, and its name there. */
static tfos_status split(const char *prefix, char **folder, const char **name, tfos_error *error)
{
    const char *slash = strrchr(prefix, '/');
    *folder = slash != NULL ? strndup(prefix, (size_t)(slash - prefix) + 1) : strdup(".");
    *name = slash != NULL ? slash + 1 : prefix;
    return *folder != NULL ? TFOS_OK : tfos__fail_memory(error, strlen(prefix));
}

void tfos__checkpoint_remove(const char *prefix)
{
    char *folder;
    const char *name;
    if (split(prefix, &folder, &name, NULL) == TFOS_OK) {
        remove_in(folder, name);
        free(folder);
    }
}

static tfos_status sync_one(const char *folder, const char *name, tfos_error *error)
{
    char *path = NULL;
    TFOS_TRY(join(folder, name, "", &path, error));
    tfos_status status = tfos__file_sync(path, error);
    free(path);
    return status;
}

tfos_status tfos__checkpoint_sync(const char *prefix, tfos_error *error)
{
    char *path;
    const char *name;
    TFOS_TRY(split(prefix, &path, &name, error));
    DIR *folder = opendir(path);
    tfos_status status = folder != NULL ? TFOS_OK : tfos__fail_errno(error, errno, "%s", path);
    for (struct dirent *each; status == TFOS_OK && (each = readdir(folder)) != NULL;) {
        if (is_file_of(each->d_name, name)) {
            status = sync_one(path, each->d_name, error);
        }
    }
    if (folder != NULL) {
        closedir(folder);
    }
    if (status == TFOS_OK) {
        tfos__output_sync_folder(prefix);
    }
    free(path);
    return status;
}

tfos_status tfos__checkpoints_open(const char *folder, size_t most, tfos__checkpoints *out, tfos_error *error)
{
    tfos__checkpoints self = {.folder = strdup(folder), .most = most};
    tfos__buffer text = {0};
    char *path = NULL;
    tfos_status status = self.folder != NULL ? tfos__folder_make(folder, error) : tfos__fail_memory(error, 1);
    status = status == TFOS_OK ? join(folder, state_name, "", &path, error) : status;
    if (status == TFOS_OK) {
        status = tfos__file_slurp(NULL, path, STATE_BYTES, &text, error);
        status = status == TFOS_OK ? tfos__checkpoints_parse(&self, (const char *)text.data, text.size, error) : status;
        if (status == TFOS_CORRUPT) {
            tfos__error_prefix(error, "%s", path);
        }
        status = status == TFOS_NOT_FOUND ? TFOS_OK : status;
    }
    tfos__buffer_reset(&text);
    free(path);
    if (status != TFOS_OK) {
        tfos__checkpoints_close(&self);
        return status;
    }
    *out = self;
    return TFOS_OK;
}

/* ---- one checkpoint ---- */

static tfos_status look_for(const char *prefix, const char *end, tfos_error *error)
{
    char *path = NULL;
    if (asprintf(&path, "%s%s", prefix, end) < 0) {
        return tfos__fail_memory(error, strlen(prefix));
    }
    int code = access(path, R_OK) == 0 ? 0 : errno;
    tfos_status status = code == 0 ? TFOS_OK : tfos__fail_errno(error, code, "%s", path);
    free(path);
    return status;
}

/* How many files of data there are, from the name of the first that is found. */
static int shards_of(const tfos__checkpoints *self, const char *name)
{
    int shards = 1;
    DIR *folder = strchr(name, '/') == NULL ? opendir(self->folder) : NULL;
    for (struct dirent *each; folder != NULL && (each = readdir(folder)) != NULL;) {
        const char *of = is_file_of(each->d_name, name) ? strstr(each->d_name, "-of-") : NULL;
        int count = of != NULL ? atoi(of + strlen("-of-")) : 0;
        shards = count > shards && count <= SHARDS_MOST ? count : shards;
    }
    if (folder != NULL) {
        closedir(folder);
    }
    return shards;
}

tfos_status tfos__checkpoints_look(const tfos__checkpoints *checkpoints, size_t index, tfos_error *error)
{
    const char *name = checkpoints->at[index].name;
    char *prefix = tfos__checkpoints_prefix(checkpoints, name);
    if (prefix == NULL) {
        return tfos__fail_memory(error, strlen(name));
    }
    int shards = shards_of(checkpoints, name);
    tfos_status status = look_for(prefix, ".index", error);
    for (int i = 0; i < shards && status == TFOS_OK; i++) {
        char end[48];
        snprintf(end, sizeof end, ".data-%05d-of-%05d", i, shards);
        status = look_for(prefix, end, error);
    }
    free(prefix);
    return status;
}

tfos_status tfos__checkpoints_note(const tfos__checkpoints *checkpoints, size_t index, tfos__buffer *out,
                                   tfos_error *error)
{
    char *path = NULL;
    TFOS_TRY(join(checkpoints->folder, checkpoints->at[index].name, ".json", &path, error));
    tfos_status status = tfos__file_slurp(NULL, path, NOTE_BYTES, out, error);
    free(path);
    return status;
}

static tfos_status write_note(const tfos__checkpoints *self, const char *name, const char *note, tfos_error *error)
{
    char *path = NULL;
    TFOS_TRY(join(self->folder, name, ".json", &path, error));
    tfos_status status = write_file(path, note, strlen(note), error);
    free(path);
    return status;
}

bool tfos__checkpoints_has(const tfos__checkpoints *checkpoints, const char *name)
{
    bool found = false;
    for (size_t i = 0; i < checkpoints->count; i++) {
        found = found || strcmp(checkpoints->at[i].name, name) == 0;
    }
    return found;
}

bool tfos__checkpoints_is_taken(const tfos__checkpoints *checkpoints, const char *name)
{
    char *prefix = tfos__checkpoints_prefix(checkpoints, name);
    bool taken =
        tfos__checkpoints_has(checkpoints, name) || (prefix != NULL && look_for(prefix, ".index", NULL) == TFOS_OK);
    free(prefix);
    return taken;
}

/* The list as it will be: `name` is the newest, and what is too much is not in it, the oldest first. */
static tfos_status plan(const tfos__checkpoints *self, const char *name, const char *spared, tfos__checkpoints *out,
                        tfos_error *error)
{
    struct timespec now;
    for (size_t i = 0; i < self->count; i++) {
        if (strcmp(self->at[i].name, name) != 0) {
            TFOS_TRY(append(out, strdup(self->at[i].name), self->at[i].time_s, error));
        }
    }
    clock_gettime(CLOCK_REALTIME, &now);
    TFOS_TRY(append(out, strdup(name), (double)now.tv_sec + (double)now.tv_nsec / 1e9, error));
    size_t at = 0;
    while (out->count - at > out->most) {
        if (spared != NULL && strcmp(out->at[at].name, spared) == 0) {
            at++;
        } else {
            forget(out, at);
        }
    }
    return TFOS_OK;
}

/* Files of `self` that `kept` has not. Those of others, elsewhere, are left alone. */
static void remove_others(const tfos__checkpoints *self, const tfos__checkpoints *kept)
{
    for (size_t i = 0; i < self->count; i++) {
        if (!tfos__checkpoints_has(kept, self->at[i].name) && strchr(self->at[i].name, '/') == NULL) {
            remove_in(self->folder, self->at[i].name);
        }
    }
}

/* The list is another one when the file says so: where that cannot be written, as on a disk that is full, all stays as
 * it was, and the new checkpoint, which nobody would find, has no files. */
tfos_status tfos__checkpoints_add(tfos__checkpoints *checkpoints, const char *name, const char *note,
                                  const char *spared, tfos_error *error)
{
    tfos__checkpoints next = {.folder = strdup(checkpoints->folder), .most = checkpoints->most};
    tfos_status status = next.folder != NULL ? plan(checkpoints, name, spared, &next, error)
                                             : tfos__fail_memory(error, strlen(checkpoints->folder));
    status = status == TFOS_OK ? write_note(checkpoints, name, note, error) : status;
    status = status == TFOS_OK ? write_state(&next, error) : status;
    if (status == TFOS_OK) {
        tfos__checkpoints before = *checkpoints;
        *checkpoints = next;
        next = before;
        remove_others(&next, checkpoints);
    } else if (!tfos__checkpoints_has(checkpoints, name)) {
        remove_in(checkpoints->folder, name);
    }
    tfos__checkpoints_close(&next);
    return status;
}
