/* Spawning. posix_spawn, because the process around us may have many threads and much memory: no code of ours runs
 * between fork and exec. */
#include "driver/spawn.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/program.h"
#include "base/status.h"

/* The folder of the file that holds this function: libtfos.so, or a program that has the library inside. */
static bool own_folder(char out[PATH_MAX])
{
    Dl_info info;
    char copy[PATH_MAX];
    if (dladdr((const void *)(uintptr_t)tfos__command_find, &info) == 0 || info.dli_fname == NULL ||
        realpath(info.dli_fname, copy) == NULL) {
        return false;
    }
    snprintf(out, PATH_MAX, "%s", dirname(copy));
    return true;
}

tfos_status tfos__command_find(const char *given, char *out, size_t bytes, tfos_error *error)
{
    char folder[PATH_MAX] = "?";
    const char *named = given != NULL ? given : getenv("TFOS_COMMAND");
    if (named != NULL && named[0] != '\0') {
        snprintf(out, bytes, "%s", named);
        if (!tfos__program_is(out)) {
            return tfos__fail_errno(error, errno, "cannot run the command %s%s", named,
                                    given == NULL ? " (TFOS_COMMAND)" : "");
        }
        return TFOS_OK;
    }
    for (int i = 0; i < 2 && own_folder(folder); i++) {
        int count = i == 0 ? snprintf(out, bytes, "%s/tfos", folder) : snprintf(out, bytes, "%s/bin/tfos", folder);
        if (count > 0 && (size_t)count < bytes && tfos__program_is(out)) {
            return TFOS_OK;
        }
    }
    if (tfos__program_find("tfos", out, bytes)) {
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_NOT_FOUND,
                      "the command tfos was found neither beside the library (%s) nor on the PATH; set TFOS_COMMAND to "
                      "its path",
                      folder);
}

static int spawn(const char *path, const char *argument, char *const *environment, int socket, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t none;
    sigset_t all;
    char *words[3];
    char *name = strdup(path);
    char *copy = strdup(argument);
    words[0] = name;
    words[1] = copy;
    words[2] = NULL;
    sigemptyset(&none);
    sigfillset(&all);
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
    posix_spawn_file_actions_adddup2(&actions, socket, STDIN_FILENO);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &all);
    int code =
        name == NULL || copy == NULL ? ENOMEM : posix_spawn(pid, path, &actions, &attributes, words, environment);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    free(name);
    free(copy);
    return code;
}

tfos_status tfos__command_spawn(const char *path, const char *argument, char *const *environment, pid_t *pid, int *out,
                                tfos_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return tfos__fail_errno(error, errno, "cannot make a pair of sockets");
    }
    /* dup2 onto itself would keep close-on-exec, and the child would have no stdin. */
    int theirs = pair[1] != STDIN_FILENO ? pair[1] : fcntl(pair[1], F_DUPFD_CLOEXEC, 3);
    int code = spawn(path, argument, environment, theirs, pid);
    close(pair[1]);
    if (theirs != pair[1]) {
        close(theirs);
    }
    if (code != 0) {
        close(pair[0]);
        return tfos__fail_errno(error, code, "cannot start %s %s", path, argument);
    }
    *out = pair[0];
    return TFOS_OK;
}
