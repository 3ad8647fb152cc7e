/* Links: frames, words, and bytes that flow in and out at the same time. Whoever waits sees what comes on both links of
 * a flow, and looks at all others ten times a second: a failure reaches everybody, because everybody passes it on. A
 * link that is closed is counted as a loss after some seconds: if a program has died, or raised, the coordinator knows
 * why, and stops the others. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "collective/far_state.h"

enum {
    HEADER_BYTES = 8,
    FRAME_BYTES = 65536,   /* of data, at most */
    SLICE_MS = 100,        /* between two looks */
    LOSS_MS = 5000,        /* for the coordinator to say what a loss means */
    BLAME_MS = 1000,       /* between two words about whom somebody waits for, … */
    BLAME_VALID_MS = 1500, /* … which are old news soon */
    TELL_MS = 1000,        /* for a last word to go out */
};

enum { DATA = 1, FAILURE, LEAVING, WAITING };

static_assert(HEADER_BYTES == sizeof(((tfos__far_link *)0)->header), "as far.h says");

size_t tfos__far_link_count(size_t hosts)
{
    size_t count = 0;
    while ((size_t)1 << count < hosts) {
        count++;
    }
    return count;
}

size_t tfos__far_host_behind(size_t hosts, size_t host, size_t link)
{
    return (host + ((size_t)1 << link)) % hosts;
}

static tfos__far_link link_of(tfos__dial *dial, size_t host)
{
    return (tfos__far_link){.dial = dial, .host = host, .blamed = SIZE_MAX};
}

tfos_status tfos__far_new(const tfos__far_options *options, tfos__dial *const *out, tfos__dial *const *in,
                          tfos__far **far, tfos_error *error)
{
    size_t hosts = options->hosts;
    size_t links = tfos__far_link_count(hosts);
    tfos__far *made = calloc(1, sizeof *made);
    uint64_t *lengths = calloc(hosts, sizeof *lengths);
    uint8_t *scratch = aligned_alloc(64, TFOS__FAR_SCRATCH_BYTES);
    assert(hosts > 1 && links <= TFOS__FAR_LINKS_MOST);
    if (made == NULL || lengths == NULL || scratch == NULL) {
        for (size_t i = 0; i < links; i++) {
            tfos__dial_close(out[i]);
            tfos__dial_close(in[i]);
        }
        free(made);
        free(lengths);
        free(scratch);
        return tfos__fail_memory(error, sizeof *made + hosts * sizeof *lengths + TFOS__FAR_SCRATCH_BYTES);
    }
    *made = (tfos__far){.options = *options, .links = links, .lengths = lengths, .scratch = scratch};
    for (size_t i = 0; i < links; i++) {
        size_t before = (options->host + hosts - ((size_t)1 << i) % hosts) % hosts;
        made->out[i] = link_of(out[i], tfos__far_host_behind(hosts, options->host, i));
        made->in[i] = link_of(in[i], before);
    }
    *far = made;
    return TFOS_OK;
}

void tfos__far_set_look(tfos__far *far, tfos__far_look *look, void *context)
{
    far->look = look;
    far->look_context = context;
}

uint64_t tfos__far_moved(const tfos__far *far)
{
    return far->moved;
}

static const char *name_of(const tfos__far *far, size_t host)
{
    return far->options.name(far->options.name_context, far->options.leaders[host]);
}

/* ---- losses ---- */

static void lose(tfos__far_link *link, const tfos_error *why)
{
    tfos__dial_close(link->dial);
    link->dial = NULL;
    link->error = *why;
    link->lost_ms = tfos__clock_ms() + LOSS_MS;
}

/* What fails on a link is a loss, and nothing has been sent or come. */
static void take_loss(tfos__far_link *link, tfos_status status, const tfos_error *why)
{
    if (status != TFOS_OK) {
        lose(link, why);
    }
}

