/* The rows of files that go through a model: what is read of them, and what is written.
 *
 *   a file            read                      model              written
 *   id, image, …  ──► image float[784], id  ──► prediction  ──►  id, prediction float[10]
 */
#ifndef TFOS_INFERENCE_ROWS_H
#define TFOS_INFERENCE_ROWS_H

#include "tensorflow/binding.h"

typedef struct tfos__inference_rows {
    tfos_schema *read; /* columns that are fed, and those that are kept */
    tfos__binding *binding;
    tfos_schema *written; /* columns that are kept, and behind them results */
    size_t *kept;         /* their places in `read` */
    size_t kept_count;
} tfos__inference_rows;

typedef struct tfos__inference_wish {
    const char *order; /* as tensorflow/binding.h says */
    const char *const *kept;
    size_t kept_count;
    bool text; /* strings of the model are texts, as files of text have them, and not bytes */
} tfos__inference_wish;

/* What becomes of rows with the columns of `data`. Names, types and shapes that do not fit are MISMATCH, with what the
 * signature wants and what the rows have. The model must live as long. */
tfos_status tfos__inference_rows_new(const tfos__saved_model *model, const tfos__inference_wish *wish,
                                     const tfos_schema *data, tfos__inference_rows **out, tfos_error *error);
void tfos__inference_rows_free(tfos__inference_rows *rows);

/* The batch that is written, of one that was read and its results. ENCODING: a text is none. The caller gives *out up
 * with tfos_batch_free. */
tfos_status tfos__inference_rows_join(const tfos__inference_rows *rows, const tfos_batch *read, tfos_batch *results,
                                      tfos_batch **out, tfos_error *error);

#endif
