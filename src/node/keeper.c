/* The keeper. Orders come through a socket pair, descriptors with them; events go back. An order is
 *
 *   header   what, slot, number, how many arguments, variables and descriptors, bytes of text; descriptors (SCM_RIGHTS)
 *   text     file, arguments, variables, each ended by NUL
 *
 * The keeper has one thread and no library under it that could start one, so the parent-death signal of what it
 * starts fires when the keeper dies and at no other time. */
#include "node/keeper.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "node/usage.h"
#include "service/seclude.h"

enum { ORDER_START = 1, ORDER_SIGNAL, ORDER_END };

typedef struct header {
    uint32_t what;
    uint32_t slot;
    int32_t number; /* of a signal */
    uint32_t arguments;
    uint32_t variables;
    uint32_t files;      /* among them those that are /dev/null */
    uint32_t null_files; /* a bit for each of those */
    uint32_t bytes;
} header;

/* ---- the keeper's side ---- */

typedef struct keeping {
    int socket;
    int signals;
    pid_t running[TFOS__KEEPER_SLOTS]; /* 0: none */
    tfos__processes scratch;
    bool child_ended;
} keeping;

static void tell(const keeping *keeper, tfos__keeper_event_kind kind, int slot, pid_t pid, int value)
{
    tfos__keeper_event event = {.kind = kind, .slot = slot, .pid = pid, .value = value};
    (void)!send(keeper->socket, &event, sizeof event, MSG_NOSIGNAL);
}

/* Waits for all that have ended. False when there is nobody left to wait for. */
static bool reap(keeping *keeper)
{
    int status;
    pid_t pid = waitpid(-1, &status, WNOHANG);
    for (; pid > 0; pid = waitpid(-1, &status, WNOHANG)) {
        for (int slot = 0; slot < TFOS__KEEPER_SLOTS; slot++) {
            if (keeper->running[slot] == pid) {
                keeper->running[slot] = 0;
                if (slot == TFOS__KEEPER_CHILD) {
                    keeper->child_ended = true;
                } else {
                    kill(-pid, SIGKILL); /* what it left in its group; what left the group goes with the child */
                }
                tell(keeper, TFOS__KEEPER_ENDED, slot, pid, status);
            }
        }
    }
    return pid == 0;
}

/* Kills until nobody is left, or until time is up: a process inside a system call that hangs cannot be killed. */
static void kill_all(keeping *keeper)
{
    int64_t deadline = tfos__clock_ms() + TFOS__KEEPER_PATIENCE_MS;
    size_t left = 0;
    while (reap(keeper) && tfos__clock_ms() < deadline) {
        left = tfos__processes_kill_below(&keeper->scratch);
        struct pollfd ended = {.fd = keeper->signals, .events = POLLIN};
        if (poll(&ended, 1, 20) > 0) {
            struct signalfd_siginfo info;
            (void)!read(keeper->signals, &info, sizeof info);
        }
    }
    left = left > 0 ? left : 1; /* it is 0 when /proc could not be read; somebody is there all the same */
    tell(keeper, TFOS__KEEPER_GONE, 0, 0, reap(keeper) ? (int)left : 0);
    keeper->child_ended = false;
}

/* Every descriptor from `first` on closes when the program is started. */
static void close_on_exec_from(unsigned first)
{
#if defined(SYS_close_range)
    enum { CLOSE_ON_EXEC = 4 }; /* CLOSE_RANGE_CLOEXEC, since Linux 5.11 */
    if (syscall(SYS_close_range, first, UINT_MAX, CLOSE_ON_EXEC) == 0) {
        return;
    }
#endif
    DIR *folder = opendir("/proc/self/fd");
    for (struct dirent *entry = folder != NULL ? readdir(folder) : NULL; entry != NULL; entry = readdir(folder)) {
        long file = strtol(entry->d_name, NULL, 10);
        if (file >= (long)first) {
            fcntl((int)file, F_SETFD, FD_CLOEXEC);
        }
    }
}

/* Puts the files of an order at 1, 2, 3, …, and /dev/null at 0. */
static bool place_files(const int *files, size_t count)
{
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0) {
        return false;
    }
    /* First all out of the way of the numbers that they are to have. */
    enum { OUT_OF_THE_WAY = 64 };
    int moved[TFOS__KEEPER_MOST_FILES];
    for (size_t i = 0; i < count; i++) {
        moved[i] = fcntl(files[i] >= 0 ? files[i] : null, F_DUPFD_CLOEXEC, OUT_OF_THE_WAY);
        if (moved[i] < 0) {
            return false;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (dup2(moved[i], (int)i + 1) < 0) {
            return false;
        }
    }
    close_on_exec_from((unsigned)count + 1);
    return true;
}

