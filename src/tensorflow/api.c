/* The table of TensorFlow's C API.
 *
 * A process has one TensorFlow or none: two copies would register their ops twice, and the second one aborts. So what
 * is there already is used, and what was loaded stays. It is loaded with RTLD_LOCAL, as TensorFlow's own Python does
 * it: its library exports BoringSSL, curl and zlib, which must not become those of the process. Libraries of ops find
 * it all the same, because they name libtensorflow_framework.so.2 as their dependency. */
#include "tensorflow/api.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/status.h"
#include "tensorflow/find.h"

#define FRAMEWORK_LIBRARY "libtensorflow_framework.so.2"

static pthread_mutex_t load_lock = PTHREAD_MUTEX_INITIALIZER;
static tfos__tensorflow table;
static bool is_loaded;
static char table_path[PATH_MAX];

/* ---- opening ---- */

/* A library that dlsym can ask, and where it is from. */
typedef struct library {
    void *handle; /* RTLD_DEFAULT is NULL */
    char path[PATH_MAX];
} library;

static const char *last_problem(void)
{
    const char *text = dlerror();
    return text != NULL ? text : "the system gives no reason";
}

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash != NULL ? slash + 1 : path;
}

static int note_loaded(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    library *out = context;
    const char *name = info->dlpi_name != NULL ? file_name(info->dlpi_name) : "";
    bool is_ours = strncmp(name, "libtensorflow_cc.so", 19) == 0 || strncmp(name, "libtensorflow.so", 16) == 0;
    if (is_ours && strlen(info->dlpi_name) < sizeof out->path) {
        strcpy(out->path, info->dlpi_name);
        return 1;
    }
    return 0;
}

/* What a program has loaded or is linked to. Python loads TensorFlow with RTLD_LOCAL, so its name is found in the list
 * of libraries and not by its symbols. */
static bool open_loaded(library *out)
{
    out->path[0] = '\0';
    if (dl_iterate_phdr(note_loaded, out) == 1) {
        out->handle = dlopen(out->path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
        if (out->handle != NULL) {
            return true;
        }
    }
    void *symbol = dlsym(RTLD_DEFAULT, "TF_NewServer");
    Dl_info where;
    if (symbol == NULL || dladdr(symbol, &where) == 0 || strlen(where.dli_fname) >= sizeof out->path) {
        return false;
    }
    out->handle = RTLD_DEFAULT;
    strcpy(out->path, where.dli_fname);
    return true;
}

/* The wheel's library needs the framework beside it, and finds it there unless somebody has moved or linked it: what is
 * loaded by then satisfies it by its name. */
static void open_framework(const char *path)
{
    char beside[PATH_MAX + sizeof FRAMEWORK_LIBRARY];
    size_t folder = (size_t)(file_name(path) - path);
    snprintf(beside, sizeof beside, "%.*s%s", (int)folder, path, FRAMEWORK_LIBRARY);
    if (dlopen(beside, RTLD_NOW | RTLD_LOCAL) == NULL) {
        dlerror();
    }
}

/* The loader names a version of the C library that is missing, and nobody knows what to make of that. */
static const char *loader_hint(const char *problem)
{
    return strstr(problem, "GLIBC") != NULL
               ? "; this machine's C library is older than the one that it was built for: use an older TensorFlow, or "
                 "a newer system"
               : "";
}

static tfos_status open_found(library *out, tfos_error *error)
{
    open_framework(out->path);
    out->handle = dlopen(out->path, RTLD_NOW | RTLD_LOCAL);
    if (out->handle == NULL) {
        const char *problem = last_problem();
        return tfos__fail(error, TFOS_MISSING_LIBRARY, "TensorFlow cannot be loaded from %s: %s%s", out->path, problem,
                          loader_hint(problem));
    }
    return TFOS_OK;
}

/* By name alone: LD_LIBRARY_PATH and the cache of ldconfig. */
static bool open_by_name(library *out)
{
    static const char *const names[] = {TFOS__TENSORFLOW_C_LIBRARY, TFOS__TENSORFLOW_WHEEL_LIBRARY};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        out->handle = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        if (out->handle != NULL) {
            struct link_map *map = NULL;
            bool known = dlinfo(out->handle, RTLD_DI_LINKMAP, &map) == 0 && strlen(map->l_name) < sizeof out->path;
            strcpy(out->path, known ? map->l_name : names[i]);
            return true;
        }
        dlerror();
    }
    return false;
}

