"""Writes org.tfos.spark.Protocol: generate_java_protocol.py MESSAGE_MAP_H PROTOCOL_JAVA.

The one message that Java writes is the one that starts a node. Its numbers are those of the tables; a copy by hand
would drift.
"""

import os
import re
import sys

TEMPLATE = """package org.tfos.spark;

/** Types of messages and numbers of fields. Made from the tables in src/net/message_map.h. */
final class Protocol {{
{messages}
{fields}

    private Protocol() {{}}
}}
"""


def read_table(header, name):
    """The rows (name, number) of a table."""
    table = re.search(rf"#define {name}\((.*?[^\\])\n\n", header, re.S)
    rows = re.findall(r"\bX\((\w+), (\d+),", table[1]) if table else []
    if not rows:
        sys.exit(f"the table {name} was not found in the form X(NAME, number, …)")
    return rows


def constants(prefix, rows):
    return "\n".join(f"    static final int {prefix}{name} = {number};" for name, number in rows)


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        header = file.read()
    messages = constants("MESSAGE_", read_table(header, "TFOS__MESSAGE_MAP"))
    fields = constants("", read_table(header, "TFOS__FIELD_MAP"))
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(TEMPLATE.format(messages=messages, fields=fields))


if __name__ == "__main__":
    main()
