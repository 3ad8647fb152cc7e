/* Finds the library of TensorFlow.
 *
 * An interpreter that is started runs whatever its environment runs at the start, for as long as that takes. So the
 * folders of a Python are worked out from the path of its interpreter, as Python itself does it:
 *
 *   /env/bin/python → …/bin/python3.11     the version, from the file behind the links, or from pyvenv.cfg
 *   /env/pyvenv.cfg                        a virtual environment: its packages, those of its home if it says so
 *   /env/lib/python3.11/site-packages/tensorflow/libtensorflow_cc.so.2
 *
 * Where that leads nowhere (a wrapper script, a .pth file, a layout that we do not know) the interpreter is asked. */
#include "tensorflow/find.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/program.h"
#include "base/status.h"

extern char **environ;

enum { ASK_MS = 10000, MAX_ANSWER_BYTES = 64 * 1024 };

static const char *const library_names[] = {TFOS__TENSORFLOW_WHEEL_LIBRARY, TFOS__TENSORFLOW_C_LIBRARY};

/* ---- paths ---- */

/* The path, or "" if it is too long for any file. */
__attribute__((format(printf, 2, 3))) static void put_path(char out[PATH_MAX], const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(out, PATH_MAX, format, arguments);
    va_end(arguments);
    if (length < 0 || length >= PATH_MAX) {
        out[0] = '\0';
    }
}

__attribute__((format(printf, 2, 3))) static void add_looked(tfos__tensorflow_search *search, const char *format, ...)
{
    size_t used = strlen(search->looked);
    if (used > 0 && used + 2 < sizeof search->looked) {
        memcpy(search->looked + used, "; ", 3);
        used += 2;
    }
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(search->looked + used, sizeof search->looked - used, format, arguments);
    va_end(arguments);
}

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : NULL;
}

static bool is_file(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISREG(info.st_mode);
}

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

/* Whether `folder` holds the library, which is then found. */
static bool try_folder(tfos__tensorflow_search *search, const char *folder)
{
    for (size_t i = 0; i < sizeof library_names / sizeof library_names[0]; i++) {
        put_path(search->path, "%s/%s", folder, library_names[i]);
        if (is_file(search->path)) {
            return true;
        }
    }
    search->path[0] = '\0';
    return false;
}

/* The same for a folder of Python packages. */
static bool try_packages(tfos__tensorflow_search *search, const char *packages)
{
    char folder[PATH_MAX];
    put_path(folder, "%s/tensorflow", packages);
    return folder[0] != '\0' && try_folder(search, folder);
}

/* "/env" of "/env/bin/python": the folder above that of the interpreter. */
static void put_prefix(char out[PATH_MAX], const char *interpreter)
{
    put_path(out, "%s", interpreter);
    for (int levels = 0; levels < 2; levels++) {
        char *slash = strrchr(out, '/');
        if (slash == NULL) {
            put_path(out, "%s", levels == 0 ? ".." : ".");
            return;
        }
        *slash = '\0';
    }
}

/* ---- an interpreter ---- */

/* Only an interpreter that the caller names must be there: PYSPARK_PYTHON may be meant for another host. */
static tfos_status choose_python(tfos__tensorflow_search *search, const char *python, char out[PATH_MAX],
                                 tfos_error *error)
{
    char name[PATH_MAX];
    if (python != NULL) {
        if (!tfos__program_find(python, out, PATH_MAX)) {
            return tfos__fail(error, TFOS_NOT_FOUND,
                              "expected a Python interpreter whose TensorFlow is to be used, found no program '%s'",
                              tfos__printable_text(python).text);
        }
        return TFOS_OK;
    }
    const char *of_spark = variable("PYSPARK_PYTHON");
    if (of_spark != NULL) {
        if (tfos__program_find(of_spark, out, PATH_MAX)) {
            return TFOS_OK;
        }
        add_looked(search, "PYSPARK_PYTHON=%s (no such program)", of_spark);
    }
    const char *environment = variable("VIRTUAL_ENV");
    if (environment != NULL) {
        put_path(name, "%s/bin/python", environment);
        if (name[0] != '\0' && tfos__program_find(name, out, PATH_MAX)) {
            return TFOS_OK;
        }
        add_looked(search, "VIRTUAL_ENV=%s (no bin/python)", environment);
    }
    if (!tfos__program_find("python3", out, PATH_MAX)) {
        add_looked(search, "python3 on the PATH (none)");
        out[0] = '\0';
    }
    return TFOS_OK;
}

/* ---- the folders of a Python ---- */

typedef struct python_home {
    char prefix[PATH_MAX];
    char base[PATH_MAX]; /* of the Python that a virtual environment was made from, if its packages count; else "" */
    char version[32];    /* "python3.11", the folder's name; "" if not known */
    bool is_virtual;
} python_home;

