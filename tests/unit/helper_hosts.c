#include "helper_hosts.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "helper_cluster.h"

int helper_other_host;

static pid_t other_pid;

static bool write_file(const char *path, const char *text)
{
    int file = open(path, O_WRONLY | O_CLOEXEC);
    bool written = file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text);
    if (file >= 0) {
        close(file);
    }
    return written;
}

/* A network of our own; who is not root is root of a user namespace for that. */
static bool leave_network(void)
{
    char map[64];
    unsigned user = getuid();
    unsigned group = getgid();
    if (user == 0) {
        return unshare(CLONE_NEWNET) == 0;
    }
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0 || !write_file("/proc/self/setgroups", "deny")) {
        return false;
    }
    snprintf(map, sizeof map, "0 %u 1", user);
    bool mapped = write_file("/proc/self/uid_map", map);
    snprintf(map, sizeof map, "0 %u 1", group);
    return mapped && write_file("/proc/self/gid_map", map);
}

/* A process that does nothing but have a network of its own. */
static bool start_other_host(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0) {
        return false;
    }
    other_pid = fork();
    if (other_pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        bool left = unshare(CLONE_NEWNET) == 0;
        (void)!write(ready[1], left ? "y" : "n", 1);
        for (;;) {
            pause();
        }
    }
    bool left = read(ready[0], &byte, 1) == 1 && byte == 'y';
    close(ready[0]);
    close(ready[1]);
    return left;
}

static bool make_hosts(void)
{
    char path[64];
    char command[512];
    if (!leave_network() || !start_other_host()) {
        return false;
    }
    snprintf(path, sizeof path, "/proc/%d/ns/net", (int)other_pid);
    snprintf(command, sizeof command,
             "(ip link set lo up && ip link add v0 type veth peer name v1 && ip addr add " HELPER_THIS_ADDRESS
             "/24 dev v0 &&"
             " ip link set v0 up && ip link set v1 netns %d &&"
             " nsenter --net=%s sh -c 'ip addr add " HELPER_OTHER_ADDRESS
             "/24 dev v1 && ip link set v1 up && ip link set lo up')"
             " >/dev/null 2>&1",
             (int)other_pid, path);
    if (system(command) != 0) {
        return false;
    }
    helper_other_host = open(path, O_RDONLY | O_CLOEXEC);
    helper_cluster_host = HELPER_THIS_ADDRESS;
    return helper_other_host > 0;
}

void helper_hosts_make(void)
{
    if (!make_hosts()) {
        printf("network namespaces cannot be made here\n");
    }
}

void helper_hosts_end(void)
{
    if (other_pid > 0) {
        kill(other_pid, SIGKILL);
        waitpid(other_pid, NULL, 0);
    }
}