static void default_signals(void)
{
    sigset_t none;
    /* By the system call: the C library keeps two signals to itself, and `make` leaves one of them ignored. */
    static const struct {
        void *handler;
        unsigned long flags;
        void *restorer;
        uint64_t mask;
    } by_default = {0};
    for (int number = 1; number < NSIG; number++) {
        syscall(SYS_rt_sigaction, number, &by_default, NULL, sizeof by_default.mask);
    }
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* When memory runs out, the kernel is to choose the program and not the executor with everybody's work in it. */
static void volunteer_for_the_oom_killer(void)
{
    enum { MORE = 500, MOST = 1000 };
    char text[16] = "";
    int file = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
    if (file < 0 || read(file, text, sizeof text - 1) <= 0) {
        return;
    }
    long score = strtol(text, NULL, 10) + MORE;
    int count = snprintf(text, sizeof text, "%ld", score < MOST ? score : MOST);
    (void)!pwrite(file, text, (size_t)count, 0);
    close(file);
}

typedef struct command {
    header head;
    int files[TFOS__KEEPER_MOST_FILES];
    char *text;
    char **words; /* file, arguments, NULL, variables, NULL */
} command;

/* The new process: becomes the program or says why not. */
_Noreturn static void become(const command *what, int problem, pid_t keeper)
{
    char **arguments = what->words + 1;
    int code = 0;
    setpgid(0, 0);
    /* The keeper may have died before this line; then its place has been taken by another parent. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != keeper) {
        _exit(127);
    }
    default_signals();
    tfos__seclude_undo();
    volunteer_for_the_oom_killer();
    int kept = fcntl(problem, F_DUPFD_CLOEXEC, 128);
    if (kept >= 0 && place_files(what->files, what->head.files)) {
        environ = arguments + what->head.arguments + 1;
        execvp(what->words[0], arguments);
    }
    code = errno;
    (void)!write(kept, &code, sizeof code);
    _exit(127);
}

static void start(keeping *keeper, const command *what)
{
    int problem[2];
    int code = 0;
    pid_t self = getpid();
    if (pipe2(problem, O_CLOEXEC) != 0) {
        tell(keeper, TFOS__KEEPER_FAILED, (int)what->head.slot, 0, errno);
        return;
    }
    pid_t pid = fork();
    if (pid == 0) {
        become(what, problem[1], self);
    }
    code = pid < 0 ? errno : 0;
    close(problem[1]);
    if (pid > 0) {
        ssize_t count;
        do {
            count = read(problem[0], &code, sizeof code);
        } while (count < 0 && errno == EINTR);
        if (count == sizeof code) {
            waitpid(pid, NULL, 0);
        } else {
            code = 0;
        }
    }
    close(problem[0]);
    if (code != 0) {
        tell(keeper, TFOS__KEEPER_FAILED, (int)what->head.slot, 0, code);
    } else {
        keeper->running[what->head.slot] = pid;
        tell(keeper, TFOS__KEEPER_STARTED, (int)what->head.slot, pid, 0);
    }
}

/* The header and the descriptors with it. False when the node is gone. */
static bool receive_header(int socket, command *out)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(TFOS__KEEPER_MOST_FILES * sizeof(int))];
    } control;
    struct iovec piece = {.iov_base = &out->head, .iov_len = sizeof out->head};
    struct msghdr message = {
        .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
    ssize_t count;
    do {
        count = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_WAITALL);
    } while (count < 0 && errno == EINTR);
    if (count != (ssize_t)sizeof out->head || out->head.files > TFOS__KEEPER_MOST_FILES) {
        return false;
    }
    int received[TFOS__KEEPER_MOST_FILES] = {0};
    size_t used = 0;
    struct cmsghdr *part = CMSG_FIRSTHDR(&message);
    if (part != NULL && part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_RIGHTS) {
        memcpy(received, CMSG_DATA(part), part->cmsg_len - CMSG_LEN(0));
    }
    for (size_t i = 0; i < out->head.files; i++) {
        out->files[i] = (out->head.null_files >> i) & 1 ? -1 : received[used++];
    }
    return true;
}