/* "python3.11" from text that begins with "3.11"; the letter is that of a build without the GIL. */
static void put_version(python_home *home, const char *text)
{
    int major;
    int minor;
    int used = 0;
    if (sscanf(text, "%1d.%3d%n", &major, &minor, &used) == 2 && used > 0) {
        snprintf(home->version, sizeof home->version, "python%d.%d%s", major, minor, text[used] == 't' ? "t" : "");
    }
}

/* pyvenv.cfg has lines "key = value". */
static void read_pyvenv(python_home *home)
{
    char path[PATH_MAX];
    char line[PATH_MAX];
    bool with_base = false;
    put_path(path, "%s/pyvenv.cfg", home->prefix);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return;
    }
    home->is_virtual = true;
    while (fgets(line, sizeof line, file) != NULL) {
        char key[64];
        int at = 0;
        if (sscanf(line, " %63[^ =] = %n", key, &at) != 1 || at == 0) {
            continue;
        }
        char *value = line + at;
        value[strcspn(value, "\r\n")] = '\0';
        if (strcmp(key, "home") == 0) {
            put_path(home->base, "%s", value);
            char *slash = strrchr(home->base, '/');
            *(slash != NULL ? slash : home->base) = '\0';
        } else if (strcmp(key, "include-system-site-packages") == 0) {
            with_base = strncasecmp(value, "true", 4) == 0;
        } else if (strcmp(key, "version") == 0 || strcmp(key, "version_info") == 0) {
            put_version(home, value);
        }
    }
    fclose(file);
    if (!with_base) {
        home->base[0] = '\0';
    }
}

static void find_home(const char *interpreter, python_home *home)
{
    char real[PATH_MAX];
    *home = (python_home){0};
    put_prefix(home->prefix, interpreter);
    read_pyvenv(home);
    if (realpath(interpreter, real) == NULL) {
        return;
    }
    if (!home->is_virtual) {
        put_prefix(home->prefix, real);
    }
    const char *name = strrchr(real, '/') + 1;
    if (home->version[0] == '\0' && strncmp(name, "python", 6) == 0) {
        put_version(home, name + 6);
    }
}

static bool try_prefix(tfos__tensorflow_search *search, const char *prefix, const char *version)
{
    static const char *const libraries[] = {"lib", "lib64", "local/lib"};
    static const char *const kinds[] = {"site", "dist"};
    char packages[PATH_MAX];
    for (size_t i = 0; i < sizeof libraries / sizeof libraries[0]; i++) {
        for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
            put_path(packages, "%s/%s/%s/%s-packages", prefix, libraries[i], version, kinds[k]);
            if (try_packages(search, packages)) {
                return true;
            }
        }
    }
    return false;
}

static bool try_python_path(tfos__tensorflow_search *search)
{
    char packages[PATH_MAX];
    for (const char *at = variable("PYTHONPATH"); at != NULL && *at != '\0';) {
        size_t length = strcspn(at, ":");
        put_path(packages, "%.*s", (int)length, at);
        if (length > 0 && try_packages(search, packages)) {
            return true;
        }
        at += length + (at[length] == ':');
    }
    return false;
}

static bool try_user(tfos__tensorflow_search *search, const char *version)
{
    char prefix[PATH_MAX];
    if (variable("PYTHONNOUSERSITE") != NULL) {
        return false;
    }
    if (variable("PYTHONUSERBASE") != NULL) {
        put_path(prefix, "%s", variable("PYTHONUSERBASE"));
    } else if (variable("HOME") != NULL) {
        put_path(prefix, "%s/.local", variable("HOME"));
    } else {
        return false;
    }
    return try_prefix(search, prefix, version);
}

/* In the order of sys.path. */
static bool try_home(tfos__tensorflow_search *search, const python_home *home)
{
    if (try_python_path(search)) {
        return true;
    }
    if (home->version[0] == '\0') {
        return false;
    }
    if (home->is_virtual) {
        return try_prefix(search, home->prefix, home->version) ||
               (home->base[0] != '\0' &&
                (try_user(search, home->version) || try_prefix(search, home->base, home->version)));
    }
    return try_user(search, home->version) || try_prefix(search, home->prefix, home->version);
}

/* ---- asking the interpreter ---- */

/* The mark keeps apart what an interpreter may print by itself when it starts. */
static const char question[] = "import importlib.util, os, sys\n"
                               "spec = importlib.util.find_spec('tensorflow')\n"
                               "for folder in spec and spec.submodule_search_locations or []:\n"
                               "    sys.stdout.buffer.write(b'\\ntfos:' + os.fsencode(folder) + b'\\n')\n";

/* A process group of its own, so that a wrapper script ends together with what it started; signals as they are by
 * default, whatever the process that we are in has done to them. */
