/* Usage from /proc. One pass over /proc reads a line for each process of the machine, some milliseconds for a thousand
 * of them; who is below whom is then found in memory.
 *
 * The kernel counts its kills for want of memory in the cgroup of the victim: in memory.events (version 2) or
 * memory.oom_control (version 1). Inside a container the path that /proc/self/cgroup names may not exist where the
 * container sees its cgroup, so the folders above it are tried as well. */
#include "node/usage.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/status.h"

/* The content of a small file, terminated. False if it cannot be read. */
static bool read_file(const char *path, char *to, size_t bytes)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        return false;
    }
    size_t count = 0;
    ssize_t more = 1;
    while (more > 0 && count < bytes - 1) {
        more = read(file, to + count, bytes - 1 - count);
        count += more > 0 ? (size_t)more : 0;
    }
    close(file);
    to[count] = '\0';
    return count > 0;
}

static uint64_t ticks_to_ms(uint64_t ticks)
{
    return ticks * 1000 / (uint64_t)sysconf(_SC_CLK_TCK);
}

bool tfos__process_read(pid_t pid, tfos__process *out)
{
    char path[64];
    char text[1024];
    long parent;
    uint64_t user;
    uint64_t system;
    int64_t user_reaped;
    int64_t system_reaped;
    int64_t pages;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)pid);
    if (!read_file(path, text, sizeof text)) {
        return false;
    }
    /* The name in parentheses may hold anything, parentheses too. */
    const char *rest = strrchr(text, ')');
    if (rest == NULL ||
        sscanf(rest + 1,
               " %c %ld %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64 " %" SCNd64 " %" SCNd64
               " %*d %*d %*d %*d %" SCNu64 " %*u %" SCNd64,
               &out->state, &parent, &user, &system, &user_reaped, &system_reaped, &out->start, &pages) != 8) {
        return false;
    }
    out->pid = pid;
    out->parent = (pid_t)parent;
    out->cpu_ms = ticks_to_ms(user + system);
    out->reaped_ms = ticks_to_ms((uint64_t)(user_reaped + system_reaped));
    out->rss_bytes = (uint64_t)(pages > 0 ? pages : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
    return true;
}

static tfos_status add(tfos__processes *processes, const tfos__process *process, tfos_error *error)
{
    if (processes->count == processes->capacity) {
        size_t capacity = processes->capacity == 0 ? 256 : processes->capacity * 2;
        tfos__process *at = realloc(processes->at, capacity * sizeof *at);
        if (at == NULL) {
            return tfos__fail_memory(error, capacity * sizeof *at);
        }
        processes->at = at;
        processes->capacity = capacity;
    }
    processes->at[processes->count++] = *process;
    return TFOS_OK;
}

static tfos_status read_all(tfos__processes *out, tfos_error *error)
{
    DIR *folder = opendir("/proc");
    tfos_status status = TFOS_OK;
    out->count = 0;
    if (folder == NULL) {
        return tfos__fail_errno(error, errno, "cannot list /proc");
    }
    for (struct dirent *entry = readdir(folder); entry != NULL && status == TFOS_OK; entry = readdir(folder)) {
        char *end;
        long pid = strtol(entry->d_name, &end, 10);
        tfos__process process;
        if (*end == '\0' && pid > 0 && tfos__process_read((pid_t)pid, &process)) {
            status = add(out, &process, error);
        }
    }
    closedir(folder);
    if (status != TFOS_OK) {
        out->count = 0; /* so far it has everybody's processes, and callers kill */
    }
    return status;
}

static bool holds(const tfos__processes *processes, size_t count, pid_t pid)
{
    for (size_t i = 0; i < count; i++) {
        if (processes->at[i].pid == pid) {
            return true;
        }
    }
    return false;
}

tfos_status tfos__processes_below(pid_t root, tfos__processes *out, tfos_error *error)
{
    size_t below = 0;
    size_t before;
    TFOS_TRY(read_all(out, error));
    /* Those that are known to be below are moved to the front, until a pass finds no more. */
    do {
        before = below;
        for (size_t i = below; i < out->count; i++) {
            if (out->at[i].parent == root || holds(out, below, out->at[i].parent)) {
                tfos__process found = out->at[i];
                out->at[i] = out->at[below];
                out->at[below++] = found;
            }
        }
    } while (below > before);
    out->count = below;
    return TFOS_OK;
}

void tfos__processes_reset(tfos__processes *processes)
{
    free(processes->at);
    *processes = (tfos__processes){0};
}

static size_t signal_all(const tfos__processes *processes, int number)
{
    size_t count = 0;
    for (size_t i = 0; i < processes->count; i++) {
        if (processes->at[i].state != 'Z' && kill(processes->at[i].pid, number) == 0) {
            count++;
        }
    }
    return count;
}

size_t tfos__processes_kill_below(tfos__processes *scratch)
{
    enum { MOST_ROUNDS = 8 };
    size_t before = 0;
    for (int round = 0; round < MOST_ROUNDS; round++) {
        if (tfos__processes_below(getpid(), scratch, NULL) != TFOS_OK) {
            return 0;
        }
        if (scratch->count == 0 || (round > 0 && scratch->count == before)) {
            break;
        }
        before = scratch->count;
        signal_all(scratch, SIGSTOP);
    }
    return signal_all(scratch, SIGKILL);
}