/* What a user may have forbidden, and can allow. */
static const char *shipping_hint(void)
{
    const char *ship = getenv("TFOS_TENSORFLOW_SHIP"); /* set by the executor; the settings are not in this library */
    return ship != NULL && strcmp(ship, "never") == 0
               ? "; or let the driver bring its own (spark.tfos.tensorflow.ship=auto; it is 'never')"
               : "";
}

/* Its path; with a handle if the system's loader has found it by its name. */
static tfos_status find_library(const char *python, library *out, tfos_error *error)
{
    tfos__tensorflow_search search;
    out->handle = NULL;
    TFOS_TRY(tfos__tensorflow_find(python, &search, error));
    if (search.path[0] != '\0') {
        strcpy(out->path, search.path);
        return TFOS_OK;
    }
    if (open_by_name(out)) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_MISSING_LIBRARY,
                      "TensorFlow was not found: install it for the Python in use (pip install tensorflow), or set "
                      "TFOS_TENSORFLOW_LIB to %s or its folder%s. Looked at: %s; LD_LIBRARY_PATH and ldconfig",
                      TFOS__TENSORFLOW_WHEEL_LIBRARY, shipping_hint(), search.looked);
}

static tfos_status open_library(const char *python, library *out, tfos_error *error)
{
    if (open_loaded(out)) {
        return TFOS_OK;
    }
    TFOS_TRY(find_library(python, out, error));
    return out->handle != NULL ? TFOS_OK : open_found(out, error);
}

tfos_status tfos__tensorflow_locate(const char *python, char out[PATH_MAX], tfos_error *error)
{
    library found;
    TFOS_TRY(find_library(python, &found, error));
    strcpy(out, found.path);
    return TFOS_OK;
}

/* ---- the table ---- */

enum { OPTIONAL, NEEDED };

static const struct {
    const char *name;
    size_t offset;
    int need;
} functions[] = {
#define FUNCTION(need, result, name, arguments) {#name, offsetof(tfos__tensorflow, name), need},
    TFOS__TENSORFLOW_MAP(FUNCTION)
#undef FUNCTION
};

static tfos_status check_version(const char *version, const char *path, tfos_error *error)
{
    int major = 0;
    int minor = 0;
    if (sscanf(version, "%d.%d", &major, &minor) != 2 || major < TFOS__TENSORFLOW_MAJOR ||
        (major == TFOS__TENSORFLOW_MAJOR && minor < TFOS__TENSORFLOW_MINOR)) {
        return tfos__fail(error, TFOS_UNSUPPORTED,
                          "expected TensorFlow %d.%d or newer, found %s in %s; upgrade it, or set TFOS_TENSORFLOW_LIB "
                          "to a newer one",
                          TFOS__TENSORFLOW_MAJOR, TFOS__TENSORFLOW_MINOR, tfos__printable_text(version).text, path);
    }
    return TFOS_OK;
}