static tfos_status check_loss(const tfos__far *far, const tfos__far_link *link, tfos_error *error)
{
    if (link->dial != NULL || tfos__clock_ms() < link->lost_ms) {
        return TFOS_OK;
    }
    if (link->left) {
        return tfos__fail(error, TFOS_IO, "%s has left: its program has ended, or closed the group",
                          name_of(far, link->host));
    }
    return tfos__fail(error, TFOS_IO,
                      "%s is gone: its process has ended without a word, or was killed, or cannot be reached any more "
                      "(%s)",
                      name_of(far, link->host), link->error.message);
}

/* ---- words ---- */

static void say(tfos__far_link *link, uint32_t kind, const void *word, size_t bytes)
{
    tfos_error why;
    size_t taken;
    uint8_t frame[HEADER_BYTES + TFOS__WORD_BYTES];
    if (link->dial == NULL) {
        return;
    }
    assert(bytes <= TFOS__WORD_BYTES);
    tfos__store_u32(frame, kind);
    tfos__store_u32(frame + 4, (uint32_t)bytes);
    memcpy(frame + HEADER_BYTES, word, bytes);
    tfos_status status = tfos__dial_put(link->dial, frame, HEADER_BYTES + bytes, &why);
    status = status == TFOS_OK ? tfos__dial_push(link->dial, NULL, 0, &taken, &why) : status;
    take_loss(link, status, &why);
}

static void say_to_all(tfos__far *far, uint32_t kind, const void *word, size_t bytes)
{
    for (size_t i = 0; i < far->links; i++) {
        say(&far->out[i], kind, word, bytes);
        say(&far->in[i], kind, word, bytes);
    }
}

static bool has_more_to_send(const tfos__far_link *link)
{
    return link->dial != NULL && (tfos__dial_events(link->dial) & POLLOUT) != 0;
}

/* Sends what is left, as long as it is taken and the time is not over. */
static void send_rest(tfos__far_link *link, int64_t deadline)
{
    size_t taken;
    while (has_more_to_send(link) && tfos__clock_ms() < deadline) {
        struct pollfd wait = {.fd = tfos__dial_socket(link->dial), .events = POLLOUT};
        if (poll(&wait, 1, (int)tfos__max_i64(0, deadline - tfos__clock_ms())) <= 0 ||
            tfos__dial_push(link->dial, NULL, 0, &taken, NULL) != TFOS_OK) {
            return;
        }
    }
}

void tfos__far_fail(tfos__far *far, tfos_status status, const char *text)
{
    uint8_t word[TFOS__WORD_BYTES];
    size_t bytes = strnlen(text, sizeof word - 4);
    if (far->failure.status != TFOS_OK) {
        return;
    }
    tfos__fail(&far->failure, status, "%s", text);
    tfos__store_u32(word, (uint32_t)status);
    memcpy(word + 4, text, bytes);
    say_to_all(far, FAILURE, word, 4 + bytes);
    int64_t deadline = tfos__clock_ms() + TELL_MS;
    for (size_t i = 0; i < far->links; i++) {
        send_rest(&far->out[i], deadline);
        send_rest(&far->in[i], deadline);
    }
}

void tfos__far_blame(tfos__far *far, size_t rank)
{
    uint8_t word[4];
    int64_t now = tfos__clock_ms();
    bool over = rank == SIZE_MAX;
    if (over ? !far->blames : now - far->blamed_ms < BLAME_MS) {
        return;
    }
    far->blames = !over;
    far->blamed_ms = over ? 0 : now;
    tfos__store_u32(word, over ? UINT32_MAX : (uint32_t)rank);
    for (size_t i = 0; i < far->links; i++) {
        if (over || !has_more_to_send(&far->out[i])) {
            say(&far->out[i], WAITING, word, sizeof word);
        }
    }
}

/* Waits until the other end is closed, too: what comes behind our close would make the kernel throw away what the other
 * has not read, and that is the reason of the failure. */
