/* From what a user names (files, folders, globs) to the files that are read. */
#include <errno.h>
#include <fnmatch.h>
#include <fts.h>
#include <glob.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "base/status.h"
#include "fs/fs.h"
#include "fs/local.h"

bool tfos__path_is_index(const char *path)
{
    size_t length = strlen(path);
    size_t suffix = strlen(TFOS_INDEX_SUFFIX);
    return length >= suffix && strcmp(path + length - suffix, TFOS_INDEX_SUFFIX) == 0;
}

/* Marker files (_SUCCESS), half-written files and indexes are not data. */
static bool is_data_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    return name[0] != '_' && name[0] != '.' && !tfos__path_is_index(name);
}

static tfos_status append(tfos_paths *paths, const char *path, int64_t bytes, tfos_error *error)
{
    if ((paths->count & (paths->count - 1)) == 0) { /* a power of two: full */
        size_t capacity = paths->count == 0 ? 1 : paths->count * 2;
        char **names = realloc(paths->path, capacity * sizeof *names);
        if (names == NULL) {
            return tfos__fail_memory(error, capacity * sizeof *names);
        }
        paths->path = names;
        int64_t *sizes = realloc(paths->bytes, capacity * sizeof *sizes);
        if (sizes == NULL) {
            return tfos__fail_memory(error, capacity * sizeof *sizes);
        }
        paths->bytes = sizes;
    }
    char *copy = strdup(path);
    if (copy == NULL) {
        return tfos__fail_memory(error, strlen(path) + 1);
    }
    paths->path[paths->count] = copy;
    paths->bytes[paths->count] = bytes;
    paths->count++;
    paths->total_bytes += bytes;
    return TFOS_OK;
}

static int by_name(const FTSENT **a, const FTSENT **b)
{
    return strcmp((*a)->fts_name, (*b)->fts_name);
}

static tfos_status visit(FTS *walk, FTSENT *entry, tfos_paths *paths, tfos_error *error)
{
    bool hidden = entry->fts_level > 0 && !is_data_name(entry->fts_name);
    switch (entry->fts_info) {
    case FTS_D:
        if (hidden) {
            fts_set(walk, entry, FTS_SKIP);
        }
        return TFOS_OK;
    case FTS_F:
        return hidden ? TFOS_OK : append(paths, entry->fts_path, (int64_t)entry->fts_statp->st_size, error);
    case FTS_DNR:
    case FTS_ERR:
    case FTS_NS:
    case FTS_SLNONE:
        if (hidden) {
            return TFOS_OK;
        }
        return tfos__fail_errno(error, entry->fts_errno != 0 ? entry->fts_errno : ENOENT, "%s: cannot be listed",
                                entry->fts_path);
    case FTS_DC:
        return tfos__fail(error, TFOS_INVALID, "%s: the folder contains itself through a link", entry->fts_path);
    default:
        return TFOS_OK;
    }
}

static tfos_status add_folder(tfos_paths *paths, const char *path, tfos_error *error)
{
    char *copy = strdup(path);
    if (copy == NULL) {
        return tfos__fail_memory(error, strlen(path) + 1);
    }
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--) {
        copy[length - 1] = '\0'; /* so that names have one slash */
    }
    char *const roots[] = {copy, NULL};
    FTS *walk = fts_open(roots, FTS_LOGICAL | FTS_NOCHDIR, by_name);
    if (walk == NULL) {
        tfos_status status = tfos__fail_errno(error, errno, "%s: cannot be listed", path);
        free(copy);
        return status;
    }
    tfos_status status = TFOS_OK;
    size_t before = paths->count;
    FTSENT *entry;
    errno = 0;
    while (status == TFOS_OK && (entry = fts_read(walk)) != NULL) {
        status = visit(walk, entry, paths, error);
        errno = 0;
    }
    if (status == TFOS_OK && errno != 0) {
        status = tfos__fail_errno(error, errno, "%s: cannot be listed", path);
    }
    fts_close(walk);
    free(copy);
    if (status == TFOS_OK && paths->count == before) {
        status = tfos__fail(error, TFOS_NOT_FOUND,
                            "%s: the folder holds no data file (names that begin with '_' or '.' and *%s do not count)",
                            path, TFOS_INDEX_SUFFIX);
    }
    return status;
}

static tfos_status add_existing(tfos_paths *paths, const char *path, tfos_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return tfos__fail_errno(error, errno, "%s: cannot be opened for reading", path);
    }
    if (S_ISDIR(info.st_mode)) {
        return add_folder(paths, path, error);
    }
    return append(paths, path, S_ISREG(info.st_mode) ? (int64_t)info.st_size : 0, error);
}

/* glob itself would sort by the locale of the process, and rows come in another order in another country. */
static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static tfos_status add_glob(tfos_paths *paths, const char *pattern, tfos_error *error)
{
    glob_t found;
    errno = 0;
    int result = glob(pattern, GLOB_ERR | GLOB_NOSORT, NULL, &found);
    int problem = errno;
    if (result == GLOB_NOMATCH) {
        return tfos__fail(error, TFOS_NOT_FOUND, "%s: no file or folder matches", pattern);
    }
    if (result != 0) {
        globfree(&found);
        return tfos__fail_errno(error, result == GLOB_NOSPACE ? ENOMEM : problem, "%s: cannot be listed", pattern);
    }
    qsort(found.gl_pathv, found.gl_pathc, sizeof *found.gl_pathv, by_bytes);
    tfos_status status = TFOS_OK;
    size_t before = paths->count;
    for (size_t i = 0; i < found.gl_pathc && status == TFOS_OK; i++) {
        if (is_data_name(found.gl_pathv[i])) {
            status = add_existing(paths, found.gl_pathv[i], error);
        }
    }
    globfree(&found);
    if (status == TFOS_OK && paths->count == before) {
        status = tfos__fail(error, TFOS_NOT_FOUND, "%s: only hidden files match", pattern);
    }
    return status;
}

