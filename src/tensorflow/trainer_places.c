/* Whether the places of a trainer are apart from each other, which is better known before training than behind it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "fs/fs.h"
#include "tensorflow/export_place.h"
#include "tensorflow/trainer_state.h"

/* ---- what would be taken for data ---- */

static tfos_status check_reader(const char *key, const char *folder, const char *what, const tfos__texts *inputs,
                                tfos_error *error)
{
    char *reader = folder != NULL ? tfos__paths_find_reader(inputs->at, inputs->count, folder) : NULL;
    if (reader == NULL) {
        return TFOS_OK;
    }
    tfos_status status = tfos__fail(error, TFOS_INVALID,
                                    "%s: %s lies in %s, where all files are %s: what is written there would be read as "
                                    "records the next time. Give a folder elsewhere, or one whose name begins with '_' "
                                    "or '.', or name the files of %s by a glob",
                                    key, folder, reader, what, what);
    free(reader);
    return status;
}

tfos_status tfos__trainer_check_readers(const tfos__trainer_options *options, tfos_error *error)
{
    const struct {
        const char *key;
        const char *folder;
    } places[] = {
        {"model_dir", options->model_dir}, {"export_dir", options->export_dir}, {"log_dir", options->log_dir}};
    for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
        TFOS_TRY(check_reader(places[i].key, places[i].folder, "data", &options->data, error));
        TFOS_TRY(check_reader(places[i].key, places[i].folder, "validation", &options->validation, error));
    }
    return TFOS_OK;
}

/* ---- what would be lost with a model that is replaced ---- */

static tfos_status check_files(const char *folder, const char *what, const tfos__trainer_input *input,
                               tfos_error *error)
{
    const tfos_paths *paths = input != NULL ? tfos__trainer_input_paths(input) : NULL;
    return paths != NULL ? tfos__export_check_apart(folder, what, (const char *const *)paths->path, paths->count, error)
                         : TFOS_OK;
}

/* The final export is a copy of what lies beside the trainable model. */
static tfos_status check_model(const char *folder, const char *model, tfos_error *error)
{
    char *serving;
    TFOS_TRY(tfos__export_check_apart(folder, "model", &model, 1, error));
    if (asprintf(&serving, "%s/serving", model) < 0) {
        return tfos__fail_memory(error, strlen(model));
    }
    tfos_status status = tfos__export_check_outside(folder, serving, error);
    free(serving);
    return status;
}

/* Of all that a trainer reads and writes nothing is lost when the folder is replaced. */
tfos_status tfos__trainer_check_export(const tfos__trainer *trainer, tfos_error *error)
{
    const tfos__trainer_options *options = trainer->options;
    const char *folder = options->export_dir;
    TFOS_TRY(check_model(folder, options->model, error));
    TFOS_TRY(tfos__export_check_apart(folder, "model_dir", &options->model_dir, 1, error));
    TFOS_TRY(tfos__export_check_apart(folder, "log_dir", &options->log_dir, 1, error));
    TFOS_TRY(check_files(folder, "a file of data", trainer->data, error));
    TFOS_TRY(check_files(folder, "a file of validation", trainer->validation, error));
    TFOS_TRY(tfos__export_check_apart(folder, "a library of op_libraries", options->libraries.at,
                                      options->libraries.count, error));
    return tfos__export_check(folder, error);
}
