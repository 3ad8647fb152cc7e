/* CSV: what is read, what is inferred, what is refused, what is written. */
#include <locale.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <time.h>

#include <cmocka.h>

#include "helper_text.h"
#include "record/csv.h"
#include "record/json_lines.h"
#include "record/number.h"

static const char *const all_columns = NULL;

/* Everything that a read can be told to do. */
typedef struct reading {
    tfos__csv_options options;
    const char *schema;  /* JSON, or NULL: inferred */
    const char *columns; /* the one column that is wanted, or NULL: all */
    size_t step;
    tfos_schema *used; /* the schema that was used, once read */
    tfos_error error;
} reading;

static reading start(void)
{
    reading self = {.columns = all_columns, .step = 1 << 20};
    tfos__csv_options_init(&self.options);
    return self;
}

static tfos_status find_schema(reading *self, const char *text, size_t count)
{
    if (self->schema != NULL) {
        return tfos_schema_from_json(self->schema, strlen(self->schema), &self->used, &self->error);
    }
    helper_text source;
    tfos__csv_survey *survey = NULL;
    helper_text_open(&source, text, count, self->step);
    tfos_status status = tfos__csv_survey_new(&self->options, &survey, &self->error);
    if (status == TFOS_OK) {
        status = tfos__csv_survey_add(survey, &source.text, &self->error);
    }
    if (status == TFOS_OK) {
        status = tfos__csv_survey_schema(survey, &self->used, &self->error);
    }
    tfos__csv_survey_free(survey);
    helper_text_close(&source);
    return status;
}

static tfos_status read_rows(reading *self, tfos__text *text, tfos__buffer *rows)
{
    tfos_schema *chosen = NULL;
    if (self->columns != NULL) {
        assert_int_equal(tfos_schema_select(self->used, &self->columns, 1, &chosen, &self->error), TFOS_OK);
    }
    tfos__csv_reader *reader = NULL;
    tfos_status status = tfos__csv_reader_open(&self->options, self->used, chosen != NULL ? chosen : self->used, text,
                                               &reader, &self->error);
    while (status == TFOS_OK) {
        tfos_batch *batch;
        status = tfos__csv_reader_next(reader, &batch, &self->error);
        if (status == TFOS_OK) {
            assert_true(tfos_batch_rows(batch) > 0);
            assert_true(tfos_batch_rows(batch) <= self->options.batch_rows);
            helper_show_batch(batch, rows);
            tfos_batch_free(batch);
        } else if (status != TFOS_END) {
            /* Every further call gives the same error. */
            tfos_error again;
            assert_int_equal(tfos__csv_reader_next(reader, &batch, &again), status);
            assert_string_equal(again.message, self->error.message);
        }
    }
    tfos__csv_reader_close(reader);
    tfos_schema_free(chosen);
    return status;
}

/* Reads `text`; the rows are in *out as JSON lines. */
static tfos_status read_text(reading *self, const char *text, size_t count, char **out)
{
    tfos__buffer rows = {0};
    helper_text source;
    tfos_status status = find_schema(self, text, count);
    helper_text_open(&source, text, count, self->step);
    if (status == TFOS_OK) {
        status = read_rows(self, &source.text, &rows);
    }
    helper_text_close(&source);
    *out = helper_string(&rows);
    tfos__buffer_reset(&rows);
    return status;
}

static void finish(reading *self)
{
    tfos_schema_free(self->used);
    self->used = NULL;
}

/* Reads `text` in steps of every size that can matter, and compares schema and rows. */
static void expect_read(reading self, const char *text, const char *schema, const char *rows)
{
    static const size_t steps[] = {1, 2, 3, 7, 1 << 20};
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        char *found;
        self.step = steps[i];
        tfos_status status = read_text(&self, text, strlen(text), &found);
        if (status != TFOS_END) {
            fail_msg("step %zu: %s", steps[i], self.error.message);
        }
        char *types = helper_show_schema(self.used);
        assert_string_equal(types, schema);
        assert_string_equal(found, rows);
        free(types);
        free(found);
        finish(&self);
    }
}