static void linger(tfos__far_link *link, int64_t deadline)
{
    uint8_t nothing[256];
    size_t got;
    if (link->dial == NULL) {
        return;
    }
    while (tfos__dial_pull(link->dial, nothing, sizeof nothing, &got, NULL) == TFOS_OK) {
        struct pollfd wait = {.fd = tfos__dial_socket(link->dial), .events = POLLIN};
        int64_t left = deadline - tfos__clock_ms();
        if (left <= 0 || (got == 0 && poll(&wait, 1, (int)left) <= 0)) {
            return;
        }
    }
}

static void end_sending(const tfos__far_link *link)
{
    if (link->dial != NULL) {
        shutdown(tfos__dial_socket(link->dial), SHUT_WR);
    }
}

static void linger_at_all(tfos__far *far)
{
    int64_t deadline = tfos__clock_ms() + TELL_MS;
    for (size_t i = 0; i < far->links; i++) {
        end_sending(&far->out[i]); /* all of them first: everybody waits for everybody */
        end_sending(&far->in[i]);
    }
    for (size_t i = 0; i < far->links; i++) {
        linger(&far->out[i], deadline);
        linger(&far->in[i], deadline);
    }
}

void tfos__far_free(tfos__far *far)
{
    if (far == NULL) {
        return;
    }
    if (far->failure.status == TFOS_OK && tfos__far_listen(far, NULL) == TFOS_OK) {
        /* Everything was read, so that the kernel does not take the close for a reset. */
        say_to_all(far, LEAVING, "", 0);
    } else {
        linger_at_all(far);
    }
    for (size_t i = 0; i < far->links; i++) {
        tfos__dial_close(far->out[i].dial);
        tfos__dial_close(far->in[i].dial);
    }
    tfos__buffer_reset(&far->blocks);
    free(far->lengths);
    free(far->scratch);
    free(far);
}

/* ---- what comes ---- */

static tfos_status hear_word(tfos__far *far, tfos__far_link *link, tfos_error *error)
{
    uint32_t kind = tfos__load_u32(link->header);
    uint32_t number = link->word_bytes >= 4 ? tfos__load_u32(link->word) : 0;
    if (kind == LEAVING) {
        link->left = true;
    } else if (kind == WAITING) {
        link->blamed = number < far->options.size ? number : SIZE_MAX;
        link->blamed_ms = tfos__clock_ms();
    } else if (kind == FAILURE && link->word_bytes >= 4) {
        tfos_error told;
        tfos_status status = number > TFOS_END && number <= TFOS_RAISED ? (tfos_status)number : TFOS_IO;
        tfos__fail(&told, status, "%.*s", (int)(link->word_bytes - 4), (const char *)link->word + 4);
        tfos__far_fail(far, status, told.message);
        return tfos__fail(error, status, "%s", told.message);
    }
    return TFOS_OK;
}

static tfos_status begin_frame(const tfos__far *far, tfos__far_link *link, tfos_error *error)
{
    uint32_t kind = tfos__load_u32(link->header);
    uint32_t bytes = tfos__load_u32(link->header + 4);
    link->header_bytes = 0;
    link->word_bytes = 0;
    if (kind == DATA && bytes > 0 && bytes <= FRAME_BYTES) {
        link->data_left = bytes;
        link->blamed = SIZE_MAX;
        return TFOS_OK;
    }
    if (kind > DATA && kind <= WAITING && bytes <= TFOS__WORD_BYTES) {
        link->word_left = bytes;
        return TFOS_OK;
    }
    return tfos__fail(error, TFOS_CORRUPT, "expected a frame of data, found one of kind %u with %u bytes from %s",
                      (unsigned)kind, (unsigned)bytes, name_of(far, link->host));
}

/* Pulls some bytes of a link; 0 if none are there, or the link is lost. */
static size_t pull(tfos__far_link *link, void *into, size_t count)
{
    size_t got = 0;
    tfos_error why;
    if (link->dial != NULL) {
        take_loss(link, tfos__dial_pull(link->dial, into, count, &got, &why), &why);
    }
    return got;
}

