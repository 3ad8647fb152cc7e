/* The objects of a file of JSON lines. json-c parses each line; one tokener serves all. */
#include "record/json_scan.h"

#include <errno.h>
#include <stdlib.h>

#include "record/number.h"

tfos_status tfos__json_scan_init(tfos__json_scan *scan, tfos_error *error)
{
    *scan = (tfos__json_scan){.tokener = json_tokener_new_ex(TFOS__JSON_MAX_DEPTH)};
    if (scan->tokener == NULL) {
        return tfos__fail_memory(error, sizeof(void *));
    }
    json_tokener_set_flags(scan->tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    return TFOS_OK;
}

void tfos__json_scan_reset(tfos__json_scan *scan)
{
    json_object_put(scan->object);
    if (scan->tokener != NULL) {
        json_tokener_free(scan->tokener);
    }
    *scan = (tfos__json_scan){0};
}

static bool is_blank(const char *text, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) {
        if (text[i] != ' ' && text[i] != '\t') {
            return false;
        }
    }
    return true;
}

static tfos_status fail_line(const tfos__json_scan *scan, const tfos__text *text, enum json_tokener_error problem,
                             const char *line, size_t bytes, size_t end, tfos_error *error)
{
    const char *what = problem == json_tokener_continue     ? "the line ends before its object does"
                       : problem != json_tokener_success    ? json_tokener_error_desc(problem)
                       : !is_blank(line + end, bytes - end) ? "more text behind the object"
                                                            : "expected an object {\"name\": value, …}";
    size_t rest = end < bytes ? bytes - end : 0;
    return tfos__fail(error, TFOS_CORRUPT, "%s: line %lld: not a line of JSON: %s, at byte %zu: '%s'", text->name,
                      (long long)scan->line, what, end, tfos__printable_of(line + end, rest).text);
}

/* ---- what json-c would change without a word ---- */

/* The end of the string whose opening quote is at `at`: the position of its closing quote. */
static size_t string_end(const char *line, size_t bytes, size_t at)
{
    for (at++; at < bytes && line[at] != '"'; at++) {
        at += line[at] == '\\';
    }
    return at < bytes ? at : bytes;
}

static bool has_escaped_zero(const char *text, size_t bytes)
{
    for (size_t i = 0; i + 6 <= bytes; i++) {
        if (text[i] == '\\') {
            if (memcmp(text + i, "\\u0000", 6) == 0) {
                return true;
            }
            i++;
        }
    }
    return false;
}

/* A key ends at its first zero byte in json-c, so that "a\u0000b" would be "a". */
static tfos_status check_keys(const tfos__json_scan *scan, const tfos__text *text, const char *line, size_t bytes,
                              tfos_error *error)
{
    if (memmem(line, bytes, "\\u0000", 6) == NULL) {
        return TFOS_OK;
    }
    for (size_t at = 0; at < bytes; at++) {
        if (line[at] != '"') {
            continue;
        }
        size_t start = at;
        at = string_end(line, bytes, at);
        size_t next = at < bytes ? at + 1 : at;
        while (next < bytes && (line[next] == ' ' || line[next] == '\t')) {
            next++;
        }
        if (next < bytes && line[next] == ':' && has_escaped_zero(line + start, at - start)) {
            return tfos__fail(error, TFOS_ENCODING,
                              "%s: line %lld: the key %s has a zero byte, which the name of a column cannot have",
                              text->name, (long long)scan->line, tfos__printable_of(line + start, at + 1 - start).text);
        }
    }
    return TFOS_OK;
}

static bool is_digit(char character)
{
    return character >= '0' && character <= '9';
}

static bool is_in_number(char character)
{
    return is_digit(character) || (character != '\0' && strchr("+-.eE", character) != NULL);
}

/* Whether these bytes are an integer that json-c would cut to the nearest of 64 bits. No digit is behind them. */
static bool is_beyond_64_bits(const char *number, size_t bytes)
{
    bool negative = number[0] == '-';
    for (size_t i = negative; i < bytes; i++) {
        if (!is_digit(number[i])) {
            return false;
        }
    }
    errno = 0;
    if (negative) {
        (void)strtoll(number, NULL, 10);
    } else {
        (void)strtoull(number, NULL, 10);
    }
    return errno == ERANGE;
}

/* An integer beyond 64 bits has at least 19 digits, so every one of them has a digit at a multiple of 19. */
static tfos_status check_integers(const tfos__json_scan *scan, const tfos__text *text, const char *line, size_t bytes,
                                  tfos_error *error)
{
    enum { DIGITS = 19 };
    size_t known = 0; /* outside of strings */
    for (size_t at = 0; at < bytes; at += DIGITS) {
        if (!is_digit(line[at])) {
            continue;
        }
        size_t start = at;
        size_t end = at;
        for (; start > 0 && is_in_number(line[start - 1]); start--) {}
        for (; end < bytes && is_in_number(line[end]); end++) {}
        at = end; /* each number is looked at once */
        if (end - start < DIGITS || !is_beyond_64_bits(line + start, end - start)) {
            continue;
        }
        for (; known < start; known++) {
            known = line[known] == '"' ? string_end(line, bytes, known) : known;
        }
        if (known == start) {
            return tfos__fail(error, TFOS_RANGE,
                              "%s: line %lld: the integer %s is beyond int64: write it as a string, or with a fraction",
                              text->name, (long long)scan->line, tfos__printable_of(line + start, end - start).text);
        }
    }
    return TFOS_OK;
}

static tfos_status parse_line(tfos__json_scan *scan, const tfos__text *text, const char *line, size_t bytes,
                              tfos_error *error)
{
    json_tokener_reset(scan->tokener);
    scan->object = json_tokener_parse_ex(scan->tokener, line, (int)bytes);
    enum json_tokener_error problem = json_tokener_get_error(scan->tokener);
    size_t end = json_tokener_get_parse_end(scan->tokener);
    bool whole = problem == json_tokener_success && is_blank(line + end, bytes - end);
    if (!whole || !json_object_is_type(scan->object, json_type_object)) {
        return fail_line(scan, text, problem, line, bytes, end, error);
    }
    TFOS_TRY(check_keys(scan, text, line, bytes, error));
    return check_integers(scan, text, line, bytes, error);
}

tfos_status tfos__json_scan_next(tfos__json_scan *scan, tfos__text *text, tfos_error *error)
{
    json_object_put(scan->object);
    scan->object = NULL;
    for (;;) {
        char *line;
        size_t bytes;
        scan->line = text->line;
        TFOS_TRY(tfos__text_line(text, &line, &bytes, error));
        if (!is_blank(line, bytes)) {
            scan->bytes = bytes;
            return parse_line(scan, text, line, bytes, error);
        }
    }
}

const char *tfos__json_kind(json_object *value)
{
    switch (json_object_get_type(value)) {
    case json_type_null:
        return "null";
    case json_type_boolean:
        return "true or false";
    case json_type_double:
        return "a number with a fraction";
    case json_type_int:
        return "an integer";
    case json_type_object:
        return "an object";
    case json_type_array:
        return "an array";
    case json_type_string:
        return "a string";
    }
    return "something else";
}

bool tfos__json_is_big(json_object *value)
{
    return json_object_get_int64(value) == INT64_MAX && json_object_get_uint64(value) > (uint64_t)INT64_MAX;
}

bool tfos__json_is_special(json_object *value, double *real)
{
    int64_t integer;
    const char *text = json_object_get_string(value);
    size_t bytes = (size_t)json_object_get_string_len(value);
    return tfos__number_parse(text, bytes, &integer, real) == TFOS__NUMBER_SPECIAL;
}
