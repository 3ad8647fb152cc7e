/* GPUs are named as their source names them ("0", a UUID, a MIG device), so they are handled as words of a list. */
#include "coordinator/gpu_share.h"

#include <ctype.h>

static bool is_blank(char letter)
{
    return isspace((unsigned char)letter) != 0;
}

bool tfos__words_next(const char **list, const char **word, size_t *count)
{
    const char *at = *list;
    while (*at == ',' || is_blank(*at)) {
        at++;
    }
    if (*at == '\0') {
        *list = at;
        return false;
    }
    const char *end = at + strcspn(at, ",");
    *list = end;
    while (end > at && is_blank(end[-1])) {
        end--;
    }
    *word = at;
    *count = (size_t)(end - at);
    return true;
}

size_t tfos__words_count(const char *list)
{
    const char *word;
    size_t count;
    size_t total = 0;
    while (tfos__words_next(&list, &word, &count)) {
        total++;
    }
    return total;
}

static bool contains(const tfos__buffer *list, const char *word, size_t count)
{
    const char *at = list->size > 0 ? (const char *)list->data : "";
    const char *other;
    size_t other_count;
    while (tfos__words_next(&at, &other, &other_count)) {
        if (other_count == count && memcmp(other, word, count) == 0) {
            return true;
        }
    }
    return false;
}

/* The list stays terminated, so that it can be read as text. */
static bool append(tfos__buffer *list, const char *word, size_t count)
{
    if (tfos__buffer_reserve(list, list->size + count + 2, NULL) != TFOS_OK) {
        return false;
    }
    if (list->size > 0) {
        list->data[list->size++] = ',';
    }
    memcpy(list->data + list->size, word, count);
    list->size += count;
    list->data[list->size] = '\0';
    return true;
}

size_t tfos__words_take(const char *list, size_t wanted, tfos__buffer *taken, tfos__buffer *out)
{
    const char *word;
    size_t count;
    size_t found = 0;
    while (found < wanted && tfos__words_next(&list, &word, &count)) {
        if (!contains(taken, word, count) && append(taken, word, count)) {
            found += append(out, word, count);
        }
    }
    return found;
}
