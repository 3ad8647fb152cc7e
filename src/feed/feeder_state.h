/* A producer from inside: what the files feeder*.c share. */
#ifndef TFOS_FEED_FEEDER_STATE_H
#define TFOS_FEED_FEEDER_STATE_H

#include "feed/batch_queue.h"
#include "feed/entry.h"
#include "feed/feeder.h"
#include "feed/lane_rows.h"
#include "feed/packet.h"
#include "feed/sink.h"
#include "net/dial.h"

/* What stands in for a node elsewhere: see feeder_far.c. */
typedef struct tfos__stand_in tfos__stand_in;

/* A node that takes rows, as a producer sees it. */
typedef struct tfos__place {
    uint32_t index;
    char host[256];
    char name[TFOS__QUEUE_BYTES + 64]; /* of its Unix socket, abstract */
    uint16_t port;                     /* for producers elsewhere */
    bool hungry;                       /* the coordinator says that it starves */
    int64_t tried_ms;                  /* when a stand-in was made for that reason; 0: never */
    bool far;                          /* it is fed over the network, or was */
    int socket;                        /* -1: it is not on this machine */
    tfos__bell *bell;                  /* of its program */
    tfos__stand_in *stand_in;          /* NULL: the node is on this machine */
    bool asked;                        /* for a lane … */
    int64_t asked_ms;                  /* … at this time */
    bool busy;                         /* it has none to give, or nobody reads there yet */
    bool finished;                     /* its program takes nothing more */
    bool fenced;                       /* another attempt goes on with the partition */
    bool ended;                        /* we have closed the lane: all rows are fed */
    tfos__lane *lane;
    tfos__lane *results;
    tfos__lane_reader reader; /* of the results */
    uint64_t end_row;         /* of what was committed to the lane */
    uint64_t schema_number;   /* of the schema that was sent through the lane; 0: none */
} tfos__place;

/* Rows that one place was given in a row. */
typedef struct tfos__expected {
    size_t place;
    uint64_t rows;
} tfos__expected;

struct tfos_feeder {
    tfos__sink sink; /* first: a pump fills it */
    tfos__dial *coordinator;
    tfos__attempt attempt;
    char queue[TFOS__QUEUE_BYTES];
    uint64_t flags;
    int64_t local_most; /* nodes that memory is shared with */
    uint8_t key[TFOS__KEY_BYTES];
    uint8_t token[TFOS__KEY_BYTES];
    tfos__bell *bell;
    tfos__place *places;
    size_t place_count;
    size_t place_first; /* where to begin, so that tasks spread over the nodes */

    uint64_t row;  /* the number of the next row that is passed */
    uint64_t fed;  /* rows before this one were fed by another attempt */
    uint64_t sent; /* rows that we have committed */

    tfos__buffer schema;     /* the entry */
    tfos_schema *schema_now; /* what it was made of */
    uint64_t schema_number;
    bool schema_told; /* to the coordinator */

    bool granted;    /* we were let in */
    bool told;       /* the coordinator knows why we give up */
    bool ended;      /* the feed wants no more … */
    bool terminated; /* … because a program has said so */
    bool exhausted;
    bool acknowledged; /* the coordinator knows that nothing is left to be done */
    bool held_back;    /* not every program reads yet: those that do are given no more than they need */
    int64_t batch_bytes;
    int64_t lane_bytes; /* of lanes that have yet to come, by the settings */

    int64_t told_ms;    /* when the coordinator was told how far we are, … */
    uint64_t told_sent; /* … and what */
    uint64_t told_consumed;

    int64_t timeout_ms; /* for results, without any; 0: as long as it takes */

    /* Of inference: where the results of which rows will come from, in the order of the rows. */
    tfos__expected *expected;
    size_t expected_first;
    size_t expected_count; /* behind the last */
    size_t expected_capacity;

    /* Results that were taken out of their lanes while the task waited for room, the first of them first. */
    tfos__batch_queue ready;
};

/* ---- feeder.c ---- */

enum { TFOS__FEEDER_GOING_MS = 10000 }; /* from a node that is gone until the coordinator says what that means */

/* Waits for the coordinator to say that the feed has ended or failed, whatever else it says before. OK: it did not. */
tfos_status tfos__feeder_await_word(tfos_feeder *feeder, int64_t most_ms, tfos_error *error);

/* The error that a message of the coordinator has, which then needs not be told of it. */
tfos_status tfos__feeder_fail_as_told(tfos_feeder *feeder, const tfos__message *message, tfos_error *error);

