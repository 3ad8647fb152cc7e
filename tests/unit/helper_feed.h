/* The other side of a consumer: a node, and producers behind it, as far as the consumer can tell. */
#ifndef TFOS_TESTS_HELPER_FEED_H
#define TFOS_TESTS_HELPER_FEED_H

#include "feed/consumer.h"

typedef struct helper_feed {
    int node; /* the node's end of the socket */
    tfos__bell *bell;
    tfos__intake *intake;
    uint64_t lane_number;
    uint64_t done;       /* DONE packets */
    uint64_t done_last;  /* the number of the last of them */
    uint64_t terminated; /* TERMINATE packets */
    char announced[256]; /* QUEUE packets: "input,validation," */
} helper_feed;

/* A producer with one lane. */
typedef struct helper_lane {
    tfos__lane *lane;
    tfos__lane *results; /* NULL: not for inference */
    tfos__bell *bell;
    uint64_t row;
} helper_lane;

void helper_feed_open(helper_feed *feed);
void helper_feed_close(helper_feed *feed);

tfos_feed *helper_feed_queue(helper_feed *feed, const char *queue);

/* Reads what the consumer has said. */
void helper_feed_hear(helper_feed *feed);

void helper_feed_say(helper_feed *feed, tfos__packet_kind kind, const char *queue, uint32_t flags);
void helper_feed_say_schema(helper_feed *feed, const char *queue, const tfos_schema *schema);

void helper_lane_open(helper_lane *lane, helper_feed *feed, const char *queue, uint64_t partition, bool inference);
void helper_lane_put_schema(helper_lane *lane, helper_feed *feed, const tfos_schema *schema);
/* Waits for room as a producer does. False when the lane is given up. */
bool helper_lane_put_batch(helper_lane *lane, helper_feed *feed, const tfos_batch *batch);
void helper_lane_end(helper_lane *lane, helper_feed *feed); /* nothing more comes; with the end of a partition */
void helper_lane_close(helper_lane *lane);

/* {n int64}, and rows of it that count from `first` on. */
tfos_schema *helper_number_schema(void);
tfos_batch *helper_numbers(const tfos_schema *schema, int64_t first, int64_t rows);

/* The same for a lane of the schema {n int64}. */
void helper_lane_put_numbers(helper_lane *lane, helper_feed *feed, int64_t first, int64_t rows);

/* The numbers of a batch, as text: "3 4 5". Valid until the next call. */
const char *helper_show_numbers(const tfos_batch *batch);

/* A schema of one field. */
tfos_schema *helper_schema_with(const char *name, tfos_type type, tfos_shape shape, int32_t length);

/* What a caller asks for that waits ten seconds. */
tfos_feed_want helper_want_rows(int64_t rows);
tfos_feed_want helper_want_within(int64_t rows, int64_t timeout_ms);

/* What the next call gives: rows as helper_show_numbers shows them, or a status and a part of its message. */
void helper_expect_numbers(tfos_feed *feed, const tfos_feed_want *want, const char *numbers);
void helper_expect_status(tfos_feed *feed, const tfos_feed_want *want, tfos_status status, const char *text);

#endif
