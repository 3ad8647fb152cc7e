/* Columns as the tensors of inputs.
 *
 * A row of a tensor has the same number of values as every other. Lists of a column need not: shorter ones are filled
 * up with zeros, or empty strings, at their end, where the signature leaves the size open; otherwise they are refused.
 *
 *   column     levels                              dense tensor
 *   scalar     VALUES or BYTES                     [rows]
 *   list       (FIXED_)LIST → VALUES or BYTES      [rows, longest]
 *   lists      LIST → (FIXED_)LIST → …             [rows, most lists, longest]
 *
 * and the sizes of the signature are put in the place of those behind the rows. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "column/vector.h"
#include "tensorflow/model.h"

enum { RANK_MOST = 254, OUTER = 0, INNER = 1 };

/* What is known of a column before its tensor is made. */
typedef struct layout {
    const tfos_vector *level[2]; /* the lists of a row, and those inside of them; NULL: there are none */
    const tfos_vector *values;
    bool bytes_are_values; /* the bytes of each binary are numbers */
    int64_t longest[2];    /* of the lists of each level; 1 where there are none */
    bool even[2];          /* all of them are as long */
    int64_t dims[RANK_MOST];
    int rank;
    size_t width; /* bytes of a value in the tensor */
} layout;

static tfos_status refuse_nulls(const tfos_vector *level, tfos_error *error)
{
    for (int64_t row = 0; level->null_count > 0 && row < level->length; row++) {
        if (tfos__vector_is_null(level, row)) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "row %lld of the batch has no value, and a tensor has a value for each row; fill it in "
                              "before (DataFrame.fillna)",
                              (long long)row);
        }
    }
    return TFOS_OK;
}

/* ---- lists ---- */

static int64_t begin_of(const tfos_vector *lists, int64_t row)
{
    return lists->layout == TFOS_LAYOUT_FIXED_LIST ? row * lists->list_length : lists->offsets[row];
}

static int64_t length_of(const tfos_vector *lists, int64_t row)
{
    return begin_of(lists, row + 1) - begin_of(lists, row);
}

static void look_at_lists(layout *self, int which)
{
    const tfos_vector *lists = self->level[which];
    if (lists == NULL) {
        self->longest[which] = 1;
        self->even[which] = true;
        return;
    }
    int64_t longest = 0;
    int64_t shortest = INT64_MAX;
    for (int64_t row = 0; row < lists->length; row++) {
        int64_t length = length_of(lists, row);
        longest = length > longest ? length : longest;
        shortest = length < shortest ? length : shortest;
    }
    self->longest[which] = longest;
    self->even[which] = shortest == longest || lists->length == 0;
}

static bool is_even(const layout *self)
{
    return self->even[OUTER] && self->even[INNER];
}

static tfos_status look_at_levels(layout *self, const tfos_vector *column, const tfos__tensor_spec *spec,
                                  tfos_error *error)
{
    const tfos_vector *level = column;
    size_t lists = 0;
    for (; level->child != NULL; level = level->child) {
        TFOS_TRY(refuse_nulls(level, error));
        assert(lists < 2);
        self->level[lists++] = level;
    }
    TFOS_TRY(refuse_nulls(level, error));
    self->values = level;
    self->bytes_are_values = level->layout == TFOS_LAYOUT_BYTES && spec->dtype == TFOS__DTYPE_UINT8;
    if (self->bytes_are_values) {
        assert(lists == 0); /* the binding has seen to it */
        self->level[OUTER] = level;
    }
    look_at_lists(self, OUTER);
    look_at_lists(self, INNER);
    return TFOS_OK;
}

/* ---- sizes ---- */

static tfos_status fail_size(int64_t want, int64_t have, const char *what, tfos_error *error)
{
    return tfos__fail(error, TFOS_MISMATCH, "expected %s%lld values a row, found %lld", what, (long long)want,
                      (long long)have);
}

/* The first row whose list has not so many values. */
static tfos_status fail_uneven(const layout *self, int64_t want, tfos_error *error)
{
    const tfos_vector *lists = self->level[OUTER];
    int64_t row = 0;
    while (row + 1 < lists->length && length_of(lists, row) == want) {
        row++;
    }
    return tfos__fail(error, TFOS_MISMATCH, "row %lld of the batch: expected %lld values, found %lld", (long long)row,
                      (long long)want, (long long)length_of(lists, row));
}