/* Takes in words, until a frame of data begins or there is nothing more. */
static tfos_status hear(tfos__far *far, tfos__far_link *link, tfos_error *error)
{
    while (link->data_left == 0) {
        bool in_word = link->word_left > 0;
        size_t got = in_word ? pull(link, link->word + link->word_bytes, link->word_left)
                             : pull(link, link->header + link->header_bytes, HEADER_BYTES - link->header_bytes);
        if (got == 0) {
            return TFOS_OK;
        }
        if (in_word) {
            link->word_bytes += got;
            link->word_left -= (uint32_t)got;
        } else {
            link->header_bytes += got;
            if (link->header_bytes < HEADER_BYTES) {
                continue;
            }
            TFOS_TRY(begin_frame(far, link, error));
        }
        if (link->data_left == 0 && link->word_left == 0) {
            TFOS_TRY(hear_word(far, link, error));
        }
    }
    return TFOS_OK;
}

static tfos_status hear_out(tfos__far *far, tfos__far_link *link, tfos_error *error)
{
    TFOS_TRY(hear(far, link, error));
    return link->data_left == 0
               ? TFOS_OK
               : tfos__fail(error, TFOS_CORRUPT, "%s sends data the wrong way", name_of(far, link->host));
}

tfos_status tfos__far_listen(tfos__far *far, tfos_error *error)
{
    for (size_t i = 0; i < far->links; i++) {
        TFOS_TRY(hear_out(far, &far->out[i], error));
        TFOS_TRY(hear(far, &far->in[i], error));
    }
    return TFOS_OK;
}

/* ---- flows ---- */

/* A link that takes nothing more may still have the word that tells why. */
static tfos_status take_last_words(tfos__far *far, tfos__far_link *link, const tfos_error *why, tfos_error *error)
{
    TFOS_TRY(hear(far, link, error));
    if (link->dial != NULL) {
        lose(link, why);
    }
    return TFOS_OK;
}

static tfos_status push(tfos__far *far, tfos__far_link *link, const uint8_t *bytes, size_t count, size_t *taken,
                        tfos_error *error)
{
    uint8_t header[HEADER_BYTES];
    tfos_error why;
    size_t pushed;
    *taken = 0;
    if (link->dial == NULL) {
        return TFOS_OK;
    }
    size_t room = tfos__dial_room(link->dial);
    size_t some = room > HEADER_BYTES ? (size_t)tfos__min_i64((int64_t)(room - HEADER_BYTES), FRAME_BYTES) : 0;
    some = count < some ? count : some;
    tfos_status status = TFOS_OK;
    if (some > 0) {
        tfos__store_u32(header, DATA);
        tfos__store_u32(header + 4, (uint32_t)some);
        status = tfos__dial_put(link->dial, header, sizeof header, &why);
        status = status == TFOS_OK ? tfos__dial_put(link->dial, bytes, some, &why) : status;
        *taken = some;
        far->moved++;
    }
    status = status == TFOS_OK ? tfos__dial_push(link->dial, NULL, 0, &pushed, &why) : status;
    return status == TFOS_OK ? TFOS_OK : take_last_words(far, link, &why, error);
}

static tfos_status send_more(tfos__far *far, tfos__flow *flow, bool *moved, tfos_error *error)
{
    tfos__far_link *link = &far->out[flow->out];
    size_t taken;
    do {
        size_t run = 0;
        uint64_t ready = flow->ready < flow->to_send ? flow->ready : flow->to_send;
        const uint8_t *from = flow->sent < ready ? flow->source(flow, &run) : NULL;
        run = run < ready - flow->sent ? run : (size_t)(ready - flow->sent);
        if (run == 0 && !has_more_to_send(link)) {
            return TFOS_OK;
        }
        TFOS_TRY(push(far, link, from, run, &taken, error));
        flow->sent += taken;
        *moved = *moved || taken > 0;
    } while (taken > 0);
    return TFOS_OK;
}