static void expect_failure(reading self, const char *text, tfos_status expected, const char *message)
{
    char *found;
    tfos_status status = read_text(&self, text, strlen(text), &found);
    if (status == TFOS_END) {
        fail_msg("was read as\n%s", found);
    }
    assert_string_equal(tfos_status_name(status), tfos_status_name(expected));
    assert_int_equal(self.error.status, expected);
    if (strstr(self.error.message, message) == NULL) {
        fail_msg("expected '%s' in '%s'", message, self.error.message);
    }
    free(found);
    finish(&self);
}

/* ---- reading ---- */

static void reads_types(void **state)
{
    (void)state;
    expect_read(start(), "id,price,name\n1,2.5,ann\n-2,3,bob\n", "id int64, price float, name string",
                "{\"id\": 1, \"price\": 2.5, \"name\": \"ann\"}\n{\"id\": -2, \"price\": 3.0, \"name\": \"bob\"}\n");
}

static void reads_quotes(void **state)
{
    (void)state;
    expect_read(start(), "a,\"b,c\"\n\"x \"\"y\"\"\",\"1\n2\"\nplain \"q\",\"\"\n", "a string, b,c string",
                "{\"a\": \"x \\\"y\\\"\", \"b,c\": \"1\\n2\"}\n{\"a\": \"plain \\\"q\\\"\", \"b,c\": \"\"}\n");
    expect_read(start(), "n,m\n\"1\",\"2.5\"\n\"3\",4\n", "n int64, m float",
                "{\"n\": 1, \"m\": 2.5}\n{\"n\": 3, \"m\": 4.0}\n");
}

static void reads_line_ends(void **state)
{
    (void)state;
    const char *rows = "{\"a\": 1, \"b\": \"x\"}\n{\"a\": 2, \"b\": \"y\"}\n";
    expect_read(start(), "a,b\r\n1,x\r\n2,y\r\n", "a int64, b string", rows);
    expect_read(start(), "a,b\n1,x\n2,y", "a int64, b string", rows);
    expect_read(start(), "\n\na,b\n\n1,x\r\n\r\n2,\"y\"\r\n\n", "a int64, b string", rows);
    expect_read(start(),
                "\xEF\xBB\xBF"
                "a,b\n1,x\n2,\"y\"",
                "a int64, b string", rows);
}

static void reads_missing_values(void **state)
{
    (void)state;
    expect_read(start(), "a,b,c\n1,,\n,x,2.5\n", "a int64 nullable, b string nullable, c float nullable",
                "{\"a\": 1, \"b\": null, \"c\": null}\n{\"a\": null, \"b\": \"x\", \"c\": 2.5}\n");
    expect_read(start(), "a,b\n1,\n2,\n", "a int64, b string nullable",
                "{\"a\": 1, \"b\": null}\n{\"a\": 2, \"b\": null}\n");
    expect_read(start(), "a,b\n", "a string, b string", "");
}

static void reads_without_header(void **state)
{
    (void)state;
    reading self = start();
    self.options.header = false;
    self.options.delimiter = '\t';
    expect_read(self, "1\t2,5\n3\t4\n", "c0 int64, c1 string",
                "{\"c0\": 1, \"c1\": \"2,5\"}\n{\"c0\": 3, \"c1\": \"4\"}\n");
    self.options.delimiter = ';';
    self.options.label = TFOS__CSV_LABEL_FIRST;
    expect_read(self, "1;2\n3;4\n", "label int64, c1 int64", "{\"label\": 1, \"c1\": 2}\n{\"label\": 3, \"c1\": 4}\n");
}