static tfos_status fill_table(const library *from, tfos__tensorflow *out, tfos_error *error)
{
    /* The version first: an old library that lacks functions is better called old. */
    const char *(*version)(void) = NULL;
    *(void **)(&version) = dlsym(from->handle, "TF_Version");
    if (version == NULL) {
        return tfos__fail(error, TFOS_MISSING_LIBRARY,
                          "%s is no TensorFlow library: it lacks TF_Version; expected %s or %s", from->path,
                          TFOS__TENSORFLOW_WHEEL_LIBRARY, TFOS__TENSORFLOW_C_LIBRARY);
    }
    out->version = version();
    out->path = table_path;
    TFOS_TRY(check_version(out->version, from->path, error));
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        void *symbol = dlsym(from->handle, functions[i].name);
        if (symbol == NULL && functions[i].need == NEEDED) {
            return tfos__fail(error, TFOS_MISSING_LIBRARY,
                              "%s (TensorFlow %s) lacks the function %s; install the `tensorflow` wheel, or set "
                              "TFOS_TENSORFLOW_LIB to a complete library",
                              from->path, out->version, functions[i].name);
        }
        memcpy((char *)out + functions[i].offset, &symbol, sizeof symbol);
    }
    return TFOS_OK;
}

static tfos_status load(const char *python, tfos_error *error)
{
    library found;
    tfos__tensorflow filled = {0};
    TFOS_TRY(open_library(python, &found, error));
    TFOS_TRY(fill_table(&found, &filled, error));
    table = filled;
    strcpy(table_path, found.path);
    is_loaded = true;
    return TFOS_OK;
}

tfos_status tfos__tensorflow_load(const char *python, const tfos__tensorflow **out, tfos_error *error)
{
    pthread_mutex_lock(&load_lock);
    bool is_first = !is_loaded;
    tfos_status status = is_first ? load(python, error) : TFOS_OK;
    pthread_mutex_unlock(&load_lock);
    TFOS_TRY(status);
    if (is_first) {
        tfos__log(TFOS_LOG_INFO, "TensorFlow %s from %s", table.version, table.path);
    }
    *out = &table;
    return TFOS_OK;
}

/* ---- what TensorFlow says ---- */

/* Its codes are those of gRPC and Abseil. */
static tfos_status status_of_code(int code)
{
    switch (code) {
    case 0: /* OK */
        return TFOS_OK;
    case 1: /* CANCELLED */
        return TFOS_CANCELLED;
    case 3: /* INVALID_ARGUMENT */
    case 9: /* FAILED_PRECONDITION */
        return TFOS_INVALID;
    case 5: /* NOT_FOUND */
        return TFOS_NOT_FOUND;
    case 6: /* ALREADY_EXISTS */
        return TFOS_EXISTS;
    case 7:  /* PERMISSION_DENIED */
    case 16: /* UNAUTHENTICATED */
        return TFOS_PERMISSION;
    case 8: /* RESOURCE_EXHAUSTED */
        return TFOS_NO_MEMORY;
    case 11: /* OUT_OF_RANGE */
        return TFOS_RANGE;
    case 12: /* UNIMPLEMENTED */
        return TFOS_UNSUPPORTED;
    case 15: /* DATA_LOSS */
        return TFOS_CORRUPT;
    default:
        return TFOS_IO;
    }
}

tfos_status tfos__tensorflow_check(const tfos__tensorflow *tf, const TF_Status *status, const char *doing,
                                   tfos_error *error)
{
    int code = tf->TF_GetCode(status);
    if (code == 0) {
        return TFOS_OK;
    }
    return tfos__fail(error, status_of_code(code), "%s: TensorFlow %s says: %s (code %d)", doing, tf->version,
                      tf->TF_Message(status), code);
}

tfos_status tfos__tensorflow_load_ops(const tfos__tensorflow *tf, const char *path, tfos_error *error)
{
    if (tf->TF_LoadLibrary == NULL) {
        return tfos__fail(error, TFOS_UNSUPPORTED, "%s: this TensorFlow (%s, %s) cannot load libraries of ops", path,
                          tf->version, tf->path);
    }
    TF_Status *status = tf->TF_NewStatus();
    tf->TF_LoadLibrary(path, status); /* its handle is for listing the ops: the library stays either way */
    tfos_status ours = tfos__tensorflow_check(tf, status, path, error);
    tf->TF_DeleteStatus(status);
    return ours;
}
