/* Requests to the status page: any bytes are taken or refused; in which portions they come makes no difference; and
 * nobody without the token is let in.
 *
 * The first byte says how many bytes come at a time; the rest is what a client sends. */
#include "coordinator/page.h"
#include "fuzz_tools.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const char root[] = "/0123456789abcdef0123456789abcdef/";

static char *give_status(void *context, const tfos__status_wish *wish)
{
    (void)context;
    require(wish->logs.count <= sizeof wish->logs.index / sizeof wish->logs.index[0],
            "more logs than there is room for");
    require(wish->curves.count <= sizeof wish->curves.index / sizeof wish->curves.index[0], "more curves than that");
    return strdup("{\"nodes\":[]}");
}

static void answer_request(const tfos__http_request *request, tfos__buffer *story)
{
    tfos__http_answer answer = {.status = 404};
    tfos__page_answer(root, give_status, NULL, request, &answer);
    require(answer.status == 404 || strncmp(request->path, root, sizeof root - 2) == 0, "let in without the token");
    require(!answer.known || answer.status != 404, "known, but nothing was found");
    require(tfos__buffer_printf(story, NULL, "%d %s?%s %d %d\n", answer.status, request->path, request->query,
                                request->is_head, request->keep_alive) == TFOS_OK,
            "no memory");
    tfos__buffer_reset(&answer.body);
}

/* What a server makes of the bytes, as text. */
static void serve(const char *bytes, size_t count, size_t step, tfos__buffer *story)
{
    tfos__http_request request;
    tfos__http_verdict verdict = TFOS__HTTP_MORE;
    bool open = true;
    tfos__http_request_init(&request);
    while (count > 0 && open) {
        size_t used;
        size_t portion = count < step ? count : step;
        verdict = tfos__http_request_feed(&request, bytes, portion, &used);
        require(verdict != TFOS__HTTP_MORE || used == portion, "bytes were left without a verdict");
        require(used <= portion, "more was used than there was");
        if (verdict == TFOS__HTTP_READY) {
            require(used > 0, "a request of no bytes");
            answer_request(&request, story);
            open = request.keep_alive;
        } else if (verdict == TFOS__HTTP_REFUSED) {
            require(request.refusal >= 400 && request.refusal < 600, "refused without a status");
            require(tfos__buffer_printf(story, NULL, "refused %d\n", request.refusal) == TFOS_OK, "no memory");
            open = false;
        }
        bytes += used;
        count -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 2) {
        return 0;
    }
    tfos__buffer whole = {0};
    tfos__buffer parts = {0};
    serve((const char *)data + 1, bytes - 1, bytes, &whole);
    serve((const char *)data + 1, bytes - 1, (size_t)data[0] + 1, &parts);
    require(same(&whole, &parts), "portions make a difference");
    tfos__buffer_reset(&whole);
    tfos__buffer_reset(&parts);
    return 0;
}