static int start_python(const char *interpreter, int output, pid_t *out)
{
    char *arguments[] = {(char *)(uintptr_t)interpreter, (char *)(uintptr_t) "-c", (char *)(uintptr_t)question, NULL};
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    sigemptyset(&none);
    sigfillset(&all);
    int problem = posix_spawn_file_actions_init(&files);
    if (problem != 0) {
        return problem;
    }
    problem = posix_spawnattr_init(&attributes);
    if (problem == 0) {
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        posix_spawnattr_setpgroup(&attributes, 0);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
        posix_spawn_file_actions_adddup2(&files, output, STDOUT_FILENO);
        posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        problem = posix_spawn(out, interpreter, &files, &attributes, arguments, environ);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&files);
    return problem;
}

/* Reads until the end, the limit or the deadline. False if the deadline came. */
static bool read_answer(int from, char answer[MAX_ANSWER_BYTES])
{
    size_t used = 0;
    int64_t deadline = tfos__clock_ms() + ASK_MS;
    answer[0] = '\0';
    while (used + 1 < MAX_ANSWER_BYTES) {
        struct pollfd wait = {.fd = from, .events = POLLIN};
        int64_t left = deadline - tfos__clock_ms();
        if (left <= 0) {
            return false;
        }
        if (poll(&wait, 1, (int)left) <= 0) {
            continue;
        }
        ssize_t got = read(from, answer + used, MAX_ANSWER_BYTES - 1 - used);
        if (got <= 0) {
            break;
        }
        used += (size_t)got;
        answer[used] = '\0';
    }
    return true;
}

static bool take_answer(tfos__tensorflow_search *search, char *answer)
{
    char *rest = NULL;
    for (char *line = strtok_r(answer, "\n", &rest); line != NULL; line = strtok_r(NULL, "\n", &rest)) {
        if (strncmp(line, "tfos:", 5) == 0 && try_folder(search, line + 5)) {
            return true;
        }
    }
    return false;
}

static bool ask_python(tfos__tensorflow_search *search, const char *interpreter)
{
    int ends[2];
    pid_t child;
    char *answer = malloc(MAX_ANSWER_BYTES);
    if (answer == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        free(answer);
        return false;
    }
    int problem = start_python(interpreter, ends[1], &child);
    close(ends[1]);
    bool in_time = true;
    bool found = false;
    if (problem == 0) {
        in_time = read_answer(ends[0], answer);
        /* It has said what it had to say, or never will. */
        kill(-child, SIGKILL);
        while (waitpid(child, NULL, 0) < 0 && errno == EINTR) {}
        found = in_time && take_answer(search, answer);
    }
    close(ends[0]);
    free(answer);
    if (!found) {
        add_looked(search, "what %s can import (%s)", interpreter,
                   problem != 0 ? "it cannot be started"
                   : in_time    ? "no tensorflow"
                                : "it gave no answer in 10 s");
    }
    return found;
}

/* ---- all places ---- */

static tfos_status take_variable(tfos__tensorflow_search *search, const char *value, tfos_error *error)
{
    if (is_folder(value) && (try_folder(search, value) || try_packages(search, value))) {
        return TFOS_OK;
    }
    if (is_file(value)) {
        put_path(search->path, "%s", value);
        return TFOS_OK;
    }
    return tfos__fail(
        error, TFOS_NOT_FOUND,
        "TFOS_TENSORFLOW_LIB (or --tensorflow): expected %s or %s, or a folder that holds one of them, found %s '%s'",
        TFOS__TENSORFLOW_WHEEL_LIBRARY, TFOS__TENSORFLOW_C_LIBRARY,
        is_folder(value) ? "neither in the folder" : "no such file", tfos__printable_text(value).text);
}

static bool try_system(tfos__tensorflow_search *search)
{
    static const char *const folders[] = {"/usr/local/lib", "/usr/lib", "/usr/lib64"};
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
        if (try_folder(search, folders[i])) {
            return true;
        }
    }
    add_looked(search, "/usr/local/lib, /usr/lib, /usr/lib64");
    return false;
}

tfos_status tfos__tensorflow_find(const char *python, tfos__tensorflow_search *out, tfos_error *error)
{
    char interpreter[PATH_MAX];
    out->path[0] = '\0';
    out->looked[0] = '\0';
    const char *value = variable("TFOS_TENSORFLOW_LIB");
    if (value != NULL) {
        return take_variable(out, value, error);
    }
    add_looked(out, "TFOS_TENSORFLOW_LIB (not set)");
    TFOS_TRY(choose_python(out, python, interpreter, error));
    if (interpreter[0] != '\0') {
        python_home home;
        find_home(interpreter, &home);
        if (try_home(out, &home)) {
            return TFOS_OK;
        }
        add_looked(out, "the packages of %s in %s", interpreter, home.prefix);
        if (ask_python(out, interpreter)) {
            return TFOS_OK;
        }
    }
    try_system(out);
    return TFOS_OK;
}
