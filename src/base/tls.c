/* TLS 1.3 by OpenSSL over memory BIOs. One cipher suite and one way of authentication, so there is nothing to negotiate
 * down to. OpenSSL is linked in statically and hidden: the process around us may have another one, or BoringSSL. */
#include "base/tls.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/status.h"

static const unsigned char suite[] = {0x13, 0x01}; /* TLS_AES_128_GCM_SHA256 */
static const char identity[] = "tfos";

struct tfos__tls_context {
    SSL_CTX *ssl_context;
    tfos__tls_end end;
    uint8_t secret[32];
};

struct tfos__tls {
    SSL *ssl;
    BIO *in;            /* from the network; belongs to ssl */
    BIO *out;           /* to the network; belongs to ssl */
    tfos__buffer early; /* plain text that waits for the handshake */
    bool ready;
};

tfos_status tfos__key_make(uint8_t key[TFOS__KEY_BYTES], tfos_error *error)
{
    size_t have = 0;
    while (have < TFOS__KEY_BYTES) {
        ssize_t count = getrandom(key + have, TFOS__KEY_BYTES - have, 0);
        if (count < 0 && errno != EINTR) {
            return tfos__fail_errno(error, errno, "cannot get random bytes for the cluster key");
        }
        have += count > 0 ? (size_t)count : 0;
    }
    return TFOS_OK;
}

bool tfos__secret_equal(const void *a, const void *b, size_t count)
{
    return CRYPTO_memcmp(a, b, count) == 0;
}

void tfos__secret_wipe(void *bytes, size_t count)
{
    OPENSSL_cleanse(bytes, count);
}

/* The session that stands for the pre-shared key; NULL when memory is short. */
static SSL_SESSION *make_session(SSL *ssl)
{
    const tfos__tls_context *context = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    const SSL_CIPHER *cipher = SSL_CIPHER_find(ssl, suite);
    SSL_SESSION *session = SSL_SESSION_new();
    if (session == NULL || cipher == NULL ||
        !SSL_SESSION_set1_master_key(session, context->secret, sizeof context->secret) ||
        !SSL_SESSION_set_cipher(session, cipher) || !SSL_SESSION_set_protocol_version(session, TLS1_3_VERSION)) {
        SSL_SESSION_free(session);
        return NULL;
    }
    return session;
}

static int use_session(SSL *ssl, const EVP_MD *digest, const unsigned char **id, size_t *id_bytes, SSL_SESSION **out)
{
    (void)digest;
    *id = (const unsigned char *)identity;
    *id_bytes = sizeof identity - 1;
    *out = make_session(ssl);
    return *out != NULL;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t id_bytes, SSL_SESSION **out)
{
    *out = NULL;
    if (id_bytes == sizeof identity - 1 && memcmp(id, identity, id_bytes) == 0) {
        *out = make_session(ssl);
        return *out != NULL;
    }
    return 1; /* unknown: the handshake fails for want of a certificate */
}

/* What OpenSSL has to say, or "unknown cause". */
static const char *openssl_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    return reason != NULL ? reason : "unknown cause";
}

static tfos_status fail_openssl(tfos_error *error, const char *what)
{
    tfos_status status = tfos__fail(error, TFOS_NO_MEMORY, "%s: %s", what, openssl_reason());
    ERR_clear_error();
    return status;
}

