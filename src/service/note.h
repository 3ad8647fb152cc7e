/* Notes of our own processes, a line each, to stderr. */
#ifndef TFOS_SERVICE_NOTE_H
#define TFOS_SERVICE_NOTE_H

/* Writes "tfos: …" and the end of the line to stderr, without ever waiting for whoever reads it: a line that stderr
 * does not take at once is dropped, and one beyond PIPE_BUF is cut. */
void tfos__note(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
