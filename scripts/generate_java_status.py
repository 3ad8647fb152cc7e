"""Writes org.tfos.Status and org.tfos.Fault from the tables TFOS_STATUS_MAP and TFOS_FAULT_MAP in tfos/base.h:
generate_java_status.py BASE_H STATUS_JAVA FAULT_JAVA.

The tables are the one place where these are defined; a copy by hand would drift.
"""

import os
import re
import sys

STATUS = """package org.tfos;

/** What a call of the native library came to. Made from TFOS_STATUS_MAP in tfos/base.h. */
public enum Status {{
{constants};

    private final int value;
    private final Fault fault;
    private final String text;

    Status(int value, Fault fault, String text) {{
        this.value = value;
        this.fault = fault;
        this.text = text;
    }}

    /** The number that the C library uses. */
    public int value() {{
        return value;
    }}

    /** The fault of a failure with this status, unless something else is known. */
    public Fault fault() {{
        return fault;
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


FAULT = """package org.tfos;

/** Whose fault an error is, and so whether it helps to try again. Made from TFOS_FAULT_MAP in tfos/base.h. */
public enum Fault {{
{constants};

    private final int value;

    Fault(int value) {{
        this.value = value;
    }}

    /** The number that the C library uses. */
    public int value() {{
        return value;
    }}

    /** The fault with the given number. */
    public static Fault of(int value) {{
        for (Fault fault : values()) {{
            if (fault.value == value) {{
                return fault;
            }}
        }}
        throw new IllegalArgumentException(
                value + " is no fault of this version; the jar and the native library do not belong together");
    }}
}}
"""


def read_table(header, table, form):
    """The rows of a table, as the columns of the form that are in groups."""
    found = re.search(rf"#define {table}\(X\)(.*?[^\\])\n", header, re.S)
    rows = re.findall(form, found[1]) if found else []
    if not rows or len(rows) != found[1].count("X("):
        sys.exit(f"the table {table} was not found in the form {form}")
    return rows


def write(path, template, constants):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(template.format(constants=",\n".join(f"    {constant}" for constant in constants)))


def main():
    source, status_java, fault_java = sys.argv[1:]
    with open(source, encoding="utf-8") as file:
        header = file.read()
    statuses = read_table(header, "TFOS_STATUS_MAP", r'X\((\w+), (\d+), (\w+), "([^"\\]*)"\)')
    faults = read_table(header, "TFOS_FAULT_MAP", r'X\((\w+), (\d+), "[^"\\]*"\)')
    write(status_java, STATUS, [f'{name}({value}, Fault.{fault}, "{text}")' for name, value, fault, text in statuses])
    write(fault_java, FAULT, [f"{name}({value})" for name, value in faults])


if __name__ == "__main__":
    main()
