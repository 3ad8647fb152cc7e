/* Early stopping: whether training gets better, epoch by epoch. It knows no models and no clocks. */
#ifndef TFOS_TENSORFLOW_STOPPING_H
#define TFOS_TENSORFLOW_STOPPING_H

#include "tfos.h"

typedef struct tfos__stopping {
    bool largest;     /* is best */
    double least;     /* by which a better value is better */
    int64_t patience; /* 0 is as good as 1 */
    bool seen;        /* there is a best one */
    double best;
    int64_t best_epoch;
    int64_t waited; /* epochs since then */
} tfos__stopping;

typedef enum tfos__stopping_word {
    TFOS__STOPPING_BETTER,
    TFOS__STOPPING_WAIT,
    TFOS__STOPPING_ENOUGH, /* no epoch was better for as many as patience says */
} tfos__stopping_word;

/* Whether large values of this name are good ones: accuracy, auc, precision, recall, … and no loss or error. */
bool tfos__stopping_is_larger_better(const char *name);

/* What is to be said of the value of an epoch. One that is not a number is never better. */
tfos__stopping_word tfos__stopping_add(tfos__stopping *stopping, int64_t epoch, double value);

#endif
