/* The place of an exported model. */
#include "tensorflow/export_place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "fs/fs.h"

static bool is_empty(const char *folder)
{
    DIR *open = opendir(folder);
    int count = 0;
    while (open != NULL && count <= 2 && readdir(open) != NULL) {
        count++;
    }
    if (open != NULL) {
        closedir(open);
    }
    return open != NULL && count <= 2;
}

/* A folder that is a file system of its own cannot be replaced, nor anything be moved into its place. */
static bool is_mount(const char *folder, const char *parent)
{
    struct stat inner;
    struct stat outer;
    return stat(folder, &inner) == 0 && stat(parent, &outer) == 0 && inner.st_dev != outer.st_dev;
}

/* A new folder beside its place, under a hidden name. Where process numbers begin anew, in a container, a process that
 * was killed may have left one of the very same name: then the next name is tried. */
tfos_status tfos__export_place_make(const char *folder, char **made, tfos_error *error)
{
    enum { MAX_TRIES = 10000, NAME_MOST = 200 }; /* of a long name only the beginning is used */
    size_t end;
    size_t name = tfos__path_name(folder, &end);
    int bytes = end - name < NAME_MOST ? (int)(end - name) : NAME_MOST;
    int code = EEXIST;
    for (int i = 0; i < MAX_TRIES && code == EEXIST; i++) {
        if (asprintf(made, "%.*s.%.*s.tfos-%ld-%d", (int)name, folder, bytes, folder + name, (long)getpid(), i) < 0) {
            return tfos__fail_memory(error, end);
        }
        if (mkdir(*made, 0777) == 0) {
            return TFOS_OK;
        }
        code = errno;
        free(*made);
    }
    return tfos__fail_errno(error, code, "export_dir: %s: nothing can be written there", folder);
}

/* Better known before training than behind it. */
static tfos_status try_place(const char *folder, tfos_error *error)
{
    char *made;
    TFOS_TRY(tfos__export_place_make(folder, &made, error));
    (void)rmdir(made);
    free(made);
    return TFOS_OK;
}

static tfos_status check_place(const char *folder, const char *parent, tfos_error *error)
{
    char *file = NULL;
    if (is_mount(folder, parent)) {
        return tfos__fail(error, TFOS_INVALID,
                          "export_dir: %s is a file system of its own, and a model appears by being moved into its "
                          "place: name a folder inside of it",
                          folder);
    }
    if (access(folder, F_OK) == 0 && !is_empty(folder)) {
        if (asprintf(&file, "%s/saved_model.pb", folder) < 0) {
            return tfos__fail_memory(error, strlen(folder));
        }
        bool model = access(file, F_OK) == 0;
        free(file);
        if (!model) {
            return tfos__fail(error, TFOS_EXISTS,
                              "export_dir: %s is there and is no SavedModel, so it is not replaced: remove it, or give "
                              "another folder",
                              folder);
        }
    }
    return try_place(folder, error);
}

/* A model appears by being moved to its name, which has to be one of its own. */
static tfos_status check_name(const char *folder, tfos_error *error)
{
    size_t end;
    char target[PATH_MAX];
    size_t name = tfos__path_name(folder, &end);
    size_t bytes = end - name;
    if (bytes <= 2 && memcmp(folder + name, "..", bytes) == 0) { /* also one without a name, such as the root */
        return tfos__fail(error, TFOS_INVALID,
                          "export_dir: '%s' says where a folder is and not what it is called, and a model appears by "
                          "being moved to its name: give the folder by its name",
                          folder);
    }
    char *path = strndup(folder, end);
    if (path == NULL) {
        return tfos__fail_memory(error, end);
    }
    ssize_t length = readlink(path, target, sizeof target - 1);
    free(path);
    if (length < 0) {
        return TFOS_OK;
    }
    target[length] = '\0';
    return tfos__fail(error, TFOS_INVALID,
                      "export_dir: %s is a link to %s, and a model appears by being moved to its name: give the folder "
                      "itself",
                      folder, target);
}

tfos_status tfos__export_check(const char *folder, tfos_error *error)
{
    char *parent;
    TFOS_TRY(check_name(folder, error));
    TFOS_TRY(tfos__path_parent(folder, &parent, error));
    tfos_status status = tfos__folder_make(parent, error);
    status = status == TFOS_OK ? check_place(folder, parent, error) : status;
    free(parent);
    return status;
}

/* ---- other places ---- */

tfos_status tfos__export_check_apart(const char *folder, const char *what, const char *const *others, size_t count,
                                     tfos_error *error)
{
    tfos_status status = TFOS_OK;
    char *one = tfos__path_resolve(folder);
    for (size_t i = 0; i < count && one != NULL && status == TFOS_OK; i++) {
        char *other = others[i] != NULL ? tfos__path_resolve(others[i]) : NULL;
        if (other != NULL && tfos__path_is_inside(other, one)) {
            status = tfos__fail(error, TFOS_INVALID,
                                "export_dir: %s is replaced as a whole at the end, and %s, %s, is it or lies in it: "
                                "give another folder",
                                folder, what, others[i]);
        }
        free(other);
    }
    free(one);
    return status;
}

tfos_status tfos__export_check_outside(const char *folder, const char *source, tfos_error *error)
{
    char *one = tfos__path_resolve(folder);
    char *other = tfos__path_resolve(source);
    bool inside = one != NULL && other != NULL && tfos__path_is_inside(one, other);
    free(one);
    free(other);
    return !inside ? TFOS_OK
                   : tfos__fail(error, TFOS_INVALID,
                                "export_dir: %s is %s or lies in it, of which it is to be a copy: give another folder",
                                folder, source);
}

/* ---- taking it ---- */

/* Where two folders cannot change places at once: if this process is killed in between, the model that was there is
 * under a hidden name. */
static tfos_status replace_in_steps(const char *made, const char *folder, tfos_error *error)
{
    char *old;
    TFOS_TRY(tfos__export_place_make(folder, &old, error));
    (void)rmdir(old);
    int code = rename(folder, old) == 0 ? 0 : errno;
    if (code == 0 && rename(made, folder) != 0) {
        code = errno;
        (void)rename(old, folder);
    }
    if (code == 0) {
        tfos__output_sync_folder(made);
        tfos__folder_remove(old);
    }
    free(old);
    return code == 0 ? TFOS_OK
                     : tfos__fail_errno(error, code, "%s: the model that is there cannot be replaced", folder);
}

tfos_status tfos__export_place_take(const char *made, const char *folder, tfos_error *error)
{
    if (access(folder, F_OK) != 0) {
        int code = rename(made, folder) == 0 ? 0 : errno;
        tfos__output_sync_folder(made);
        return code == 0 ? TFOS_OK : tfos__fail_errno(error, code, "%s", folder);
    }
    if (renameat2(AT_FDCWD, made, AT_FDCWD, folder, RENAME_EXCHANGE) != 0) {
        return replace_in_steps(made, folder, error);
    }
    tfos__output_sync_folder(made);
    tfos__folder_remove(made);
    return TFOS_OK;
}