/* Each row must have whole elements of its own, whatever the rows beside it are filled up to. */
static tfos_status refuse_parts(const layout *self, int64_t multiple, tfos_error *error)
{
    const tfos_vector *lists = self->level[OUTER];
    for (int64_t row = 0; multiple > 1 && row < lists->length; row++) {
        int64_t have = length_of(lists, row);
        if (have % multiple != 0) {
            return tfos__fail(error, TFOS_MISMATCH,
                              "row %lld of the batch: expected a multiple of %lld values, found %lld", (long long)row,
                              (long long)multiple, (long long)have);
        }
    }
    return TFOS_OK;
}

static int64_t count_rows(const layout *self)
{
    return self->level[OUTER] != NULL ? self->level[OUTER]->length : self->values->length;
}

/* One list a row: its values fill the sizes behind the rows, of which one may be open. */
static tfos_status fit_list(layout *self, const tfos__tensor_spec *spec, tfos_error *error)
{
    int64_t known = 1;
    int open = 0;
    for (int i = 1; i < spec->rank; i++) {
        self->dims[i] = spec->shape[i];
        known *= spec->shape[i] >= 0 ? spec->shape[i] : 1;
        open = spec->shape[i] < 0 ? i : open;
    }
    int64_t have = self->longest[OUTER];
    if (open == 0 && (have != known || !self->even[OUTER]) && count_rows(self) > 0) { /* lists may all be empty */
        return self->even[OUTER] ? fail_size(known, have, "", error) : fail_uneven(self, known, error);
    }
    if (open == 0) {
        self->longest[OUTER] = known;
        return TFOS_OK;
    }
    if (known == 0 || have % known != 0) {
        return fail_size(known, have, "a multiple of ", error);
    }
    if (!self->even[OUTER] &&
        open > 1) { /* what is filled up at the end of a list must be the end of an outermost size */
        return fail_uneven(self, have, error);
    }
    self->dims[open] = have / known;
    return self->even[OUTER] ? TFOS_OK : refuse_parts(self, known, error);
}

/* A list of lists: three dimensions, each open or as large as what is found. */
static tfos_status fit_lists(layout *self, const tfos__tensor_spec *spec, tfos_error *error)
{
    for (int i = 1; i < 3; i++) {
        int which = i == 1 ? OUTER : INNER;
        int64_t have = self->longest[which];
        int64_t want = spec->rank == 3 ? spec->shape[i] : -1;
        if (want >= 0 && (have != want || !self->even[which]) && self->level[which]->length > 0) {
            return tfos__fail(error, TFOS_MISMATCH, "expected lists of %lld, found lists of up to %lld",
                              (long long)want, (long long)have);
        }
        self->dims[i] = self->longest[which] = want >= 0 ? want : have;
    }
    self->rank = 3;
    return TFOS_OK;
}

static tfos_status fit(layout *self, const tfos__tensor_spec *spec, int64_t rows, tfos_error *error)
{
    self->dims[0] = rows;
    self->rank = spec->rank;
    if (self->level[INNER] != NULL) {
        return fit_lists(self, spec, error);
    }
    if (spec->rank >= 0) {
        return fit_list(self, spec, error);
    }
    self->rank = self->level[OUTER] != NULL ? 2 : 1;
    self->dims[1] = self->longest[OUTER];
    return TFOS_OK;
}

/* ---- memory ---- */

/* What a tensor has that is not TensorFlow's. */
typedef struct owned {
    const tfos__tensorflow *tf;
    void *memory;   /* NULL: it is the batch's */
    size_t strings; /* in the memory, which have memory of their own */
    tfos_batch *batch;
} owned;

static void release(const owned *self)
{
    for (size_t i = 0; i < self->strings; i++) {
        self->tf->TF_StringDealloc((TF_TString *)self->memory + i);
    }
    free(self->memory);
    tfos_batch_free(self->batch);
}

static void give_up(void *data, size_t bytes, void *context)
{
    (void)data;
    (void)bytes;
    release(context);
    free(context);
}