/* Cuts the text into words. */
static bool take_words(command *out)
{
    size_t count = (size_t)out->head.arguments + out->head.variables + 1;
    out->words = calloc(count + 2, sizeof *out->words);
    if (out->words == NULL) {
        return false;
    }
    char *at = out->text;
    char *end = out->text + out->head.bytes;
    char **word = out->words;
    for (size_t i = 0; i < count && at < end; i++) {
        *word++ = at;
        at += strlen(at) + 1;
        if (i == out->head.arguments) {
            word++; /* the arguments end by NULL */
        }
    }
    return true;
}

static void obey(keeping *keeper, const command *what)
{
    switch (what->head.what) {
    case ORDER_START:
        start(keeper, what);
        break;
    case ORDER_SIGNAL:
        if (keeper->running[what->head.slot] > 0) {
            kill(-keeper->running[what->head.slot], what->head.number);
        }
        break;
    case ORDER_END:
        kill_all(keeper);
        break;
    default:
        break;
    }
}

/* False when the node is gone. */
static bool take_order(keeping *keeper)
{
    command what = {.text = NULL};
    if (!receive_header(keeper->socket, &what)) {
        return false;
    }
    bool good = true;
    if (what.head.bytes > 0) {
        what.text = calloc(1, (size_t)what.head.bytes + 1);
        good = what.text != NULL &&
               recv(keeper->socket, what.text, what.head.bytes, MSG_WAITALL) == (ssize_t)what.head.bytes &&
               take_words(&what);
    }
    if (good && what.head.slot < TFOS__KEEPER_SLOTS) {
        obey(keeper, &what);
    }
    for (size_t i = 0; i < what.head.files; i++) {
        if (what.files[i] >= 0) {
            close(what.files[i]);
        }
    }
    free(what.text);
    free(what.words);
    return good;
}

static void keep(keeping *keeper)
{
    bool node_lives = true;
    while (node_lives) {
        struct pollfd wait[] = {{.fd = keeper->socket, .events = POLLIN}, {.fd = keeper->signals, .events = POLLIN}};
        if (poll(wait, 2, -1) < 0) {
            continue;
        }
        if (wait[1].revents != 0) {
            struct signalfd_siginfo info;
            (void)!read(keeper->signals, &info, sizeof info);
            reap(keeper);
        }
        if (keeper->child_ended) {
            kill_all(keeper);
        }
        if (wait[0].revents != 0) {
            node_lives = take_order(keeper);
        }
    }
}

_Noreturn static void run(int socket)
{
    keeping keeper = {.socket = socket};
    sigset_t watched;
    /* Whatever ends the node ends the keeper through its socket, and in no other way: signals to the group (Ctrl-C in
     * a terminal) must not come first. */
    for (int number = 1; number < NSIG; number++) {
        signal(number, SIG_IGN);
    }
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&watched);
    sigaddset(&watched, SIGCHLD);
    sigprocmask(SIG_SETMASK, &watched, NULL);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int file = 0; null >= 0 && file <= 2; file++) {
        dup2(null, file); /* whoever waits for the end of the node's output must not wait for us */
    }
    keeper.signals = signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    prctl(PR_SET_NAME, "tfos keeper");
    if (keeper.signals >= 0) {
        keep(&keeper);
        kill_all(&keeper);
    }
    _exit(0);
}

/* ---- the node's side ---- */

tfos_status tfos__keeper_open(tfos__keeper *keeper, tfos_error *error)
{
    int pair[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) {
        return tfos__fail_errno(error, errno, "cannot make a socket pair for the keeper");
    }
    /* Before the fork, so that there is no moment in which what the keeper leaves behind goes elsewhere. */
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* No signal reaches the keeper before it ignores them. */
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &before);
    keeper->pid = fork();
    if (keeper->pid == 0) {
        close(pair[0]);
        run(pair[1]);
    }
    int code = errno;
    sigprocmask(SIG_SETMASK, &before, NULL);
    close(pair[1]);
    if (keeper->pid < 0) {
        close(pair[0]);
        return tfos__fail_errno(error, code, "cannot start the keeper");
    }
    /* A keeper that was stopped (SIGSTOP) must not stop the node. */
    struct timeval patience = {.tv_sec = 5};
    setsockopt(pair[0], SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    keeper->socket = pair[0];
    return TFOS_OK;
}