static void folds_columns(void **state)
{
    (void)state;
    tfos__csv_fold folds[] = {{.name = "tail", .start = 3, .end = 5}, {.name = "image", .start = 0, .end = 3}};
    reading self = start();
    self.options.header = false;
    self.options.folds = folds;
    self.options.fold_count = 2;
    self.options.label = TFOS__CSV_LABEL_LAST;
    self.options.label_name = "digit";
    expect_read(self, "1,2,3,4,5.5,7\n9,8,7,6,5,4\n", "image int64[3], tail float[2], digit int64",
                "{\"image\": [1, 2, 3], \"tail\": [4.0, 5.5], \"digit\": 7}\n"
                "{\"image\": [9, 8, 7], \"tail\": [6.0, 5.0], \"digit\": 4}\n");
    self.options.fold_count = 1;
    expect_read(self, "1,2,3,a,b,7\n1,2,3,,,8\n", "c0 int64, c1 int64, c2 int64, tail string[2] nullable, digit int64",
                "{\"c0\": 1, \"c1\": 2, \"c2\": 3, \"tail\": [\"a\", \"b\"], \"digit\": 7}\n"
                "{\"c0\": 1, \"c1\": 2, \"c2\": 3, \"tail\": null, \"digit\": 8}\n");
    expect_failure(self, "1,2,3,1,2,7\n1,2,3,,4,8\n", TFOS_MISMATCH, "1 of the 2 fields of this list are empty");
    expect_failure(self, "1,2,3,4\n", TFOS_MISMATCH, "the fold tail=3:5 needs 5 columns, found 4");
    expect_failure(self, "1,2,3,4,5\n", TFOS_INVALID, "takes in the label, which is column 4");
}

static void folds_columns_by_name(void **state)
{
    (void)state;
    tfos__csv_fold folds[] = {{.name = "image", .first = "p0", .last = "p2"},
                              {.name = "one", .first = "x", .last = "x"}};
    reading self = start();
    self.options.folds = folds;
    self.options.fold_count = 2;
    expect_read(self, "id,p0,p1,p2,x,y\n1,2,3,4,5,6\n", "id int64, image int64[3], one int64[1], y int64",
                "{\"id\": 1, \"image\": [2, 3, 4], \"one\": [5], \"y\": 6}\n");
    /* Where the columns stand does not matter. */
    expect_read(self, "x,p0,\"p1\",p2\n5,2,3,4\n", "one int64[1], image int64[3]",
                "{\"one\": [5], \"image\": [2, 3, 4]}\n");
    expect_failure(self, "p0,p1,x\n1,2,3\n", TFOS_MISMATCH, "the fold image=p0:p2: the header has no column 'p2'");
    expect_failure(self, "p2,p1,p0,x\n1,2,3,4\n", TFOS_MISMATCH, "begins behind its end");
    expect_failure(self, "p0,p2,p0,x\n1,2,3,4\n", TFOS_MISMATCH, "the columns 0 and 2 are both named 'p0'");
    expect_failure(self, "p0,x,p2\n1,2,3\n", TFOS_INVALID, "the folds image=p0:p2 and one=x:x overlap in column 1");
    self.options.fold_count = 1;
    self.options.label = TFOS__CSV_LABEL_LAST;
    expect_read(self, "p0,p2,x\n1,2,3\n", "image int64[2], label int64", "{\"image\": [1, 2], \"label\": 3}\n");
    expect_failure(self, "p0,p2\n1,2\n", TFOS_MISMATCH, "the header has no column 'p2'"); /* it is called label */
    self.options.header = false;
    expect_failure(self, "1,2\n", TFOS_INVALID, "the fold image=p0:p2 names columns, but there is no header");
}

static void refuses_options(void **state)
{
    (void)state;
    tfos__csv_fold overlap[] = {{.name = "a", .start = 0, .end = 3}, {.name = "b", .start = 2, .end = 4}};
    tfos__csv_fold empty[] = {{.name = "a", .start = 3, .end = 3}};
    reading self = start();
    self.options.folds = overlap;
    self.options.fold_count = 2;
    expect_failure(self, "x\n", TFOS_INVALID, "overlap");
    self.options.folds = empty;
    self.options.fold_count = 1;
    expect_failure(self, "x\n", TFOS_INVALID, "START < END");
    for (const char *bad = "\"\n\r.-+5e\x80"; *bad != '\0'; bad++) {
        self = start();
        self.options.delimiter = *bad;
        expect_failure(self, "x\n", TFOS_INVALID, "the delimiter");
    }
}