/* Reads those again who are known, and forgets who is gone. */
static void read_known(tfos__processes *known)
{
    size_t count = 0;
    for (size_t i = 0; i < known->count; i++) {
        tfos__process now;
        if (tfos__process_read(known->at[i].pid, &now) && now.start == known->at[i].start) {
            known->at[count++] = now;
        }
    }
    known->count = count;
}

tfos__usage tfos__usage_below(pid_t root, bool look_for_new, tfos__processes *known)
{
    tfos__usage usage = {0};
    tfos__process self;
    if (!look_for_new && known->count > 0) {
        read_known(known);
    } else if (tfos__processes_below(root, known, NULL) != TFOS_OK) {
        known->count = 0;
    }
    if (tfos__process_read(root, &self)) {
        usage.cpu_ms = self.reaped_ms;
    }
    for (size_t i = 0; i < known->count; i++) {
        usage.cpu_ms += known->at[i].cpu_ms + known->at[i].reaped_ms;
        usage.rss_bytes += known->at[i].rss_bytes;
    }
    return usage;
}

/* ---- memory limits ---- */

/* The number behind `name` in a file of lines "name number". */
static bool read_counter(const char *path, const char *name, uint64_t *out)
{
    char text[32768];
    if (!read_file(path, text, sizeof text)) {
        return false;
    }
    char *rest = text;
    for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
        size_t bytes = strlen(name);
        if (strncmp(line, name, bytes) == 0 && line[bytes] == ' ') {
            return sscanf(line + bytes, " %" SCNu64, out) == 1;
        }
    }
    return false;
}

/* What is read of a cgroup, by version. */
typedef struct memory_files {
    const char *mount;
    const char *kills;
    const char *limit;
} memory_files;

static const memory_files version_1 = {"/sys/fs/cgroup/memory", "memory.oom_control", "memory.limit_in_bytes"};
static const memory_files version_2 = {"/sys/fs/cgroup", "memory.events", "memory.max"};
/* Both versions mounted: version 2 is beside the others. */
static const memory_files version_2_beside = {"/sys/fs/cgroup/unified", "memory.events", "memory.max"};

static void note_limit(const char *path, tfos__memory_state *state)
{
    char text[64];
    uint64_t bytes;
    /* Version 1 says "no limit" by a number near the largest one, version 2 by "max". */
    if (read_file(path, text, sizeof text) && sscanf(text, "%" SCNu64, &bytes) == 1 && bytes > 0 &&
        bytes < UINT64_C(1) << 60 && (state->limit_bytes == 0 || bytes < state->limit_bytes)) {
        state->limit_bytes = bytes;
    }
}

/* From the folder of our cgroup up to the mount: the first counter that is there, and the smallest limit. */
static void read_cgroup(const char *root, const memory_files *files, const char *group, tfos__memory_state *state)
{
    char path[PATH_MAX];
    char name[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s%s%s", root, files->mount, group);
    size_t least = strlen(root) + strlen(files->mount);
    for (size_t bytes = strlen(path); bytes >= least && bytes < sizeof path;) {
        while (bytes > least && path[bytes - 1] == '/') {
            bytes--;
        }
        path[bytes] = '\0';
        snprintf(name, sizeof name, "%s/%s", path, files->kills);
        if (!state->known && read_counter(name, "oom_kill", &state->kills)) {
            state->known = true;
            state->of_cgroup = true;
        }
        snprintf(name, sizeof name, "%s/%s", path, files->limit);
        note_limit(name, state);
        if (bytes == least) {
            break;
        }
        const char *slash = strrchr(path, '/');
        bytes = slash != NULL ? (size_t)(slash - path) : 0;
    }
}

/* Whether `controllers`, separated by commas, has "memory". */
static bool has_memory(const char *controllers)
{
    const char *at = strstr(controllers, "memory");
    return at != NULL && (at == controllers || at[-1] == ',') && (at[6] == '\0' || at[6] == ',');
}

tfos__memory_state tfos__memory_state_read(const char *root)
{
    tfos__memory_state state = {0};
    char path[PATH_MAX];
    char text[16384];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    if (read_file(path, text, sizeof text)) {
        char *rest = text;
        /* A line is "number:controllers:path"; version 2 has number 0 and no controllers. */
        for (char *line = strsep(&rest, "\n"); line != NULL; line = strsep(&rest, "\n")) {
            strsep(&line, ":");
            const char *controllers = strsep(&line, ":");
            if (controllers == NULL || line == NULL) {
                continue;
            }
            if (has_memory(controllers)) {
                read_cgroup(root, &version_1, line, &state);
            } else if (controllers[0] == '\0') {
                read_cgroup(root, &version_2, line, &state);
                read_cgroup(root, &version_2_beside, line, &state);
            }
        }
    }
    snprintf(path, sizeof path, "%s/proc/vmstat", root);
    if (!state.known && read_counter(path, "oom_kill", &state.kills)) {
        state.known = true;
    }
    return state;
}
