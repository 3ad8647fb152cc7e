/* How the command ends: exit codes, messages, a closed pipe, Ctrl-C. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/status.h"
#include "cli/cli.h"
#include "fs/fs.h"

/* ---- exit codes ---- */

static const tfos__cli_code exit_codes[] = {
    {CLI_OK, "all went well"},
    {CLI_BAD_DATA, "the data is bad: damaged, cut short, or not what the schema says"},
    {CLI_USAGE, "the command line is wrong, or asks for what is not supported"},
    {CLI_SYSTEM, "a file or the system: not found, no permission, exists already, disk full, out of memory"},
    {CLI_REFUSED, "refused by the other side: the token in an address is wrong"},
    {CLI_INTERRUPTED, "interrupted by Ctrl-C; nothing half-written is left"},
    {CLI_PIPE_CLOSED, "the reader of the output went away (tfos … | head)"},
};

int tfos__cli_exit_code(tfos_status status)
{
    switch (status) {
    case TFOS_OK:
    case TFOS_END:
        return CLI_OK;
    case TFOS_INVALID:
    case TFOS_UNSUPPORTED:
        return CLI_USAGE;
    case TFOS_CORRUPT:
    case TFOS_TRUNCATED:
    case TFOS_MISMATCH:
    case TFOS_RANGE:
    case TFOS_ENCODING:
    case TFOS_LIMIT:
        return CLI_BAD_DATA;
    case TFOS_CANCELLED:
        return CLI_INTERRUPTED;
    case TFOS_NOT_FOUND:
    case TFOS_PERMISSION:
    case TFOS_EXISTS:
    case TFOS_IO:
    case TFOS_NO_SPACE:
    case TFOS_NO_MEMORY:
    case TFOS_MISSING_LIBRARY:
    case TFOS_RAISED:
        break;
    }
    return CLI_SYSTEM;
}

void tfos__cli_print_codes(const tfos__cli_code *codes, size_t count)
{
    tfos__cli_print("\nExit codes:\n");
    for (size_t i = 0; i < count; i++) {
        tfos__cli_print("  %3d  %s\n", codes[i].code, codes[i].text);
    }
}

void tfos__cli_print_exit_codes(void)
{
    tfos__cli_print_codes(exit_codes, sizeof exit_codes / sizeof exit_codes[0]);
}

