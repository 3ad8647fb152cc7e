/* The threads of a flow. Each takes the next item together with its number, and finishes it when all before it are
 * finished; what fails waits for its turn, too, so the first failure is the one that is told, however threads run. */
#include "service/flow.h"

#include <stdlib.h>

#include "base/status.h"
#include "base/thread.h"

typedef struct running {
    const tfos__flow *flow;
    pthread_mutex_t taking;
    bool ended;   /* nothing more is taken */
    int64_t next; /* number of the item that is taken next */
    pthread_mutex_t finishing;
    pthread_cond_t turns;
    int64_t turn;       /* number of the item that is finished next */
    tfos_status status; /* of the first that has failed: nothing is finished any more */
    tfos_error error;
} running;

/* What a thread has in hand. */
typedef struct hand {
    int64_t number;
    void *item; /* NULL: it could not be taken */
    tfos_status status;
    tfos_error error;
} hand;

static bool has_failed(running *self)
{
    pthread_mutex_lock(&self->finishing);
    bool failed = self->status != TFOS_OK;
    pthread_mutex_unlock(&self->finishing);
    return failed;
}

/* Takes the next item, or the failure to take it. False: there is none. */
static bool take(running *self, hand *out)
{
    const tfos__flow *flow = self->flow;
    pthread_mutex_lock(&self->taking);
    self->ended = self->ended || has_failed(self);
    bool taken = !self->ended;
    if (taken) {
        *out = (hand){.number = self->next};
        out->status = flow->next(flow->context, &out->item, &out->error);
        self->ended = out->status != TFOS_OK;
        taken = out->status != TFOS_END;
        self->next += taken ? 1 : 0;
    }
    pthread_mutex_unlock(&self->taking);
    return taken;
}

static void finish_in_turn(running *self, hand *at)
{
    const tfos__flow *flow = self->flow;
    pthread_mutex_lock(&self->finishing);
    while (self->turn != at->number && self->status == TFOS_OK) {
        pthread_cond_wait(&self->turns, &self->finishing);
    }
    if (self->status == TFOS_OK) {
        at->status = at->status == TFOS_OK ? flow->finish(flow->context, at->item, &at->error) : at->status;
        self->status = at->status;
        self->error = at->error;
        self->turn++;
    }
    pthread_cond_broadcast(&self->turns);
    pthread_mutex_unlock(&self->finishing);
}

static void *run(void *context)
{
    running *self = context;
    const tfos__flow *flow = self->flow;
    hand at;
    while (take(self, &at)) {
        at.status = at.status == TFOS_OK ? flow->work(flow->context, at.item, &at.error) : at.status;
        finish_in_turn(self, &at);
        if (at.item != NULL) {
            flow->free_item(at.item);
        }
    }
    return NULL;
}

/* The number of threads that could be started; one is enough. */
static int start(running *self, pthread_t *threads, tfos_error *error)
{
    int count = 0;
    int code = 0;
    while (count < self->flow->threads && (code = tfos__thread_start(&threads[count], run, self)) == 0) {
        count++;
    }
    if (count == 0) {
        tfos__fail_errno(error, code, "no thread for the work");
    }
    return count;
}

tfos_status tfos__flow_run(const tfos__flow *flow, tfos_error *error)
{
    running self = {.flow = flow};
    pthread_t *threads = calloc((size_t)flow->threads + 1, sizeof *threads);
    if (threads == NULL) {
        return tfos__fail_memory(error, (size_t)flow->threads * sizeof *threads);
    }
    pthread_mutex_init(&self.taking, NULL);
    pthread_mutex_init(&self.finishing, NULL);
    pthread_cond_init(&self.turns, NULL);
    int count = start(&self, threads, &self.error);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i], NULL);
    }
    pthread_cond_destroy(&self.turns);
    pthread_mutex_destroy(&self.finishing);
    pthread_mutex_destroy(&self.taking);
    free(threads);
    tfos_status status = count > 0 ? self.status : self.error.status;
    if (status != TFOS_OK && error != NULL) {
        *error = self.error;
    }
    return status;
}