/* Takes over what is owned, whatever the result. */
static tfos_status make_tensor(const layout *self, tfos__dtype dtype, void *data, size_t bytes, owned what,
                               TF_Tensor **out, tfos_error *error)
{
    owned *kept = malloc(sizeof *kept);
    if (kept == NULL) {
        release(&what);
        return tfos__fail_memory(error, sizeof *kept);
    }
    *kept = what;
    *out = what.tf->TF_NewTensor((int)dtype, self->dims, self->rank, data, bytes, give_up, kept);
    /* Where it makes none, it has given the memory up already. */
    return *out != NULL ? TFOS_OK : tfos__fail(error, TFOS_NO_MEMORY, "TensorFlow made no tensor of %zu bytes", bytes);
}

/* The row that a value is of. */
static int64_t row_of(const layout *self, int64_t value)
{
    for (int which = INNER; which >= OUTER; which--) {
        const tfos_vector *lists = self->level[which];
        int64_t list = 0;
        while (lists != NULL && list + 1 < lists->length && begin_of(lists, list + 1) <= value) {
            list++;
        }
        value = lists != NULL ? list : value;
    }
    return value;
}

/* Puts the row in front of what is wrong with one of its numbers: the first that fails alone, too. */
static void locate_value(const layout *self, tfos__dtype dtype, tfos_error *error)
{
    size_t width = (size_t)tfos__type_width(self->values->type);
    for (int64_t i = 0; i < self->values->length; i++) {
        uint64_t written;
        tfos_vector one = *self->values;
        one.data = (const uint8_t *)one.data + (size_t)i * width;
        one.length = 1;
        if (tfos__dtype_write(dtype, &one, &written, NULL) != TFOS_OK) {
            tfos__error_prefix(error, "row %lld of the batch", (long long)row_of(self, i));
            return;
        }
    }
}

static tfos_status write_numbers(const layout *self, tfos__dtype dtype, void *to, tfos_error *error)
{
    tfos_status status = tfos__dtype_write(dtype, self->values, to, error);
    if (status == TFOS_RANGE) { /* of booleans, which are bits, all fit */
        locate_value(self, dtype, error);
    }
    return status;
}

/* The values of all rows, one behind the other, as they are in a tensor. Strings are copied: a view of the batch's
 * memory would stay one in whatever the model keeps, a table say. */
static tfos_status write_values(const tfos__tensorflow *tf, const layout *self, tfos__dtype dtype, void *to,
                                tfos_error *error)
{
    const tfos_vector *values = self->values;
    if (self->bytes_are_values) {
        memcpy(to, values->data, (size_t)values->offsets[values->length]);
        return TFOS_OK;
    }
    if (dtype != TFOS__DTYPE_STRING) {
        return write_numbers(self, dtype, to, error);
    }
    for (int64_t i = 0; i < values->length; i++) {
        const char *bytes = (const char *)values->data + values->offsets[i];
        tf->TF_StringCopy((TF_TString *)to + i, bytes, (size_t)(values->offsets[i + 1] - values->offsets[i]));
    }
    return TFOS_OK;
}

static int64_t count_of(const layout *self)
{
    return self->bytes_are_values ? self->values->offsets[self->values->length] : self->values->length;
}

/* Puts the lists of each row at their place; what is between them is zero already, which an empty string is, too. */
static void spread(const layout *self, int64_t rows, const uint8_t *from, uint8_t *to)
{
    size_t width = self->width;
    int64_t inner = self->longest[INNER];
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *at = to + (size_t)(row * self->longest[OUTER] * inner) * width;
        int64_t first = begin_of(self->level[OUTER], row);
        int64_t count = length_of(self->level[OUTER], row);
        if (self->level[INNER] == NULL) {
            memcpy(at, from + (size_t)first * width, (size_t)count * width);
            continue;
        }
        for (int64_t list = first; list < first + count; list++, at += (size_t)inner * width) {
            memcpy(at, from + (size_t)begin_of(self->level[INNER], list) * width,
                   (size_t)length_of(self->level[INNER], list) * width);
        }
    }
}

