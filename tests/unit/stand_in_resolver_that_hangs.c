/* A resolver whose name servers do not answer, for LD_PRELOAD. */
#include <netdb.h>
#include <unistd.h>

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict out)
{
    (void)name;
    (void)service;
    (void)hints;
    (void)out;
    for (;;) {
        pause();
    }
}