static void infers_carefully(void **state)
{
    (void)state;
    /* An integer that int64 cannot hold stays text, unless the column is real anyway. */
    expect_read(start(), "a\n9223372036854775807\n-9223372036854775808\n", "a int64",
                "{\"a\": 9223372036854775807}\n{\"a\": -9223372036854775808}\n");
    expect_read(start(), "a\n9223372036854775808\n1\n", "a string",
                "{\"a\": \"9223372036854775808\"}\n{\"a\": \"1\"}\n");
    expect_read(start(), "a\n9223372036854775808\n1e3\n", "a float", "{\"a\": 9.223372e+18}\n{\"a\": 1000.0}\n");
    expect_read(start(), "a\nNaN\n-inf\n1\n", "a float", "{\"a\": \"NaN\"}\n{\"a\": \"-Infinity\"}\n{\"a\": 1.0}\n");
    expect_read(start(), "a\n0x10\n", "a string", "{\"a\": \"0x10\"}\n");
    expect_read(start(), "a\n 7 \n+8\n", "a int64", "{\"a\": 7}\n{\"a\": 8}\n");
    expect_read(start(), "a,b\n1,2\n3,x\n", "a int64, b string",
                "{\"a\": 1, \"b\": \"2\"}\n{\"a\": 3, \"b\": \"x\"}\n");
}

static void reads_with_schema(void **state)
{
    (void)state;
    reading self = start();
    self.schema = "{\"fields\": [{\"name\": \"c\", \"type\": \"bool\", \"nullable\": true}, {\"name\": \"a\", "
                  "\"type\": \"double\"},"
                  "{\"name\": \"b\", \"type\": \"binary\"}, {\"name\": \"l\", \"type\": \"int32\", \"shape\": [2]}]}";
    /* By name: in any order, other columns ignored, a list found by the names it is written with. */
    expect_read(self, "other,b,a,c,l_0,l_1\nx,AAEC,1.5,TRUE,1,2\ny,\"\",2,,3,4\nz,/w==,1e300,0,5,6\n",
                "c bool nullable, a double, b binary, l int32[2]",
                "{\"c\": true, \"a\": 1.5, \"b\": \"AAEC\", \"l\": [1, 2]}\n"
                "{\"c\": null, \"a\": 2.0, \"b\": \"\", \"l\": [3, 4]}\n"
                "{\"c\": false, \"a\": 1e+300, \"b\": \"/w==\", \"l\": [5, 6]}\n");
    /* By position: a list takes as many columns as it is long. */
    self.options.header = false;
    expect_read(self, "1,2,AA==,3,4\n", "c bool nullable, a double, b binary, l int32[2]",
                "{\"c\": true, \"a\": 2.0, \"b\": \"AA==\", \"l\": [3, 4]}\n");
    expect_failure(self, "1,2,AA==,3,4,5\n", TFOS_MISMATCH, "the schema describes 5 columns, the file has 6");
    expect_failure(self, "1,2,AA==\n", TFOS_MISMATCH, "the schema has the column 'l'");
    self.columns = "l";
    char *found;
    assert_int_equal(read_text(&self, "1,2,AA==,3,4\n", 13, &found), TFOS_END);
    assert_string_equal(found, "{\"l\": [3, 4]}\n");
    free(found);
    finish(&self);
}

static void finds_each_field_once(void **state)
{
    (void)state;
    reading self = start();
    self.schema = "{\"fields\": [{\"name\": \"x\", \"type\": \"int64\", \"shape\": [2]},"
                  "{\"name\": \"x_0\", \"type\": \"int64\"}]}";
    expect_failure(self, "x_0,x_1\n1,2\n", TFOS_MISMATCH, "in: column 0 ('x_0') would be part of both 'x' and 'x_0'");
    self.columns = "x";
    expect_read(self, "x_0,x_1\n1,2\n", "x int64[2], x_0 int64", "{\"x\": [1, 2]}\n");
    self = start();
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"int64\"}]}";
    expect_failure(self, "n,m,n\n1,2,3\n", TFOS_MISMATCH, "in: the columns 0 and 2 are both 'n'");
    expect_read(self, "m,n,m\n1,2,3\n", "n int64", "{\"n\": 2}\n");
    self.schema = "{\"fields\": [{\"name\": \"l\", \"type\": \"int64\", \"shape\": [2]}]}";
    expect_failure(self, "l_0,l_1,l_0,l_1\n1,2,3,4\n", TFOS_MISMATCH, "in: the columns 0 and 2 are both 'l'");
    expect_read(self, "a,l_0,l_1,b\n1,2,3,4\n", "l int64[2]", "{\"l\": [2, 3]}\n");
}