static tfos_status take_more(tfos__far *far, tfos__flow *flow, bool *moved, tfos_error *error)
{
    tfos__far_link *link = &far->in[flow->in];
    while (flow->come < flow->to_come) {
        size_t run;
        TFOS_TRY(hear(far, link, error));
        uint8_t *into = flow->room(flow, &run);
        run = run < link->data_left ? run : link->data_left;
        size_t got = run > 0 ? pull(link, into, run) : 0;
        if (got == 0) {
            return TFOS_OK;
        }
        link->data_left -= (uint32_t)got;
        flow->come += got;
        far->moved++;
        *moved = true;
        if (flow->came == NULL) {
            flow->ready = flow->come;
        } else {
            TFOS_TRY(flow->came(flow, got, error));
        }
        /* What can be passed on goes out before more is taken in. */
        TFOS_TRY(flow->to_send > 0 ? send_more(far, flow, moved, error) : TFOS_OK);
    }
    return TFOS_OK;
}

/* Sleeps until something can be done, at most until the next look. */
static tfos_status wait_for_links(tfos__far *far, const tfos__flow *flow, tfos_error *error)
{
    /* Who has got everything may leave. */
    bool sending = flow->sent < flow->to_send || (flow->to_send > 0 && has_more_to_send(&far->out[flow->out]));
    tfos__far_link *out = sending ? &far->out[flow->out] : NULL;
    tfos__far_link *in = flow->come < flow->to_come ? &far->in[flow->in] : NULL;
    struct pollfd files[2] = {{.fd = -1}, {.fd = -1}};
    if (in != NULL && in->dial != NULL) {
        files[0] = (struct pollfd){.fd = tfos__dial_socket(in->dial), .events = POLLIN};
    }
    if (out != NULL && out->dial != NULL) {
        files[1] = (struct pollfd){.fd = tfos__dial_socket(out->dial), .events = tfos__dial_events(out->dial)};
    }
    if (poll(files, 2, SLICE_MS) < 0 && errno != EINTR) {
        return tfos__fail_errno(error, errno, "cannot wait for the other hosts");
    }
    if (out != NULL && files[1].revents != 0) {
        TFOS_TRY(hear_out(far, out, error));
    }
    TFOS_TRY(in != NULL ? check_loss(far, in, error) : TFOS_OK);
    TFOS_TRY(flow->sent < flow->to_send ? check_loss(far, out, error) : TFOS_OK);
    int64_t now = tfos__clock_ms();
    if (now - far->looked_ms < SLICE_MS || far->look == NULL) {
        return TFOS_OK;
    }
    far->looked_ms = now;
    TFOS_TRY(tfos__far_listen(far, error));
    const tfos__far_link *awaited = in != NULL ? in : out;
    bool told = awaited->blamed != SIZE_MAX && now - awaited->blamed_ms < BLAME_VALID_MS;
    size_t rank = told ? awaited->blamed : far->options.leaders[awaited->host];
    tfos__far_blame(far, rank);
    return far->look(far->look_context, rank, error);
}

static bool is_done(const tfos__far *far, const tfos__flow *flow)
{
    return flow->come == flow->to_come && flow->sent == flow->to_send &&
           (flow->to_send == 0 || !has_more_to_send(&far->out[flow->out]));
}

tfos_status tfos__far_flow(tfos__far *far, tfos__flow *flow, tfos_error *error)
{
    if (far->failure.status != TFOS_OK) {
        return tfos__fail(error, far->failure.status, "%s", far->failure.message);
    }
    far->looked_ms = tfos__clock_ms();
    for (;;) {
        bool moved = false;
        if (flow->to_send > 0) {
            TFOS_TRY(send_more(far, flow, &moved, error));
        }
        TFOS_TRY(take_more(far, flow, &moved, error));
        if (is_done(far, flow)) {
            tfos__far_blame(far, SIZE_MAX);
            return TFOS_OK;
        }
        if (!moved) {
            TFOS_TRY(wait_for_links(far, flow, error));
        }
    }
}
