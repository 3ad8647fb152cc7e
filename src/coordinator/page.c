/* The page's files are part of the program (cmake/TfosEmbed.cmake), so it needs neither a disk nor the internet. */
#include "coordinator/page.h"

#include <assert.h>
#include <stdlib.h>

#include "base/status.h"
#include "base/tls.h"
#include "coordinator/metrics.h"
#include "coordinator/page_files.h"

struct tfos__page {
    tfos__http *server;
    tfos__page_status status;
    void *context;
    char root[TFOS__PAGE_TOKEN_BYTES + 3];
    char url[512];
};

/* The token is in the address: it must not be sent to others as a referrer, nor stay in a cache. Scripts and styles
 * come from here alone, and nothing runs that stands in the page itself, so that a log line cannot become a program. */
static const char headers[] =
    "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
    "X-Frame-Options: DENY\r\n"
    "X-Content-Type-Options: nosniff\r\n"
    "Cross-Origin-Resource-Policy: same-origin\r\n"
    "Cross-Origin-Opener-Policy: same-origin\r\n"
    "Referrer-Policy: no-referrer\r\n"
    "Cache-Control: no-store\r\n";

static void fail(tfos__http_answer *answer)
{
    tfos__buffer_reset(&answer->body);
    answer->bytes = NULL;
    answer->status = 503;
}

static void answer_status(tfos__page_status status, void *context, const char *query, tfos__http_answer *answer)
{
    tfos__status_wish logs;
    tfos__status_wish_parse(query, &logs);
    char *text = status(context, &logs);
    answer->type = "application/json";
    if (text == NULL || tfos__buffer_append(&answer->body, text, strlen(text), NULL) != TFOS_OK) {
        fail(answer);
    }
    free(text);
}

static void answer_metrics(tfos__page_status status, void *context, tfos__http_answer *answer)
{
    const tfos__status_wish none = {0};
    char *text = status(context, &none);
    answer->type = "text/plain; version=0.0.4; charset=utf-8";
    if (text == NULL || tfos__metrics_write(text, &answer->body, NULL) != TFOS_OK) {
        fail(answer);
    }
    free(text);
}

static const char *type_of(const char *name)
{
    const char *ending = strrchr(name, '.');
    return strcmp(ending, ".html") == 0  ? "text/html; charset=utf-8"
           : strcmp(ending, ".css") == 0 ? "text/css; charset=utf-8"
                                         : "text/javascript; charset=utf-8";
}

static bool answer_file(const char *name, tfos__http_answer *answer)
{
    if (name[0] == '\0') {
        name = "page.html";
    }
    for (size_t i = 0; i < tfos__page_file_count; i++) {
        const tfos__page_file *file = &tfos__page_files[i];
        if (strcmp(name, file->name) == 0) {
            answer->type = type_of(name);
            answer->bytes = file->bytes;
            answer->count = file->count;
            return true;
        }
    }
    return false;
}

void tfos__page_answer(const char *root, tfos__page_status status, void *context, const tfos__http_request *request,
                       tfos__http_answer *answer)
{
    const char *path = request->path;
    if (strlen(path) < 1 + TFOS__PAGE_TOKEN_BYTES || path[0] != '/' ||
        !tfos__secret_equal(path + 1, root + 1, TFOS__PAGE_TOKEN_BYTES)) {
        return;
    }
    const char *rest = path + 1 + TFOS__PAGE_TOKEN_BYTES;
    if (rest[0] == '\0') { /* the page's own links would lead elsewhere */
        answer->known = true;
        answer->status = 308;
        answer->location = root;
        return;
    }
    if (rest[0] != '/') {
        return;
    }
    answer->known = true;
    answer->status = 200;
    if (strcmp(rest, "/status.json") == 0) {
        answer_status(status, context, request->query, answer);
        return;
    }
    if (strcmp(rest, "/metrics") == 0) {
        answer_metrics(status, context, answer);
        return;
    }
    if (!answer_file(rest + 1, answer)) {
        answer->known = false;
        answer->status = 404;
    }
}

static void on_request(void *context, const tfos__http_request *request, tfos__http_answer *answer)
{
    tfos__page *page = context;
    tfos__page_answer(page->root, page->status, page->context, request, answer);
}

static tfos_status make_root(char root[TFOS__PAGE_TOKEN_BYTES + 3], tfos_error *error)
{
    uint8_t random[TFOS__KEY_BYTES];
    TFOS_TRY(tfos__key_make(random, error));
    for (size_t i = 0; i < TFOS__PAGE_TOKEN_BYTES; i++) {
        root[1 + i] = "0123456789abcdef"[random[i] & 15];
    }
    root[0] = root[1 + TFOS__PAGE_TOKEN_BYTES] = '/';
    root[2 + TFOS__PAGE_TOKEN_BYTES] = '\0';
    tfos__secret_wipe(random, sizeof random);
    return TFOS_OK;
}

static_assert((int)TFOS__PAGE_TOKEN_BYTES <= (int)TFOS__KEY_BYTES, "a random byte for each character of the token");

tfos_status tfos__page_open(uv_loop_t *loop, const char *host, const tfos__ports *ports, tfos__page_status status,
                            void *context, tfos__page **out, tfos_error *error)
{
    const tfos__http_limits limits = TFOS__HTTP_LIMITS;
    tfos__page *page = calloc(1, sizeof *page);
    if (page == NULL) {
        return tfos__fail_memory(error, sizeof *page);
    }
    page->status = status;
    page->context = context;
    tfos_status opened = make_root(page->root, error);
    if (opened == TFOS_OK) {
        opened = tfos__http_open(loop, host, ports, &limits, headers, on_request, page, &page->server, error);
    }
    if (opened != TFOS_OK) {
        tfos__error_prefix(error, "the status page");
        free(page);
        return opened;
    }
    bool is_number = strchr(host, ':') != NULL; /* an address of IPv6 */
    snprintf(page->url, sizeof page->url, "http://%s%s%s:%u%s", is_number ? "[" : "",
             host[0] != '\0' ? host : "localhost", is_number ? "]" : "", tfos__http_port(page->server), page->root);
    *out = page;
    return TFOS_OK;
}

const char *tfos__page_url(const tfos__page *page)
{
    return page->url;
}

void tfos__page_close(tfos__page *page)
{
    if (page != NULL) {
        tfos__http_close(page->server, free);
    }
}