static bool configure(tfos__tls_context *context)
{
    SSL_CTX *ssl_context = context->ssl_context;
    SSL_CTX_set_app_data(ssl_context, context);
    SSL_CTX_set_options(ssl_context, SSL_OP_NO_TICKET | SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    SSL_CTX_set_session_cache_mode(ssl_context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_mode(ssl_context, SSL_MODE_RELEASE_BUFFERS);
    if (context->end == TFOS__TLS_CLIENT) {
        /* Without an authority to trust, no certificate passes: only the key does. A server has none to show. */
        SSL_CTX_set_verify(ssl_context, SSL_VERIFY_PEER, NULL);
        SSL_CTX_set_psk_use_session_callback(ssl_context, use_session);
    } else {
        SSL_CTX_set_psk_find_session_callback(ssl_context, find_session);
    }
    return SSL_CTX_set_min_proto_version(ssl_context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_max_proto_version(ssl_context, TLS1_3_VERSION) == 1 &&
           SSL_CTX_set_ciphersuites(ssl_context, "TLS_AES_128_GCM_SHA256") == 1 &&
           SSL_CTX_set_num_tickets(ssl_context, 0) == 1;
}

tfos_status tfos__key_derive(const uint8_t key[TFOS__KEY_BYTES], const char *purpose, uint8_t out[TFOS__KEY_BYTES],
                             tfos_error *error)
{
    unsigned bytes = TFOS__KEY_BYTES;
    if (HMAC(EVP_sha256(), key, TFOS__KEY_BYTES, (const unsigned char *)purpose, strlen(purpose), out, &bytes) ==
        NULL) {
        return fail_openssl(error, "cannot derive a key");
    }
    return TFOS_OK;
}

tfos_status tfos__tls_context_new(tfos__tls_end end, const uint8_t key[TFOS__KEY_BYTES], const char *purpose,
                                  tfos__tls_context **out, tfos_error *error)
{
    /* No configuration file of the system's OpenSSL, no exit handlers: we are a guest in this process. */
    OPENSSL_init_ssl(OPENSSL_INIT_NO_LOAD_CONFIG | OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    tfos__tls_context *context = calloc(1, sizeof *context);
    if (context == NULL) {
        return tfos__fail_memory(error, sizeof *context);
    }
    context->end = end;
    context->ssl_context = SSL_CTX_new(TLS_method());
    if (context->ssl_context == NULL || !configure(context)) {
        tfos__tls_context_free(context);
        return fail_openssl(error, "cannot set up TLS");
    }
    tfos_status status = tfos__key_derive(key, purpose, context->secret, error);
    if (status != TFOS_OK) {
        tfos__tls_context_free(context);
        return status;
    }
    *out = context;
    return TFOS_OK;
}

void tfos__tls_context_free(tfos__tls_context *context)
{
    if (context != NULL) {
        SSL_CTX_free(context->ssl_context);
        tfos__secret_wipe(context->secret, sizeof context->secret);
        free(context);
    }
}

static bool attach(tfos__tls *tls, const tfos__tls_context *context)
{
    tls->ssl = SSL_new(context->ssl_context);
    BIO *in = BIO_new(BIO_s_mem());
    BIO *out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || in == NULL || out == NULL) {
        BIO_free(in);
        BIO_free(out);
        return false;
    }
    BIO_set_mem_eof_return(in, -1);
    SSL_set_bio(tls->ssl, in, out);
    tls->in = in;
    tls->out = out;
    if (context->end == TFOS__TLS_CLIENT) {
        SSL_set_connect_state(tls->ssl);
    } else {
        SSL_set_accept_state(tls->ssl);
    }
    return true;
}

static tfos_status advance(tfos__tls *tls, tfos_error *error);

tfos_status tfos__tls_new(tfos__tls_context *context, tfos__tls **out, tfos_error *error)
{
    ERR_clear_error();
    tfos__tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL) {
        return tfos__fail_memory(error, sizeof *tls);
    }
    if (!attach(tls, context)) {
        tfos__tls_free(tls);
        return fail_openssl(error, "cannot set up a TLS connection");
    }
    tfos_status status = advance(tls, error);
    if (status != TFOS_OK) {
        tfos__tls_free(tls);
        return status;
    }
    *out = tls;
    return TFOS_OK;
}

void tfos__tls_free(tfos__tls *tls)
{
    if (tls != NULL) {
        SSL_free(tls->ssl);
        tfos__buffer_reset(&tls->early);
        free(tls);
        ERR_clear_error();
    }
}

bool tfos__tls_is_ready(const tfos__tls *tls)
{
    return tls->ready;
}

bool tfos__tls_was_greeted(const tfos__tls *tls)
{
    return SSL_session_reused(tls->ssl) == 1;
}

static tfos_status fail_handshake(tfos_error *error)
{
    tfos_status status =
        tfos__fail(error, TFOS_PERMISSION,
                   "the TLS handshake failed (%s): the other side has another cluster key, or does not speak tfos",
                   openssl_reason());
    ERR_clear_error();
    return status;
}

static tfos_status write_plain(tfos__tls *tls, const void *bytes, size_t count, tfos_error *error)
{
    size_t written = 0;
    if (count > 0 && (SSL_write_ex(tls->ssl, bytes, count, &written) != 1 || written != count)) {
        tfos_status status = tfos__fail(error, TFOS_IO, "cannot encrypt %zu bytes: %s", count, openssl_reason());
        ERR_clear_error();
        return status;
    }
    return TFOS_OK;
}

/* Goes on with the handshake as far as the bytes at hand allow. */
static tfos_status advance(tfos__tls *tls, tfos_error *error)
{
    if (tls->ready) {
        return TFOS_OK;
    }
    int result = SSL_do_handshake(tls->ssl);
    if (result != 1) {
        int reason = SSL_get_error(tls->ssl, result);
        return reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE ? TFOS_OK : fail_handshake(error);
    }
    if (!SSL_session_reused(tls->ssl)) {
        return fail_handshake(error); /* somebody came in without the key */
    }
    tls->ready = true;
    TFOS_TRY(write_plain(tls, tls->early.data, tls->early.size, error));
    tfos__buffer_reset(&tls->early);
    return TFOS_OK;
}

static tfos_status read_plain(tfos__tls *tls, tfos__buffer *plain, tfos_error *error)
{
    enum { STEP_BYTES = 16384 };
    for (;;) {
        size_t count = 0;
        TFOS_TRY(tfos__buffer_reserve(plain, plain->size + STEP_BYTES, error));
        int result = SSL_read_ex(tls->ssl, plain->data + plain->size, STEP_BYTES, &count);
        if (result == 1) {
            plain->size += count;
            continue;
        }
        switch (SSL_get_error(tls->ssl, result)) {
        case SSL_ERROR_WANT_READ:
            return TFOS_OK;
        case SSL_ERROR_ZERO_RETURN:
            return TFOS_END;
        default:
            break;
        }
        tfos_status status = tfos__fail(error, TFOS_CORRUPT, "the TLS connection is broken: %s", openssl_reason());
        ERR_clear_error();
        return status;
    }
}

tfos_status tfos__tls_receive(tfos__tls *tls, const void *bytes, size_t count, tfos__buffer *plain, tfos_error *error)
{
    ERR_clear_error();
    size_t written = 0;
    if (count > 0 && (BIO_write_ex(tls->in, bytes, count, &written) != 1 || written != count)) {
        return fail_openssl(error, "cannot take bytes from the network");
    }
    TFOS_TRY(advance(tls, error));
    return tls->ready ? read_plain(tls, plain, error) : TFOS_OK;
}

tfos_status tfos__tls_send(tfos__tls *tls, const void *bytes, size_t count, tfos_error *error)
{
    ERR_clear_error();
    if (!tls->ready) {
        return tfos__buffer_append(&tls->early, bytes, count, error);
    }
    return write_plain(tls, bytes, count, error);
}

void tfos__tls_close(tfos__tls *tls)
{
    if (tls->ready) {
        SSL_shutdown(tls->ssl);
        ERR_clear_error();
    }
}

void tfos__tls_shrink(tfos__tls *tls)
{
    BIO *out = BIO_ctrl_pending(tls->out) == 0 ? BIO_new(BIO_s_mem()) : NULL;
    if (out != NULL) {
        SSL_set0_wbio(tls->ssl, out); /* which frees the one before */
        tls->out = out;
    }
}

tfos_status tfos__tls_take(tfos__tls *tls, tfos__buffer *out, tfos_error *error)
{
    size_t pending = BIO_ctrl_pending(tls->out);
    size_t count = 0;
    if (pending == 0) {
        return TFOS_OK;
    }
    TFOS_TRY(tfos__buffer_reserve(out, out->size + pending, error));
    if (BIO_read_ex(tls->out, out->data + out->size, pending, &count) != 1) {
        return fail_openssl(error, "cannot take bytes for the network");
    }
    out->size += count;
    return TFOS_OK;
}