static tfos_status write_uneven(const tfos__tensorflow *tf, const layout *self, tfos__dtype dtype, int64_t rows,
                                uint8_t *to, tfos_error *error)
{
    size_t bytes = (size_t)count_of(self) * self->width;
    uint8_t *values = calloc(1, bytes > 0 ? bytes : 1);
    if (values == NULL) {
        return tfos__fail_memory(error, bytes);
    }
    tfos_status status = write_values(tf, self, dtype, values, error);
    if (status == TFOS_OK) {
        spread(self, rows, values, to);
    }
    free(values);
    return status;
}

/* The last row again, until there are as many as the model wants. */
static void repeat_last(const tfos__tensorflow *tf, const layout *self, tfos__dtype dtype, int64_t rows,
                        uint8_t *memory, size_t row_bytes)
{
    const uint8_t *last = memory + (size_t)(rows - 1) * row_bytes;
    for (int64_t row = rows; row < self->dims[0]; row++) {
        uint8_t *to = memory + (size_t)row * row_bytes;
        if (dtype != TFOS__DTYPE_STRING) {
            memcpy(to, last, row_bytes);
            continue;
        }
        for (size_t i = 0; i < row_bytes / sizeof(TF_TString); i++) {
            const TF_TString *from = (const TF_TString *)(const void *)last + i;
            tf->TF_StringCopy((TF_TString *)(void *)to + i, tf->TF_StringGetDataPointer(from),
                              tf->TF_StringGetSize(from));
        }
    }
}

/* A tensor in memory of its own: converted, filled up, or with rows added. */
static tfos_status make_own(const tfos__tensorflow *tf, const layout *self, tfos__dtype dtype, tfos_batch *batch,
                            TF_Tensor **out, tfos_error *error)
{
    int64_t rows = tfos_batch_rows(batch);
    int64_t all = 1;
    for (int i = 0; i < self->rank; i++) {
        if (__builtin_mul_overflow(all, self->dims[i], &all)) {
            return tfos__fail(error, TFOS_LIMIT,
                              "a tensor of the rows of a batch would be too large: lower batch_size");
        }
    }
    size_t bytes = (size_t)all * self->width;
    size_t row_bytes = self->dims[0] > 0 ? bytes / (size_t)self->dims[0] : 0;
    void *memory = NULL;
    if (all > INT64_MAX / 32 || posix_memalign(&memory, TFOS__BUFFER_ALIGN, bytes > 0 ? bytes : 1) != 0) {
        return tfos__fail_memory(error, bytes);
    }
    memset(memory, 0, bytes);
    tfos_status status = is_even(self) ? write_values(tf, self, dtype, memory, error)
                                       : write_uneven(tf, self, dtype, rows, memory, error);
    if (status == TFOS_OK && rows > 0) {
        repeat_last(tf, self, dtype, rows, memory, row_bytes);
    }
    if (status != TFOS_OK) {
        free(memory);
        return status;
    }
    owned what = {.tf = tf, .memory = memory, .strings = dtype == TFOS__DTYPE_STRING ? (size_t)all : 0};
    return make_tensor(self, dtype, memory, bytes, what, out, error);
}

tfos_status tfos__model_tensor_of(const tfos__tensorflow *tf, const tfos__bound *input, tfos_batch *batch, int64_t rows,
                                  TF_Tensor **out, tfos_error *error)
{
    const tfos__tensor_spec *spec = input->spec;
    tfos__dtype_form form = tfos__dtype_form_of(spec->dtype);
    layout self = {.width = form.width > 0 ? form.width : sizeof(TF_TString)};
    TFOS_TRY(look_at_levels(&self, tfos_batch_column(batch, input->index), spec, error));
    TFOS_TRY(fit(&self, spec, rows, error));
    bool shared = form.same && self.values->type == form.type && is_even(&self) && rows == tfos_batch_rows(batch) &&
                  self.values->length > 0;
    if (!shared) {
        return make_own(tf, &self, spec->dtype, batch, out, error);
    }
    union {
        const void *from;
        void *to;
    } memory = {.from = self.values->data}; /* TensorFlow does not write to it: it does not own it */
    const owned what = {.tf = tf, .batch = tfos_batch_retain(batch)};
    return make_tensor(&self, spec->dtype, memory.to, (size_t)self.values->length * form.width, what, out, error);
}
