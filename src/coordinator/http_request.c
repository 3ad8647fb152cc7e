/* Requests, by http-parser. It is stopped at the end of every request, so that one is answered before the next is
 * looked at: a client that sends a thousand at once waits for its own answers and costs no memory. */
#include "coordinator/http_request.h"

#include <string.h>

static tfos__http_request *request_of(http_parser *parser)
{
    return parser->data;
}

/* What a callback returns to end the parsing (1 would mean something else behind the headers). */
static int refuse(http_parser *parser, int status)
{
    request_of(parser)->refusal = status;
    return -1;
}

static int on_begin(http_parser *parser)
{
    tfos__http_request *request = request_of(parser);
    request->begun = true;
    request->is_head = false;
    request->target_bytes = 0;
    return 0;
}

static int on_target(http_parser *parser, const char *at, size_t count)
{
    tfos__http_request *request = request_of(parser);
    if (request->target_bytes + count > TFOS__HTTP_TARGET_BYTES) {
        return refuse(parser, 414);
    }
    memcpy(request->target + request->target_bytes, at, count);
    request->target_bytes += count;
    return 0;
}

static int on_head(http_parser *parser)
{
    tfos__http_request *request = request_of(parser);
    bool has_body =
        (parser->flags & F_CHUNKED) != 0 || ((parser->flags & F_CONTENTLENGTH) != 0 && parser->content_length != 0);
    request->is_head = parser->method == HTTP_HEAD;
    if (parser->http_major != 1) {
        return refuse(parser, 505);
    }
    if (parser->method != HTTP_GET && parser->method != HTTP_HEAD) {
        return refuse(parser, 405);
    }
    if (has_body) {
        return refuse(parser, 413);
    }
    /* Who asks to go on in another protocol gets this one, and no further request is read. */
    request->keep_alive = http_should_keep_alive(parser) != 0 && !parser->upgrade;
    return 0;
}

static int on_complete(http_parser *parser)
{
    request_of(parser)->complete = true;
    http_parser_pause(parser, 1);
    return 0;
}

void tfos__http_request_init(tfos__http_request *request)
{
    memset(request, 0, sizeof *request);
    http_parser_set_max_header_size(TFOS__HTTP_HEAD_BYTES);
    http_parser_init(&request->parser, HTTP_REQUEST);
    request->parser.data = request;
}

/* The path and the query of "/path?query" or "http://host/path?query". */
static bool split_target(tfos__http_request *request)
{
    struct http_parser_url url;
    request->target[request->target_bytes] = '\0';
    request->query = "";
    http_parser_url_init(&url);
    if (http_parser_parse_url(request->target, request->target_bytes, 0, &url) != 0 ||
        (url.field_set & (1 << UF_PATH)) == 0) {
        return false;
    }
    /* What follows a path is "?" or "#", and what follows a query is "#": an end can be put there. */
    request->path = request->target + url.field_data[UF_PATH].off;
    request->target[url.field_data[UF_PATH].off + url.field_data[UF_PATH].len] = '\0';
    if ((url.field_set & (1 << UF_QUERY)) != 0) {
        request->query = request->target + url.field_data[UF_QUERY].off;
        request->target[url.field_data[UF_QUERY].off + url.field_data[UF_QUERY].len] = '\0';
    }
    return true;
}

tfos__http_verdict tfos__http_request_feed(tfos__http_request *request, const char *bytes, size_t count, size_t *used)
{
    static const http_parser_settings settings = {
        .on_message_begin = on_begin,
        .on_url = on_target,
        .on_headers_complete = on_head,
        .on_message_complete = on_complete,
    };
    if (request->complete) {
        request->complete = false;
        request->begun = false;
        http_parser_pause(&request->parser, 0);
    }
    *used = http_parser_execute(&request->parser, &settings, bytes, count);
    if (request->complete) {
        request->refusal = split_target(request) ? 0 : 400;
        return request->refusal == 0 ? TFOS__HTTP_READY : TFOS__HTTP_REFUSED;
    }
    enum http_errno problem = HTTP_PARSER_ERRNO(&request->parser);
    if (problem == HPE_OK && *used == count) {
        return TFOS__HTTP_MORE;
    }
    if (request->refusal == 0) {
        request->refusal = problem == HPE_HEADER_OVERFLOW ? 431 : 400;
    }
    return TFOS__HTTP_REFUSED;
}