/* A file whose name has a star in it is that file, not a pattern. */
static bool is_pattern(const char *local)
{
    struct stat info;
    return strpbrk(local, "*?[") != NULL && stat(local, &info) != 0 && errno == ENOENT;
}

static tfos_status add_input(tfos_paths *paths, const char *input, tfos_error *error)
{
    const char *local;
    TFOS_TRY(tfos__path_local(input, &local, error));
    return is_pattern(local) ? add_glob(paths, local, error) : add_existing(paths, local, error);
}

tfos_status tfos_paths_expand(const char *const *inputs, size_t count, tfos_paths **out, tfos_error *error)
{
    if (count == 0) {
        return tfos__fail(error, TFOS_INVALID, "expected at least one file, folder or glob, found none");
    }
    tfos_paths *paths = calloc(1, sizeof *paths);
    if (paths == NULL) {
        return tfos__fail_memory(error, sizeof *paths);
    }
    for (size_t i = 0; i < count; i++) {
        tfos_status status = add_input(paths, inputs[i], error);
        if (status != TFOS_OK) {
            tfos_paths_free(paths);
            return status;
        }
    }
    *out = paths;
    return TFOS_OK;
}

/* ---- who would read a folder ---- */

/* A hidden name, of the folder or of one on the way to it, keeps its files from being listed. */
static bool would_list(const char *input, const char *folder)
{
    struct stat info;
    char *top = stat(input, &info) == 0 && S_ISDIR(info.st_mode) ? tfos__path_resolve(input) : NULL;
    char *below = tfos__path_resolve(folder);
    bool listed = top != NULL && below != NULL && tfos__path_is_inside(below, top);
    while (listed && strlen(below) > strlen(top)) {
        listed = is_data_name(below);
        *strrchr(below, '/') = '\0';
    }
    free(top);
    free(below);
    return listed;
}

/* Of two resolved paths: whether a pattern for what is in `top` has one of the names between them, which is left in
 * `below`. */
static bool matches_between(const char *pattern, const char *top, char *below)
{
    size_t bytes = strlen(top) > 1 ? strlen(top) + 1 : 1;
    while (strlen(below) > bytes && is_data_name(below)) {
        if (fnmatch(pattern, below + bytes, FNM_PATHNAME | FNM_PERIOD) == 0) {
            return true;
        }
        *strrchr(below, '/') = '\0';
    }
    return false;
}

/* Of a folder that is not there yet, or of one above it. */
static char *match_to_be(const char *pattern, const char *folder)
{
    char *names = strdup(pattern);
    char *first = names != NULL ? strpbrk(names, "*?[") : NULL;
    char *slash = first != NULL ? memrchr(names, '/', (size_t)(first - names)) : NULL;
    if (slash != NULL) {
        *slash = '\0';
    }
    for (size_t length = strlen(pattern); names != NULL && length > 0 && names[length - 1] == '/'; length--) {
        names[length - 1] = '\0';
    }
    char *top = names != NULL ? tfos__path_resolve(slash == NULL ? "." : slash == names ? "/" : names) : NULL;
    char *below = tfos__path_resolve(folder);
    bool found = top != NULL && below != NULL && tfos__path_is_inside(below, top) &&
                 matches_between(slash != NULL ? slash + 1 : names, top, below);
    free(names);
    free(top);
    if (!found) {
        free(below);
    }
    return found ? below : NULL;
}

static char *find_match(const char *pattern, const char *folder)
{
    glob_t found;
    char *match = NULL;
    if (glob(pattern, GLOB_NOSORT, NULL, &found) != 0) {
        return match_to_be(pattern, folder);
    }
    for (size_t i = 0; i < found.gl_pathc && match == NULL; i++) {
        const char *path = found.gl_pathv[i];
        match = is_data_name(path) && would_list(path, folder) ? strdup(path) : NULL;
    }
    globfree(&found);
    return match != NULL ? match : match_to_be(pattern, folder);
}

char *tfos__paths_find_reader(const char *const *inputs, size_t count, const char *folder)
{
    const char *place;
    const char *local;
    char *reader = NULL;
    if (tfos__path_local(folder, &place, NULL) != TFOS_OK) {
        return NULL;
    }
    for (size_t i = 0; i < count && reader == NULL; i++) {
        if (tfos__path_local(inputs[i], &local, NULL) != TFOS_OK) {
            continue;
        }
        reader = is_pattern(local) ? find_match(local, place) : would_list(local, place) ? strdup(local) : NULL;
    }
    return reader;
}

bool tfos__path_is_regular(const char *path)
{
    struct stat info;
    const char *local;
    return tfos__path_local(path, &local, NULL) == TFOS_OK && stat(local, &info) == 0 && S_ISREG(info.st_mode);
}

tfos_status tfos__paths_check_twice(const tfos_paths *paths, tfos_error *error)
{
    for (size_t i = 0; i < paths->count; i++) {
        struct stat info;
        if (stat(paths->path[i], &info) == 0 && !S_ISREG(info.st_mode)) {
            return tfos__fail(error, TFOS_INVALID,
                              "%s: can be read only once, and finding its schema would use it up: give a schema",
                              paths->path[i]);
        }
    }
    return TFOS_OK;
}

void tfos_paths_free(tfos_paths *paths)
{
    if (paths == NULL) {
        return;
    }
    for (size_t i = 0; i < paths->count; i++) {
        free(paths->path[i]);
    }
    free(paths->path);
    free(paths->bytes);
    free(paths);
}
