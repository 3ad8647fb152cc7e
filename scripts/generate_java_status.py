"""Writes org.tfos.Status from the table TFOS_STATUS_MAP in tfos/base.h: generate_java_status.py BASE_H STATUS_JAVA.

The table is the one place where statuses are defined; a copy by hand would drift.
"""

import os
import re
import sys

TEMPLATE = """package org.tfos;

/** What a call of the native library came to. Made from TFOS_STATUS_MAP in tfos/base.h. */
public enum Status {{
{constants};

    private final int value;
    private final String text;

    Status(int value, String text) {{
        this.value = value;
        this.text = text;
    }}

    /** The number that the C library uses. */
    public int value() {{
        return value;
    }}

    /** What the status means, in a few words. */
    public String text() {{
        return text;
    }}

    /** The status with the given number. */
    public static Status of(int value) {{
        for (Status status : values()) {{
            if (status.value == value) {{
                return status;
            }}
        }}
        throw new IllegalArgumentException(
                value + " is no status of this version; the jar and the native library do not belong together");
    }}
}}
"""


def read_statuses(header):
    """The rows (name, value, text) of the table."""
    table = re.search(r"#define TFOS_STATUS_MAP\(X\)(.*?[^\\])\n", header, re.S)
    rows = re.findall(r'X\((\w+), (\d+), "([^"\\]*)"\)', table[1]) if table else []
    if not rows or len(rows) != table[1].count("X("):
        sys.exit('the table TFOS_STATUS_MAP was not found in the form X(NAME, number, "text")')
    return rows


def main():
    source, target = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        rows = read_statuses(file.read())
    constants = ",\n".join(f'    {name}({value}, "{text}")' for name, value, text in rows)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with open(target, "w", encoding="utf-8") as file:
        file.write(TEMPLATE.format(constants=constants))


if __name__ == "__main__":
    main()
