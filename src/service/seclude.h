/* What our own long-lived processes do first: they hold what is theirs, and what they hold does not get out. */
#ifndef TFOS_SERVICE_SECLUDE_H
#define TFOS_SERVICE_SECLUDE_H

/* Closes every file but stdin, stdout and stderr: what a driver or an executor had open when it started us would stay
 * open for as long as we live (a port, a lock, the other end of somebody's pipe). A crash leaves no core, which would
 * have the key in it. And as many files can be opened as the system allows: each connection is one. */
void tfos__seclude(void);

/* For a program that we start: it has the limits that it would have without us. */
void tfos__seclude_undo(void);

#endif