static tfos_status send_header(int socket, const header *head, const int *files, size_t count, tfos_error *error)
{
    union {
        struct cmsghdr align;
        char bytes[CMSG_SPACE(TFOS__KEEPER_MOST_FILES * sizeof(int))];
    } control = {.bytes = {0}};
    header copy = *head;
    struct iovec piece = {.iov_base = &copy, .iov_len = sizeof copy};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    if (count > 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = CMSG_SPACE(count * sizeof *files);
        struct cmsghdr *part = CMSG_FIRSTHDR(&message);
        part->cmsg_level = SOL_SOCKET;
        part->cmsg_type = SCM_RIGHTS;
        part->cmsg_len = CMSG_LEN(count * sizeof *files);
        memcpy(CMSG_DATA(part), files, count * sizeof *files);
    }
    if (sendmsg(socket, &message, MSG_NOSIGNAL) != (ssize_t)sizeof copy) {
        return tfos__fail_errno(error, errno, "the keeper does not listen");
    }
    return TFOS_OK;
}

static tfos_status send_bytes(int socket, const tfos__buffer *text, tfos_error *error)
{
    for (size_t sent = 0; sent < text->size;) {
        ssize_t count = send(socket, text->data + sent, text->size - sent, MSG_NOSIGNAL);
        if (count <= 0) {
            return tfos__fail_errno(error, errno, "the keeper does not listen");
        }
        sent += (size_t)count;
    }
    return TFOS_OK;
}

static tfos_status append_words(tfos__buffer *text, const char *const *words, uint32_t *count, tfos_error *error)
{
    *count = 0;
    for (; words[*count] != NULL; (*count)++) {
        TFOS_TRY(tfos__buffer_append(text, words[*count], strlen(words[*count]) + 1, error));
    }
    return TFOS_OK;
}

static tfos_status send_start(const tfos__keeper *keeper, const tfos__keeper_order *order, tfos__buffer *text,
                              tfos_error *error)
{
    header head = {.what = ORDER_START, .slot = order->slot, .files = (uint32_t)order->file_count};
    int files[TFOS__KEEPER_MOST_FILES];
    size_t count = 0;
    for (size_t i = 0; i < order->file_count; i++) {
        if (order->files[i] < 0) {
            head.null_files |= 1u << i;
        } else {
            files[count++] = order->files[i];
        }
    }
    TFOS_TRY(tfos__buffer_append(text, order->file, strlen(order->file) + 1, error));
    TFOS_TRY(append_words(text, order->arguments, &head.arguments, error));
    TFOS_TRY(append_words(text, order->environment, &head.variables, error));
    if (text->size > TFOS__KEEPER_MOST_BYTES) {
        return tfos__fail(error, TFOS_LIMIT, "a command and its environment have %zu bytes; the most is %d", text->size,
                          TFOS__KEEPER_MOST_BYTES);
    }
    head.bytes = (uint32_t)text->size;
    TFOS_TRY(send_header(keeper->socket, &head, files, count, error));
    return send_bytes(keeper->socket, text, error);
}

tfos_status tfos__keeper_start(const tfos__keeper *keeper, const tfos__keeper_order *order, tfos_error *error)
{
    assert(order->file_count <= TFOS__KEEPER_MOST_FILES && order->slot < TFOS__KEEPER_SLOTS);
    tfos__buffer text = {0};
    tfos_status status = send_start(keeper, order, &text, error);
    tfos__buffer_reset(&text);
    return status;
}

void tfos__keeper_signal(const tfos__keeper *keeper, tfos__keeper_slot slot, int number)
{
    header head = {.what = ORDER_SIGNAL, .slot = slot, .number = number};
    (void)send_header(keeper->socket, &head, NULL, 0, NULL);
}

void tfos__keeper_end(const tfos__keeper *keeper)
{
    header head = {.what = ORDER_END};
    (void)send_header(keeper->socket, &head, NULL, 0, NULL);
}

tfos_status tfos__keeper_next(const tfos__keeper *keeper, tfos__keeper_event *event, tfos_error *error)
{
    ssize_t count = recv(keeper->socket, event, sizeof *event, MSG_DONTWAIT);
    if (count == (ssize_t)sizeof *event) {
        return TFOS_OK;
    }
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
        return TFOS_END;
    }
    return tfos__fail(error, TFOS_IO, "the keeper is dead");
}

void tfos__keeper_close(tfos__keeper *keeper)
{
    if (keeper->socket >= 0) {
        close(keeper->socket);
        keeper->socket = -1;
    }
}
