/* The types of elements. */
#include <assert.h>

#include "base/choice.h"

static const char *const words[] = {
#define WORD(name, value, word, bytes) [value] = word,
    TFOS_ELEMENT_MAP(WORD)
#undef WORD
        NULL,
};

TFOS__CHOICE_FUNCTIONS(element, "type of elements", words)

size_t tfos_element_bytes(tfos_element element)
{
    static const size_t sizes[] = {
#define SIZE(name, value, word, bytes) [value] = (bytes),
        TFOS_ELEMENT_MAP(SIZE)
#undef SIZE
    };
    assert((size_t)element < sizeof sizes / sizeof sizes[0]);
    return sizes[element];
}