/* Tells the coordinator how far we are, for reports: now, or unless that was a moment ago. */
void tfos__feeder_tell_progress(tfos_feeder *feeder, bool now);

/* ---- feeder_sink.c ---- */

extern const tfos__sink_functions tfos__feeder_functions;

/* Bytes that the smallest lane has, which is where a row may have to go. */
int64_t tfos__feeder_least_lane(const tfos_feeder *feeder);

/* ---- feeder_choice.c ---- */

/* Who gets the next entry. */
typedef struct tfos__choice {
    tfos__place *place; /* NULL: nobody can take anything now */
    size_t hungry;      /* how many nodes are */
    size_t here;        /* nodes that can be fed */
} tfos__choice;

/* Chooses among those that have room for a row of so many bytes; asks for lanes where that helps. */
tfos_status tfos__feeder_choose(tfos_feeder *feeder, size_t row_bytes, tfos__choice *out, tfos_error *error);

/* Looks whether the program of a place takes nothing more, or we were fenced. */
void tfos__place_look(tfos__place *place);

/* Whether anybody can be fed, or: whether memory is shared with anybody. */
bool tfos__feeder_has_places(const tfos_feeder *feeder, bool near);

/* The node elsewhere that has not acknowledged everything yet; NULL: there is none. */
const tfos__place *tfos__feeder_unacknowledged(const tfos_feeder *feeder);

/* Connects to somebody elsewhere who has nothing, if those nearby have enough. */
void tfos__feeder_look_for_starving(tfos_feeder *feeder);

/* Bytes that an entry of `least` bytes or more can have now; *gap are to be committed before it. */
size_t tfos__feeder_room(const tfos_feeder *feeder, const tfos__place *place, size_t least, size_t *gap);

/* Rows of a batch that make an entry where several nodes are fed. */
int64_t tfos__feeder_share(const tfos_feeder *feeder, const tfos_batch *batch, const tfos__choice *chosen);

/* ---- feeder_results.c ---- */

/* Rows were given to a place; their results will come from there. */
tfos_status tfos__feeder_expect(tfos_feeder *feeder, const tfos__place *place, uint64_t rows, tfos_error *error);

/* Takes what results there are, so that nobody waits for room for them while we wait for room for rows. */
tfos_status tfos__feeder_drain(tfos_feeder *feeder, tfos_error *error);

/* ---- feeder_place.c ---- */

/* Connects to the nodes in a list (PLACES), as far as they are on this machine. */
tfos_status tfos__feeder_find_places(tfos_feeder *feeder, tfos__text list, tfos_error *error);

/* Asks a node for a lane; it comes later. */
tfos_status tfos__place_ask(tfos_feeder *feeder, tfos__place *place, tfos_error *error);

/* Reads what a node has to say. IO: it is gone. */
tfos_status tfos__place_hear(tfos_feeder *feeder, tfos__place *place, tfos_error *error);

void tfos__place_reset(tfos__place *place);

/* Nothing more comes to a place. Where results are waited for, that is an entry, so that nobody waits there for a full
 * batch; a lane that takes nothing more needs none. END: there is no room for it now. */
tfos_status tfos__place_end(tfos_feeder *feeder, tfos__place *place, tfos_error *error);

/* Tells the program, or whatever stands between, that something is in the lane, or that there is room for results. */
void tfos__place_ring(const tfos__place *place);

/* Begins to connect to a node elsewhere; its bell comes later. */
tfos_status tfos__place_begin_far(tfos_feeder *feeder, tfos__place *place, tfos_error *error);

/* Connects to a node elsewhere, and waits for that, at most until `deadline` on the clock of base/clock.h. CANCELLED:
 * the task was interrupted. */
tfos_status tfos__place_connect_far(tfos_feeder *feeder, tfos__place *place, int64_t deadline, tfos_error *error);

/* ---- feeder_far.c ---- */

/* Makes one, with a thread of its own, and the socket through which it is asked for a lane as a node would be. The key
 * is copied. */
tfos_status tfos__stand_in_open(const char *host, uint16_t port, const uint8_t key[TFOS__KEY_BYTES], int *socket,
                                tfos__stand_in **out, tfos_error *error);

/* Ends its thread and waits for it. *why is filled in with what ended it before, if anything has. */
void tfos__stand_in_close(tfos__stand_in *stand_in, tfos_error *why);

void tfos__stand_in_wake(const tfos__stand_in *stand_in);

/* Bytes that can be committed to its lane and for which there is room in the node's. */
size_t tfos__stand_in_room(tfos__stand_in *stand_in, const tfos__lane *lane);

#endif
