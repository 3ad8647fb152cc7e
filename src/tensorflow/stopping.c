/* Early stopping. */
#include "tensorflow/stopping.h"

#include <string.h>
#include <strings.h>

/* Whether one of the parts of a name, which have _ between them, is this one. */
static bool has_part(const char *name, const char *part)
{
    size_t bytes = strlen(part);
    for (const char *at = name; at != NULL; at = strchr(at, '_'), at += at != NULL ? 1 : 0) {
        if (strncasecmp(at, part, bytes) == 0 && (at[bytes] == '_' || at[bytes] == '\0')) {
            return true;
        }
    }
    return false;
}

static bool ends_in(const char *name, const char *end)
{
    size_t bytes = strlen(end);
    size_t all = strlen(name);
    return all >= bytes && strcasecmp(name + all - bytes, end) == 0;
}

bool tfos__stopping_is_larger_better(const char *name)
{
    static const char *const parts[] = {"acc",   "accuracy", "auc", "precision", "recall", "sensitivity", "specificity",
                                        "score", "f1",       "iou", "u",         "r2",     "similarity"};
    bool found = false;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        found = found || has_part(name, parts[i]); /* the mean of io_u ends in u */
    }
    return found && !ends_in(name, "loss") && !ends_in(name, "error");
}

tfos__stopping_word tfos__stopping_add(tfos__stopping *stopping, int64_t epoch, double value)
{
    double gain = stopping->largest ? value - stopping->best : stopping->best - value;
    bool better = stopping->seen ? gain > stopping->least : value == value;
    if (better) {
        stopping->seen = true;
        stopping->best = value;
        stopping->best_epoch = epoch;
        stopping->waited = 0;
        return TFOS__STOPPING_BETTER;
    }
    stopping->waited++;
    return stopping->waited >= stopping->patience ? TFOS__STOPPING_ENOUGH : TFOS__STOPPING_WAIT;
}