__attribute__((format(printf, 1, 0))) static void print_message(const char *format, va_list arguments)
{
    /* What was asked for stands before what went wrong, also when both go to one place. */
    fflush(stdout);
    tfos__cli_progress_hold();
    fputs("tfos: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    tfos__cli_progress_release();
}

void tfos__cli_note(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
}

int tfos__cli_fail_usage(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    print_message(format, arguments);
    va_end(arguments);
    return CLI_USAGE;
}

int tfos__cli_fail(const tfos_error *error)
{
    tfos__cli_note("%s", error->message);
    return tfos__cli_exit_code(error->status);
}

/* ---- stdout ---- */

static int output_problem; /* errno of the first failure */

static bool check_output(bool succeeded)
{
    if (!succeeded && output_problem == 0) {
        output_problem = errno != 0 ? errno : EIO;
    }
    return output_problem == 0;
}

bool tfos__cli_print(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    errno = 0;
    int result = vprintf(format, arguments);
    va_end(arguments);
    return check_output(result >= 0);
}

bool tfos__cli_write(const void *bytes, size_t count)
{
    errno = 0;
    return check_output(fwrite(bytes, 1, count, stdout) == count);
}

int tfos__cli_end_output(int code)
{
    errno = 0;
    check_output(fflush(stdout) == 0);
    if (output_problem == 0) {
        return code;
    }
    if (output_problem == EPIPE) {
        return CLI_PIPE_CLOSED;
    }
    tfos_error error;
    tfos__fail_errno(&error, output_problem, "the output cannot be written");
    return tfos__cli_fail(&error);
}

/* ---- folders that may have to go again ---- */

enum { MAX_FOLDERS = 64 };
static char *made_folders[MAX_FOLDERS]; /* outermost first */
static volatile sig_atomic_t made_count;

void tfos__cli_folders_forget(void)
{
    while (made_count > 0) {
        made_count = made_count - 1;
        free(made_folders[made_count]);
    }
}

void tfos__cli_folders_remove(void)
{
    for (int i = made_count; i-- > 0;) {
        rmdir(made_folders[i]);
    }
}

tfos_status tfos__cli_folder_make(const char *path, tfos_error *error)
{
    struct stat info;
    for (size_t i = 1; i <= strlen(path) && made_count < MAX_FOLDERS; i++) {
        if (path[i] != '/' && path[i] != '\0') {
            continue;
        }
        char *part = strndup(path, i);
        if (part == NULL) {
            return tfos__fail_memory(error, i + 1);
        }
        if (stat(part, &info) != 0 && errno == ENOENT) {
            made_folders[made_count] = part;
            made_count = made_count + 1;
        } else {
            free(part);
        }
    }
    return tfos__folder_make(path, error);
}

/* ---- signals ---- */

/* Any thread may be the one that gets a signal, while another one lets files appear. So the two agree by one word on
 * who comes first. */
enum { RUNNING, HELD, ENDING };
static atomic_int signal_state = RUNNING;
static atomic_int signal_pending;
static atomic_int terminate_code = 128 + SIGTERM;

/* Only calls that are safe here; the kernel frees the rest. */
static void end_by_signal(int number)
{
    int expected = RUNNING;
    atomic_store(&signal_pending, number);
    if (!atomic_compare_exchange_strong(&signal_state, &expected, ENDING)) {
        return;
    }
    tfos__cli_progress_erase();
    tfos__outputs_unlink_all();
    tfos__cli_folders_remove();
    _exit(number == SIGINT ? CLI_INTERRUPTED : number == SIGTERM ? atomic_load(&terminate_code) : 128 + number);
}

void tfos__cli_signals_hold(void)
{
    int expected = RUNNING;
    while (!atomic_compare_exchange_strong(&signal_state, &expected, HELD)) {
        pause(); /* another thread is ending the process */
        expected = RUNNING;
    }
}

void tfos__cli_signals_release(void)
{
    atomic_store(&signal_state, RUNNING);
    int number = atomic_load(&signal_pending);
    if (number != 0) {
        end_by_signal(number);
    }
}

/* ---- what code of others writes ---- */

static atomic_int held_text = -1; /* where it is kept; -1: nothing is */
static int held_stderr = -1;

void tfos__cli_stderr_hold(void)
{
    fflush(stderr);
    int text = memfd_create("tfos stderr", MFD_CLOEXEC);
    held_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (text < 0 || held_stderr < 0 || dup2(text, STDERR_FILENO) < 0) {
        close(text);
        close(held_stderr);
        return;
    }
    atomic_store(&held_text, text);
}

/* Only calls that are safe in a signal handler. */
void tfos__cli_stderr_release(bool show)
{
    char bytes[4096];
    ssize_t count;
    int text = atomic_exchange(&held_text, -1);
    if (text < 0) {
        return;
    }
    dup2(held_stderr, STDERR_FILENO);
    close(held_stderr);
    for (off_t at = 0; show && (count = pread(text, bytes, sizeof bytes, at)) > 0; at += count) {
        ssize_t ignored = write(STDERR_FILENO, bytes, (size_t)count);
        (void)ignored;
    }
    close(text);
}

/* ---- crashes ---- */

/* The handler is gone when it is called, so that the signal that comes again ends the process as it would have. */
static void remove_and_crash(int number)
{
    tfos__cli_progress_erase();
    tfos__cli_stderr_release(true);
    tfos__outputs_unlink_all();
    tfos__cli_folders_remove();
    raise(number);
}

void tfos__cli_signals_crash(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    struct sigaction action = {.sa_handler = remove_and_crash, .sa_flags = (int)SA_RESETHAND};
    for (size_t i = 0; i < sizeof crashes / sizeof crashes[0]; i++) {
        sigaction(crashes[i], &action, NULL);
    }
}

void tfos__cli_signals_serve(void)
{
    atomic_store(&terminate_code, CLI_OK);
}

void tfos__cli_signal_take(int number, const struct sigaction *action, struct sigaction *before)
{
    sigaction(number, NULL, before);
    if (before->sa_handler != SIG_IGN) {
        sigaction(number, action, NULL);
    }
}

void tfos__cli_signals_init(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    struct sigaction action = {.sa_handler = end_by_signal, .sa_flags = SA_RESTART};
    sigfillset(&action.sa_mask);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
        struct sigaction before;
        tfos__cli_signal_take(ending[i], &action, &before);
    }
    /* A closed pipe and a file that may not grow are errors of a write, which are handled where they happen. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}
