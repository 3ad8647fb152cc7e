/* The progress bar: a thread that asks how far the work is and draws a line on the terminal.
 *
 * The line is drawn with one write, so that it never stands half drawn, and is taken off before anything else is
 * written to stderr. */
#include <langinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/thread.h"
#include "cli/cli.h"

enum { FIRST_DELAY_MS = 200, INTERVAL_MS = 100, MAX_BAR = 30 };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t thread;
    bool running;
    bool stop;
    bool color;
    bool unicode;
    const char *verb;
    const char *items; /* that are counted in place of bytes; NULL: bytes are */
    tfos__cli_progress_function function;
    void *context;
    double started;
} bar = {.lock = PTHREAD_MUTEX_INITIALIZER};

static atomic_bool on_screen;

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

int tfos__cli_terminal_width(int descriptor, int otherwise)
{
    struct winsize size;
    return ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}

void tfos__cli_progress_erase(void)
{
    static const char erase[] = "\r\x1B[K";
    if (atomic_exchange(&on_screen, false)) {
        ssize_t ignored = write(STDERR_FILENO, erase, sizeof erase - 1);
        (void)ignored;
    }
}

void tfos__cli_progress_hold(void)
{
    pthread_mutex_lock(&bar.lock);
    tfos__cli_progress_erase();
}

void tfos__cli_progress_release(void)
{
    pthread_mutex_unlock(&bar.lock);
}

static size_t draw_cells(char *out, size_t bytes, int cells, int filled)
{
    size_t used = 0;
    used += (size_t)snprintf(out, bytes, "%s", bar.color ? "\x1B[32m" : "");
    for (int i = 0; i < cells; i++) {
        const char *cell = i < filled ? (bar.unicode ? "█" : "#") : (bar.unicode ? "░" : ".");
        used += (size_t)snprintf(out + used, bytes - used, "%s", cell);
    }
    used += (size_t)snprintf(out + used, bytes - used, "%s", bar.color ? "\x1B[0m" : "");
    return used;
}

/* "  1.2 GiB/s  3 400 records  0:12 left" */
static void describe(const tfos_progress *progress, double seconds, char *out, size_t bytes)
{
    double rate = seconds > 0 ? (double)progress->done_bytes / seconds : 0;
    int used = 0;
    if (progress->done_bytes > 0) {
        used = snprintf(out, bytes, "  %s/s", tfos__cli_show_bytes(rate).text);
    }
    if (progress->records > 0) {
        used +=
            snprintf(out + used, bytes - (size_t)used, "  %s records", tfos__cli_show_count(progress->records).text);
    }
    if (progress->total_bytes > 0 && rate > 0) {
        int64_t left = (int64_t)((double)(progress->total_bytes - progress->done_bytes) / rate + 0.5);
        snprintf(out + used, bytes - (size_t)used, "  %lld:%02d left", (long long)(left / 60), (int)(left % 60));
    }
}

/* "  12 of 40 tasks" */
static void describe_items(const tfos_progress *progress, char *out, size_t bytes)
{
    if (progress->total_bytes > 0) {
        snprintf(out, bytes, "  %s of %s %s", tfos__cli_show_count(progress->done_bytes).text,
                 tfos__cli_show_count(progress->total_bytes).text, bar.items);
    }
}

static void draw(void)
{
    tfos_progress progress = {0};
    bar.function(bar.context, &progress);
    double share = progress.total_bytes > 0 ? (double)progress.done_bytes / (double)progress.total_bytes : 0;
    share = share > 1 ? 1 : share < 0 ? 0 : share;
    char text[160] = "";
    char line[1024];
    if (bar.items != NULL) {
        describe_items(&progress, text, sizeof text);
    } else {
        describe(&progress, now() - bar.started, text, sizeof text);
    }
    int width = tfos__cli_terminal_width(STDERR_FILENO, 80) - 1;
    size_t used = (size_t)snprintf(line, sizeof line, "\r%s", bar.verb);
    int room = width - (int)tfos__cli_text_width(bar.verb, strlen(bar.verb)) -
               (int)tfos__cli_text_width(text, strlen(text)) - 7;
    if (progress.total_bytes > 0 && room >= 4) {
        int cells = room < MAX_BAR ? room : MAX_BAR;
        used += (size_t)snprintf(line + used, sizeof line - used, "  ");
        used += draw_cells(line + used, sizeof line - used, cells, (int)(share * cells));
        used += (size_t)snprintf(line + used, sizeof line - used, " %3d%%", (int)(share * 100));
    }
    if ((int)tfos__cli_text_width(text, strlen(text)) + (int)strlen(bar.verb) < width) {
        used += (size_t)snprintf(line + used, sizeof line - used, "%s", text);
    }
    used += (size_t)snprintf(line + used, sizeof line - used, "\x1B[K");
    atomic_store(&on_screen, true);
    ssize_t ignored = write(STDERR_FILENO, line, used);
    (void)ignored;
}

static void *tick(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&bar.lock);
    long delay_ms = FIRST_DELAY_MS;
    while (!bar.stop) {
        tfos__condition_wait(&bar.wake, &bar.lock, delay_ms);
        if (!bar.stop && now() - bar.started >= FIRST_DELAY_MS / 1000.0) {
            draw();
        }
        delay_ms = INTERVAL_MS;
    }
    pthread_mutex_unlock(&bar.lock);
    return NULL;
}

void tfos__cli_progress_start_items(const char *verb, const char *items, tfos__cli_progress_function function,
                                    void *context, bool quiet)
{
    const char *no_color = getenv("NO_COLOR");
    const char *terminal = getenv("TERM");
    bool dumb = terminal != NULL && strcmp(terminal, "dumb") == 0;
    if (quiet || dumb || !isatty(STDERR_FILENO)) {
        return;
    }
    bar.color = no_color == NULL || *no_color == '\0';
    bar.unicode = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    bar.verb = verb;
    bar.items = items;
    bar.function = function;
    bar.context = context;
    bar.started = now();
    bar.stop = false;
    tfos__condition_init(&bar.wake);
    /* Without signals: those are for the main thread, which the handler interrupts in a known place. */
    bar.running = tfos__thread_start(&bar.thread, tick, NULL) == 0;
}

void tfos__cli_progress_start(const char *verb, tfos__cli_progress_function function, void *context, bool quiet)
{
    tfos__cli_progress_start_items(verb, NULL, function, context, quiet);
}

void tfos__cli_progress_stop(void)
{
    if (!bar.running) {
        return;
    }
    pthread_mutex_lock(&bar.lock);
    bar.stop = true;
    pthread_cond_signal(&bar.wake);
    pthread_mutex_unlock(&bar.lock);
    pthread_join(bar.thread, NULL);
    pthread_cond_destroy(&bar.wake);
    bar.running = false;
    tfos__cli_progress_erase();
}

void tfos__cli_progress_of_reader(void *context, tfos_progress *out)
{
    tfos_reader_progress(context, out);
}
