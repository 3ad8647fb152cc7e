/* Strict JSON by json-c, whose parser is content with the beginning of a text: the end is looked at here. */
#include "base/json.h"

#include <assert.h>
#include <limits.h>
#include <string.h>

#include "base/status.h"

static size_t skip_blanks(const char *text, size_t at, size_t bytes)
{
    while (at < bytes && text[at] != '\0' && strchr(" \t\r\n", text[at]) != NULL) {
        at++;
    }
    return at;
}

tfos_status tfos__json_object_parse(const char *text, size_t bytes, int depth, json_object **out,
                                    tfos__json_fault *fault, tfos_error *error)
{
    assert(bytes <= INT_MAX);
    json_tokener *tokener = json_tokener_new_ex(depth);
    if (tokener == NULL) {
        return tfos__fail_memory(error, sizeof(void *));
    }
    json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8);
    json_object *root = json_tokener_parse_ex(tokener, text, (int)bytes);
    enum json_tokener_error problem = json_tokener_get_error(tokener);
    size_t end = skip_blanks(text, json_tokener_get_parse_end(tokener), bytes);
    json_tokener_free(tokener);
    if (problem == json_tokener_success && end == bytes && json_object_is_type(root, json_type_object)) {
        *out = root;
        return TFOS_OK;
    }
    *fault = (tfos__json_fault){.what = problem == json_tokener_continue  ? "it ends before its closing bracket"
                                        : problem != json_tokener_success ? json_tokener_error_desc(problem)
                                        : end < bytes                     ? "more text follows its end"
                                                                          : "it is no object",
                                .at = end};
    json_object_put(root);
    return TFOS_INVALID;
}

json_object *tfos__json_member(json_object *object, const char *key)
{
    json_object *value;
    bool found = json_object_is_type(object, json_type_object) && json_object_object_get_ex(object, key, &value);
    return found ? value : NULL;
}

json_object *tfos__json_member_of(json_object *object, const char *key, json_type type)
{
    json_object *value = tfos__json_member(object, key);
    return json_object_is_type(value, type) ? value : NULL;
}

const char *tfos__json_text(json_object *object, const char *key)
{
    json_object *value = tfos__json_member_of(object, key, json_type_string);
    return value != NULL ? json_object_get_string(value) : "";
}