/* What a wide file costs grows with its columns, not with their square. */
static void matches_many_columns(void **state)
{
    (void)state;
    enum { COLUMNS = 60000 };
    tfos__buffer text = {0};
    for (int i = 0; i < 2 * COLUMNS; i++) {
        const char *end = i % COLUMNS == COLUMNS - 1 ? "\n" : ",";
        assert_int_equal(i < COLUMNS ? tfos__buffer_printf(&text, NULL, "column_%d%s", i, end)
                                     : tfos__buffer_printf(&text, NULL, "%d%s", i % 10, end),
                         TFOS_OK);
    }
    reading self = start();
    char *rows;
    clock_t before = clock();
    assert_int_equal(read_text(&self, (const char *)text.data, text.size, &rows), TFOS_END);
    assert_true((double)(clock() - before) / CLOCKS_PER_SEC < 5);
    assert_non_null(strstr(rows, "\"column_59999\": 9}\n"));
    free(rows);
    finish(&self);
    tfos__buffer_reset(&text);
}

static void refuses_rows(void **state)
{
    (void)state;
    reading self = start();
    expect_failure(self, "a,b\n1,2\n3\n", TFOS_MISMATCH, "in: line 3: expected 2 columns, found 1");
    expect_failure(self, "a,b\n1,2\n3,4,5,6\n", TFOS_MISMATCH, "in: line 3: expected 2 columns, found 4");
    expect_failure(self, "a,b\n\"1\n\n2\",2\n3,4\n\"x\"y,1\n", TFOS_CORRUPT, "in: line 6: expected a delimiter");
    expect_failure(self, "a,b\n1,2\n1,\"2\n3\n", TFOS_CORRUPT, "in: line 3: a quoted field begins");
    expect_failure(self, "a,a\n1,2\n", TFOS_INVALID, "twice");
    expect_failure(self, "", TFOS_INVALID, "has no header");
    expect_failure(self, "a\n\xFF\n", TFOS_ENCODING, "in: line 2, column 0 ('a'): invalid UTF-8");
    expect_failure(self, "\xFF\n1\n", TFOS_ENCODING, "is not valid UTF-8");
    expect_failure(self, "a\n1e39\n", TFOS_RANGE, "'1e39' does not fit float");
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"int32\"}]}";
    expect_failure(self, "n\n1\nx\n", TFOS_MISMATCH, "in: line 3, column 0 ('n'): expected int32, found 'x'");
    expect_failure(self, "n\n2147483648\n", TFOS_RANGE, "does not fit int32");
    expect_failure(self, "n\n99999999999999999999\n", TFOS_RANGE, "does not fit int32");
    expect_failure(self, "n,m\n,1\n", TFOS_MISMATCH, "found an empty field");
    expect_failure(self, "n\n1.5\n", TFOS_MISMATCH, "expected int32, found '1.5'");
    expect_failure(self, "m\n1\n", TFOS_MISMATCH, "the schema has the column 'n'");
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"bool\"}]}";
    expect_failure(self, "n\nyes\n", TFOS_MISMATCH, "expected true, false, 1 or 0, found 'yes'");
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"binary\"}]}";
    expect_failure(self, "n\nabc\n", TFOS_INVALID, "expected base64");
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"int64\", \"shape\": [null]}]}";
    expect_failure(self, "n\n1\n", TFOS_UNSUPPORTED, "use JSON lines");
    self.schema = "{\"fields\": [{\"name\": \"n\", \"type\": \"int64\", \"shape\": [2]}]}";
    expect_failure(self, "n\n1\n", TFOS_MISMATCH, "has 1 values in the file and 2 in the schema");
}

