/* The final export: a copy of the model for prediction that lies beside the trainable one, with trained weights. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/status.h"
#include "fs/fs.h"
#include "tensorflow/export_place.h"
#include "tensorflow/session.h"
#include "tensorflow/trainer_state.h"

enum { COPY_BYTES = 1 << 20, DEPTH_MOST = 64 };

/* ---- folders ---- */

static tfos_status join(const char *folder, const char *name, char **out, tfos_error *error)
{
    return asprintf(out, "%s/%s", folder, name) >= 0 ? TFOS_OK : tfos__fail_memory(error, strlen(folder));
}

static tfos_status copy_bytes(int from, int to, const char *path, tfos_error *error)
{
    char *buffer = malloc(COPY_BYTES);
    ssize_t got = 1;
    bool failed = buffer == NULL;
    while (!failed && got > 0) {
        got = read(from, buffer, COPY_BYTES);
        for (ssize_t done = 0; got > 0 && done < got && !failed;) {
            ssize_t put = write(to, buffer + done, (size_t)(got - done));
            failed = put < 0;
            done += put > 0 ? put : 0;
        }
        failed = failed || got < 0;
    }
    int code = errno;
    free(buffer);
    return failed ? tfos__fail_errno(error, code, "%s", path) : TFOS_OK;
}

static tfos_status copy_file(const char *from, const char *to, tfos_error *error)
{
    int source = open(from, O_RDONLY | O_CLOEXEC);
    if (source < 0) {
        return tfos__fail_errno(error, errno, "%s", from);
    }
    int target = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    tfos_status status = target < 0 ? tfos__fail_errno(error, errno, "%s", to) : copy_bytes(source, target, to, error);
    close(source);
    if (status == TFOS_OK && fsync(target) != 0) {
        status = tfos__fail_errno(error, errno, "%s", to);
    }
    if (target >= 0 && close(target) != 0 && status == TFOS_OK) {
        status = tfos__fail_errno(error, errno, "%s", to);
    }
    return status;
}

/* What is not copied: variables, which are written anew, and what TensorFlow says of those that were there. */
static bool is_replaced(const char *name, int depth)
{
    return depth == 0 && (strcmp(name, "variables") == 0 || strcmp(name, "fingerprint.pb") == 0);
}

static tfos_status copy_tree(const char *from, const char *to, int depth, tfos_error *error);

static tfos_status copy_entry(const char *from, const char *to, const char *name, int depth, tfos_error *error)
{
    struct stat info;
    char *source = NULL;
    char *target = NULL;
    tfos_status status = join(from, name, &source, error);
    status = status == TFOS_OK ? join(to, name, &target, error) : status;
    if (status == TFOS_OK && stat(source, &info) != 0) {
        status = tfos__fail_errno(error, errno, "%s", source);
    }
    if (status == TFOS_OK) {
        status = S_ISDIR(info.st_mode) ? copy_tree(source, target, depth + 1, error) : copy_file(source, target, error);
    }
    free(source);
    free(target);
    return status;
}

static tfos_status copy_tree(const char *from, const char *to, int depth, tfos_error *error)
{
    if (depth > DEPTH_MOST) {
        return tfos__fail(error, TFOS_LIMIT, "%s: folders inside of each other, more than %d", from, DEPTH_MOST);
    }
    TFOS_TRY(tfos__folder_make(to, error));
    DIR *folder = opendir(from);
    if (folder == NULL) {
        return tfos__fail_errno(error, errno, "%s", from);
    }
    tfos_status status = TFOS_OK;
    for (struct dirent *each; status == TFOS_OK && (each = readdir(folder)) != NULL;) {
        bool self = strcmp(each->d_name, ".") == 0 || strcmp(each->d_name, "..") == 0;
        if (!self && !is_replaced(each->d_name, depth)) {
            status = copy_entry(from, to, each->d_name, depth, error);
        }
    }
    closedir(folder);
    return status;
}

/* ---- the model ---- */

/* Variables of the checkpoint that prediction needs, and no others. */
static tfos_status write_variables(const tfos__tensorflow *tf, const char *serving, const char *checkpoint,
                                   const char *made, tfos_error *error)
{
    tfos__session session;
    tfos__session_options options = {.folder = serving, .tags = "serve", .threads = 1};
    char *folder = NULL;
    char *prefix = NULL;
    TFOS_TRY(tfos__session_open(tf, &options, &session, error));
    tfos_status status = tfos__session_restore(&session, checkpoint, error);
    status = status == TFOS_OK ? join(made, "variables", &folder, error) : status;
    status = status == TFOS_OK ? join(folder, "variables", &prefix, error) : status;
    status = status == TFOS_OK ? tfos__folder_make(folder, error) : status;
    status = status == TFOS_OK ? tfos__session_save(&session, prefix, error) : status;
    status = status == TFOS_OK ? tfos__checkpoint_sync(prefix, error) : status;
    tfos__session_close(&session);
    free(folder);
    free(prefix);
    return status;
}

/* The weights of training go through a checkpoint in the hidden folder, which is gone before that has its name. */
static tfos_status write_weights(const tfos__tensorflow *tf, tfos__trainable *trained, const char *serving,
                                 const char *made, tfos_error *error)
{
    char *folder = NULL;
    char *checkpoint = NULL;
    tfos_status status = join(made, ".weights", &folder, error);
    status = status == TFOS_OK ? join(folder, "trained", &checkpoint, error) : status;
    status = status == TFOS_OK ? tfos__folder_make(folder, error) : status;
    status = status == TFOS_OK ? tfos__trainable_save(trained, checkpoint, error) : status;
    status = status == TFOS_OK ? write_variables(tf, serving, checkpoint, made, error) : status;
    if (folder != NULL) {
        tfos__folder_remove(folder);
    }
    free(folder);
    free(checkpoint);
    return status;
}

tfos_status tfos__export_write(const tfos__tensorflow *tf, tfos__trainable *trained, const char *folder,
                               tfos_error *error)
{
    char *serving = NULL;
    char *made = NULL;
    TFOS_TRY(tfos__export_check(folder, error));
    tfos_status status = join(tfos__trainable_folder(trained), "serving", &serving, error);
    status = status == TFOS_OK ? tfos__export_place_make(folder, &made, error) : status;
    if (status == TFOS_OK) {
        status = copy_tree(serving, made, 0, error);
        status = status == TFOS_OK ? write_weights(tf, trained, serving, made, error) : status;
        if (status == TFOS_OK) {
            tfos__folder_sync(made);
        }
        status = status == TFOS_OK ? tfos__export_place_take(made, folder, error) : status;
        if (status != TFOS_OK) {
            tfos__folder_remove(made);
        }
    }
    free(serving);
    free(made);
    return status;
}
