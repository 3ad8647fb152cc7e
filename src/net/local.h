/* Sockets between processes of one machine: SOCK_SEQPACKET, by a name that is abstract. Such a name is no file, goes
 * with the process that has it, and is known in its network namespace alone: who is in another container gets no
 * answer, whatever its host is called. */
#ifndef TFOS_NET_LOCAL_H
#define TFOS_NET_LOCAL_H

#include "tfos.h"

enum { TFOS__LOCAL_NAME_BYTES = 64 };

/* Listens, without blocking, under a name that nobody can guess: `what` and a random number. */
tfos_status tfos__local_listen(const char *what, char name[TFOS__LOCAL_NAME_BYTES], int *out, tfos_error *error);

/* Connects; the socket blocks. -1: nobody has that name here. */
int tfos__local_connect(const char *name);

/* Whether the process at the other end is one of this user's. */
bool tfos__local_is_own(int socket);

#endif
