/* The page of the protocol is what the tables say: docs/protocol.md. TFOS_TEST_WRITE_PAGE=1 makes it anew. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "helper_records.h"
#include "net/message.h"

static const char head[] =
    "# The protocol\n\n"
    "What the driver, the coordinator, the nodes and the tasks that feed say to each other. This page is made of the "
    "tables in\n"
    "`src/net/message_map.h`, from which messages are written, read and checked.\n\n"
    "A frame is a length (4 bytes, little-endian) and a message of that many bytes. A message is in protobuf wire "
    "format: field 1\n"
    "is its type and comes first, then come the fields of that type, each at most once, a number as a varint, the "
    "rest as bytes. A\n"
    "message that lacks a field it must have, or has one that is not its own, is refused. Between hosts frames go "
    "through TLS 1.3 with\n"
    "the cluster key; HELLO compares the versions of both ends.\n\n";

static void write_messages(tfos__buffer *out)
{
    tfos__buffer_printf(out, NULL,
                        "## Messages\n\n| type | name | from, to | what for | fields |\n|---|---|---|---|---|\n");
#define MUST(name) " " #name
#define MESSAGE(name, value, way, what, needs, may)                                                                    \
    tfos__buffer_printf(out, NULL, "| %d | %s | %s | %s |", value, #name, way, what);                                  \
    tfos__buffer_printf(out, NULL, "%s", "" needs);                                                                    \
    if (("" may)[0] != '\0') {                                                                                         \
        tfos__buffer_printf(out, NULL, " and perhaps%s", "" may);                                                      \
    }                                                                                                                  \
    tfos__buffer_printf(out, NULL, " |\n");
    TFOS__MESSAGE_MAP(MESSAGE, MUST)
#undef MESSAGE
#undef MUST
}

static void write_fields(tfos__buffer *out)
{
    tfos__buffer_printf(out, NULL, "\n## Fields\n\n| number | name | most bytes | what it is |\n|---|---|---|---|\n");
#define FIELD(name, number, most, text)                                                                                \
    if ((most) > 0) {                                                                                                  \
        tfos__buffer_printf(out, NULL, "| %d | %s | %d | %s |\n", number, #name, most, text);                          \
    } else {                                                                                                           \
        tfos__buffer_printf(out, NULL, "| %d | %s | a number | %s |\n", number, #name, text);                          \
    }
    TFOS__FIELD_MAP(FIELD)
#undef FIELD
}

static void test_page_is_current(void **state)
{
    (void)state;
    tfos__buffer page = {0};
    char path[4096];
    tfos__buffer_printf(&page, NULL, "%s", head);
    write_messages(&page);
    write_fields(&page);
    snprintf(path, sizeof path, "%s/../../docs/protocol.md", getenv("TFOS_TEST_VECTORS"));
    if (getenv("TFOS_TEST_WRITE_PAGE") != NULL) {
        FILE *file = fopen(path, "w");
        assert_non_null(file);
        assert_int_equal(fwrite(page.data, 1, page.size, file), page.size);
        fclose(file);
    }
    char *there = malloc(page.size + 1);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t count = fread(there, 1, page.size + 1, file);
    fclose(file);
    if (count != page.size || memcmp(there, page.data, count) != 0) {
        fail_msg("docs/protocol.md is not what src/net/message_map.h says; make it anew:\n"
                 "TFOS_TEST_WRITE_PAGE=1 ctest --test-dir build/release -R test_net_protocol_page");
    }
    free(there);
    tfos__buffer_reset(&page);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_page_is_current),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