static void compares_files(void **state)
{
    (void)state;
    static const struct {
        const char *second;
        const char *message;
    } cases[] = {{"a,c\n", "expected column 1 to be 'b' as in in, found 'c'"},
                 {"a\n", "expected 2 columns as in in, found 1"}};
    for (size_t i = 0; i < 2; i++) {
        tfos__csv_options options;
        tfos__csv_options_init(&options);
        tfos__csv_survey *survey;
        tfos_error error;
        helper_text first;
        helper_text second;
        assert_int_equal(tfos__csv_survey_new(&options, &survey, &error), TFOS_OK);
        helper_text_open(&first, "a,b\n1,2\n", 8, 100);
        helper_text_open(&second, cases[i].second, strlen(cases[i].second), 100);
        assert_int_equal(tfos__csv_survey_add(survey, &first.text, &error), TFOS_OK);
        assert_int_equal(tfos__csv_survey_add(survey, &second.text, &error), TFOS_MISMATCH);
        assert_non_null(strstr(error.message, cases[i].message));
        tfos__csv_survey_free(survey);
        helper_text_close(&first);
        helper_text_close(&second);
    }
}

static void bounds_batches_and_records(void **state)
{
    (void)state;
    reading self = start();
    self.options.batch_rows = 2;
    expect_read(self, "a\n1\n2\n3\n4\n5\n", "a int64", "{\"a\": 1}\n{\"a\": 2}\n{\"a\": 3}\n{\"a\": 4}\n{\"a\": 5}\n");
    self.options.batch_rows = 100;
    self.options.batch_bytes = 1;
    expect_read(self, "a\n1\n2\n", "a int64", "{\"a\": 1}\n{\"a\": 2}\n");

    /* A quote that is never closed would otherwise take in the rest of the file. */
    size_t count = (size_t)TFOS__TEXT_MAX_RECORD_BYTES * 3;
    char *text = malloc(count);
    char *found;
    assert_non_null(text);
    memset(text, 'x', count);
    memcpy(text, "a\n\"", 3);
    assert_int_equal(read_text(&self, text, count, &found), TFOS_LIMIT);
    assert_non_null(strstr(self.error.message, "in: line 2: a record is longer than 64 MiB"));
    free(found);
    free(text);
    finish(&self);
}

/* ---- writing ---- */

static void writes_what_it_reads(void **state)
{
    (void)state;
    const char *text = "a,\"b,\"\"c\",l_0,l_1,bin,ok\n"
                       "1,\"x\ny\",0.1,-2.5,AAEC,true\n"
                       ",\"\",1e-30,Infinity,\"\",false\n"
                       "3,,,,,\n";
    reading self = start();
    self.schema = "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\", \"nullable\": true},"
                  "{\"name\": \"b,\\\"c\", \"type\": \"string\", \"nullable\": true},"
                  "{\"name\": \"l\", \"type\": \"float\", \"shape\": [2], \"nullable\": true},"
                  "{\"name\": \"bin\", \"type\": \"binary\", \"nullable\": true},"
                  "{\"name\": \"ok\", \"type\": \"bool\", \"nullable\": true}]}";
    helper_text source;
    tfos__csv_reader *reader;
    tfos_batch *batch;
    tfos__buffer out = {0};
    assert_int_equal(find_schema(&self, NULL, 0), TFOS_OK);
    helper_text_open(&source, text, strlen(text), 1000);
    assert_int_equal(tfos__csv_reader_open(&self.options, self.used, self.used, &source.text, &reader, NULL), TFOS_OK);
    assert_int_equal(tfos__csv_reader_next(reader, &batch, &self.error), TFOS_OK);
    assert_int_equal(tfos__csv_write_header(self.used, ',', &out, NULL), TFOS_OK);
    for (int64_t row = 0; row < 3; row++) {
        assert_int_equal(tfos__csv_write_row(batch, row, ',', &out, NULL), TFOS_OK);
    }
    char *found = helper_string(&out);
    assert_string_equal(found, text);
    free(found);
    tfos__buffer_reset(&out);
    tfos_batch_free(batch);
    tfos__csv_reader_close(reader);
    helper_text_close(&source);
    finish(&self);
}

