/* Where an exported model appears: in a folder that is not there, is empty, or is a model, which is replaced. It is
 * made in a hidden folder beside that, and takes its name when it is whole. */
#ifndef TFOS_TENSORFLOW_EXPORT_PLACE_H
#define TFOS_TENSORFLOW_EXPORT_PLACE_H

#include "tfos.h"

/* Whether a model can be written to this folder. What is above it is made if need be. */
tfos_status tfos__export_check(const char *folder, tfos_error *error);

/* Whether none of these files and folders, `what` they are, would be lost with it when it is replaced. They may be
 * NULL, and what is not there yet counts as if it were. */
tfos_status tfos__export_check_apart(const char *folder, const char *what, const char *const *others, size_t count,
                                     tfos_error *error);

/* Whether it is not in the folder that is copied to it. */
tfos_status tfos__export_check_outside(const char *folder, const char *source, tfos_error *error);

/* Makes the hidden folder, whose name is the caller's to free. */
tfos_status tfos__export_place_make(const char *folder, char **made, tfos_error *error);

/* The hidden folder takes the place of what is there, which is removed. Where the file system can do that, a model is
 * there at every moment. */
tfos_status tfos__export_place_take(const char *made, const char *folder, tfos_error *error);

#endif
