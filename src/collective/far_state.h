/* Links from inside: what the files far*.c share. */
#ifndef TFOS_COLLECTIVE_FAR_STATE_H
#define TFOS_COLLECTIVE_FAR_STATE_H

#include "collective/far.h"

enum { TFOS__WORD_BYTES = 1024 };

/* One end of a link. */
typedef struct tfos__far_link {
    tfos__dial *dial; /* NULL: it is lost */
    size_t host;      /* at the other end */
    uint8_t header[8];
    size_t header_bytes; /* of it that have come */
    uint32_t data_left;  /* of the frame that is coming */
    uint32_t word_left;  /* … if it is a word */
    uint8_t word[TFOS__WORD_BYTES];
    size_t word_bytes;
    size_t blamed;     /* whom the other end waits for; SIZE_MAX: it has not said */
    int64_t blamed_ms; /* … when it said so last */
    bool left;         /* it has said good-bye */
    int64_t lost_ms;   /* when it counts as lost; 0: it does not */
    tfos_error error;
} tfos__far_link;

struct tfos__far {
    tfos__far_options options;
    size_t links;
    tfos__far_link out[TFOS__FAR_LINKS_MOST];
    tfos__far_link in[TFOS__FAR_LINKS_MOST];
    tfos__far_look *look;
    void *look_context;
    int64_t looked_ms;
    int64_t blamed_ms; /* when others were told last whom we wait for */
    bool blames;       /* … and were not told that it is over */
    uint64_t moved;
    tfos_error failure; /* of which the others have been told, or have told us */

    /* Of the last gathering: blocks of this host, the one before, and so on. */
    tfos__buffer blocks;
    uint64_t *lengths;
    size_t block_count;
    uint8_t *scratch;
};

enum { TFOS__FAR_SCRATCH_BYTES = 65536 };

/* Bytes that go out on one link and come in on another, at the same time. */
typedef struct tfos__flow {
    size_t out; /* the links */
    size_t in;
    uint64_t to_send; /* 0: nothing goes out */
    uint64_t ready;   /* so many of them are there to be sent */
    uint64_t sent;
    uint64_t to_come;
    uint64_t come;
    /* The memory of the next bytes to be sent, and how many of them there are in one run. */
    const uint8_t *(*source)(struct tfos__flow *flow, size_t *run);
    /* The same for the next bytes that come. */
    uint8_t *(*room)(struct tfos__flow *flow, size_t *run);
    /* So many have come, and are counted already. NULL: then what has come may be sent on. */
    tfos_status (*came)(struct tfos__flow *flow, size_t bytes, tfos_error *error);
    void *context;
} tfos__flow;

/* Until everything is sent and has come. */
tfos_status tfos__far_flow(tfos__far *far, tfos__flow *flow, tfos_error *error);

#endif