static void keeps_rows_of_one_missing_value(void **state)
{
    (void)state;
    /* A blank line would be skipped by readers, and the row lost. */
    expect_read(start(), "a\n1\n\"\"\n", "a string", "{\"a\": \"1\"}\n{\"a\": \"\"}\n");
    reading self = start();
    self.schema = "{\"fields\": [{\"name\": \"a\", \"type\": \"int64\", \"nullable\": true}]}";
    expect_read(self, "a\n1\n\"\"\n", "a int64 nullable", "{\"a\": 1}\n{\"a\": null}\n");
}

static void refuses_to_write_ragged_lists(void **state)
{
    (void)state;
    tfos_schema *schema;
    tfos__buffer out = {0};
    tfos_error error;
    const char *json = "{\"fields\": [{\"name\": \"r\", \"type\": \"int64\", \"shape\": [null]}]}";
    assert_int_equal(tfos_schema_from_json(json, strlen(json), &schema, NULL), TFOS_OK);
    assert_int_equal(tfos__csv_write_header(schema, ',', &out, &error), TFOS_UNSUPPORTED);
    assert_non_null(strstr(error.message, "column 'r'"));
    assert_non_null(strstr(error.message, "jsonl"));
    tfos__buffer_reset(&out);
    tfos_schema_free(schema);
}

/* Makes the header of a schema that CSV cannot hold. */
static void expect_unwritable(const char *json, const char *message)
{
    tfos_schema *schema;
    tfos_error error = {0};
    tfos__buffer out = {0};
    assert_int_equal(tfos_schema_from_json(json, strlen(json), &schema, NULL), TFOS_OK);
    assert_int_equal(tfos__csv_write_header(schema, ',', &out, &error), TFOS_UNSUPPORTED);
    if (strstr(error.message, message) == NULL) {
        fail_msg("expected '%s' in '%s'", message, error.message);
    }
    tfos__buffer_reset(&out);
    tfos_schema_free(schema);
}

static void refuses_to_write_what_it_could_not_read(void **state)
{
    (void)state;
    expect_unwritable("{\"fields\": [{\"name\": \"x\", \"type\": \"int64\", \"shape\": [0]},"
                      "{\"name\": \"y\", \"type\": \"int64\"}]}",
                      "column 'x' is int64[0], a list without values, which CSV cannot hold");
    expect_unwritable("{\"fields\": [{\"name\": \"x_1\", \"type\": \"int64\"},"
                      "{\"name\": \"x\", \"type\": \"int64\", \"shape\": [2]}]}",
                      "two columns would be called 'x_1': the list 'x' is written as x_0 to x_1");
    const char *json = "{\"fields\": [{\"name\": \"x\", \"type\": \"int64\", \"shape\": [2]},"
                       "{\"name\": \"x_2\", \"type\": \"int64\"}, {\"name\": \"x_00\", \"type\": \"int64\"},"
                       "{\"name\": \"y\", \"type\": \"int64\"}, {\"name\": \"y_0\", \"type\": \"int64\"},"
                       "{\"name\": \"x_\", \"type\": \"int64\"}]}";
    tfos_schema *schema;
    tfos__buffer out = {0};
    assert_int_equal(tfos_schema_from_json(json, strlen(json), &schema, NULL), TFOS_OK);
    assert_int_equal(tfos__csv_write_header(schema, ',', &out, NULL), TFOS_OK);
    char *header = helper_string(&out);
    assert_string_equal(header, "x_0,x_1,x_2,x_00,y,y_0,x_\n");
    free(header);
    tfos__buffer_reset(&out);
    tfos_schema_free(schema);
}

/* ---- numbers ---- */

static void parses_like_strtod(void **state)
{
    (void)state;
    static const char *const texts[] = {"0",
                                        "0.0",
                                        "-0.0",
                                        "1.5",
                                        ".5",
                                        "5.",
                                        "1e5",
                                        "1E-5",
                                        "1e308",
                                        "4.9e-324",
                                        "1e-400",
                                        "123456789012345678901234567890",
                                        "0.1",
                                        "3.14159265358979323846",
                                        "9007199254740993",
                                        "9007199254740993.0",
                                        "0.000000000000000000000000000001",
                                        "00000000000000000000000001.5",
                                        "1e22",
                                        "1e23",
                                        "-1.7976931348623157e308"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int64_t integer;
        double real = -1;
        assert_int_not_equal(tfos__number_parse(texts[i], strlen(texts[i]), &integer, &real), TFOS__NUMBER_NONE);
        double expected = strtod(texts[i], NULL);
        assert_memory_equal(&real, &expected, sizeof real);
    }
    static const char *const bad[] = {"",      " ",   "-",     "+",    ".",   "e5", "1e",   "1e+",
                                      "1.2.3", "1 2", "0x1p3", "nanx", "--1", "1-", "infin"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        int64_t integer;
        double real;
        assert_int_equal(tfos__number_parse(bad[i], strlen(bad[i]), &integer, &real), TFOS__NUMBER_NONE);
    }
}

static void formats_round_trip(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (int i = 0; i < 200000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        char text[TFOS__NUMBER_BYTES];
        uint32_t bits = (uint32_t)(random >> 32);
        float value;
        memcpy(&value, &bits, sizeof value);
        int64_t integer;
        double real;
        size_t bytes = tfos__number_format_float(value, text);
        assert_true(bytes < TFOS__NUMBER_BYTES && text[bytes] == '\0');
        assert_int_not_equal(tfos__number_parse(text, bytes, &integer, &real), TFOS__NUMBER_NONE);
        assert_true(isnan(value) ? isnan(real) : (float)real == value);
        double wide;
        memcpy(&wide, &random, sizeof wide);
        bytes = tfos__number_format_double(wide, text);
        assert_int_not_equal(tfos__number_parse(text, bytes, &integer, &real), TFOS__NUMBER_NONE);
        assert_true(isnan(wide) ? isnan(real) : real == wide);
    }
    char text[TFOS__NUMBER_BYTES];
    assert_int_equal(tfos__number_format_int(INT64_MIN, text), 20);
    assert_string_equal(text, "-9223372036854775808");
    tfos__number_format_float(-0.0f, text);
    assert_string_equal(text, "-0.0");
}

/* With a comma as the decimal point, strtod and printf of the process would read and write other numbers. */
static void ignores_the_locale(void **state)
{
    (void)state;
    if (setlocale(LC_ALL, "de_DE.UTF-8") == NULL && setlocale(LC_ALL, "fr_FR.UTF-8") == NULL) {
        skip();
    }
    int64_t integer;
    double real;
    char text[TFOS__NUMBER_BYTES];
    assert_int_equal(tfos__number_parse("1.25e-30", 8, &integer, &real), TFOS__NUMBER_REAL);
    assert_true(real == 1.25e-30);
    tfos__number_format_double(0.1, text);
    setlocale(LC_ALL, "C");
    assert_string_equal(text, "0.1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_types),
        cmocka_unit_test(reads_quotes),
        cmocka_unit_test(reads_line_ends),
        cmocka_unit_test(reads_missing_values),
        cmocka_unit_test(reads_without_header),
        cmocka_unit_test(folds_columns),
        cmocka_unit_test(folds_columns_by_name),
        cmocka_unit_test(refuses_options),
        cmocka_unit_test(infers_carefully),
        cmocka_unit_test(reads_with_schema),
        cmocka_unit_test(refuses_rows),
        cmocka_unit_test(compares_files),
        cmocka_unit_test(bounds_batches_and_records),
        cmocka_unit_test(writes_what_it_reads),
        cmocka_unit_test(keeps_rows_of_one_missing_value),
        cmocka_unit_test(refuses_to_write_ragged_lists),
        cmocka_unit_test(refuses_to_write_what_it_could_not_read),
        cmocka_unit_test(finds_each_field_once),
        cmocka_unit_test(matches_many_columns),
        cmocka_unit_test(parses_like_strtod),
        cmocka_unit_test(formats_round_trip),
        cmocka_unit_test(ignores_the_locale),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
