"""For each rule, trees that it must object to, and one that none may: a check that cannot fail is a defect."""

import functools
import os
import subprocess
import tempfile

HEADER = """/* The header. Errors … Ownership. … Threads. … */
#define TFOS_API
#define TFOS_VERSION "1.2.3"
/* Does it.
 *
 * Owner: nobody.
 * Thread: any. */
TFOS_API int tfos_thing_do(void);
"""

SOURCE = """/* The idea. */
#include "base/thing.h"
#include "tfos.h"

int f(void)
{
    int x = 1;
    return x;
}
"""

# A small project without a breach: path → text. A path that ends in .so or .a is compiled from its text.
GOOD = {
    "include/tfos.h": '/* All. */\n#include "tfos/base.h"\n',
    "include/tfos/base.h": HEADER,
    "src/CMakeLists.txt": "set(tfos_rooms_of tfos_objects)\ntfos_room(\n  base\n  thing.c)\ntfos_room(column)\n",
    "src/base/thing.h": "/* A thing. */\n",
    "src/base/thing.c": SOURCE,
    "tests/unit/base/test_thing.c": "/* A test. */\n",
    "jvm/CMakeLists.txt": "add_library(tfosjni thing_jni.c)\n",
    "jvm/thing_jni.c": "/* JNI. */\n",
    "jvm/pom.xml": "<artifactId>tfos</artifactId>\n<version>1.2.3</version>\n",
    "scripts/run": "#!/usr/bin/env bash\nset -euo pipefail\necho run\n",
    "docs/page.md": "See [the header](../include/tfos.h#top), `[not](a-link)`, [outside](https://example.org/x).\n",
    "requirements.txt": '# why\nthing==1.0\nother==2.0; platform_machine == "x86_64"\n',
    ".clang-format": "BasedOnStyle: LLVM\nIndentWidth: 4\nBreakBeforeBraces: Linux\n",
    "build/release/src/libtfos.so": "int tfos_thing_do(void) { return 0; }",
    "build/release/src/libtfos_ops.so": "static int n; __attribute__((constructor)) static void f(void) { n++; }",
    "build/release/src/libtfos_core.a": "int tfos_thing_do(void) { return 0; }\nint tfos__thing_help = 1;",
    "build/release/jvm/native/linux/libtfosjni.so": "int Java_org_tfos_Native_f(void) { return 0; }",
    ".venv/lib/python3.11/site-packages/tensorflowonspark/_core.abi3.so": "int PyInit__core(void) { return 0; }",
}

EXTENSION = ".venv/lib/python3.11/site-packages/tensorflowonspark/_core.abi3.so"
LONG_FUNCTION = "/* The idea. */\nint f(void)\n{\n" + "    g();\n" * 100 + "}\n"

# Rule → changes to GOOD, each of which the rule must object to. None removes the file.
BAD = {
    "rooms_in_order": [
        {"src/base/thing.c": '/* */\n#include "column/batch.h"\n'},
        {"src/fs/local.c": '/* */\n#include "record/index.h"\n'},
        {"src/base/thing.c": '/* */\n#include "thing.h"\n'},
        {"src/attic/thing.c": "/* */\n"},
    ],
    "the_bar_holds": [
        {"src/base/thing.c": "/* */\n#include <uv.h>\n"},
        {"src/feed/thing.h": "/* */\n#include <http_parser.h>\n"},
        {"src/CMakeLists.txt": "set(tfos_rooms_of tfos_objects)\ntfos_room(\n  node\n  thing.c)\n"},
        {"src/CMakeLists.txt": "set(tfos_rooms_of tfos_service)\ntfos_room(\n  base\n  thing.c)\n"},
    ],
    "every_file_is_built": [
        {"src/base/extra.c": "/* */\n"},
        {"src/column/thing.c": "/* */\n"},
        {"src/CMakeLists.txt": "# tfos_room(base thing.c)\n"},
        {"tests/unit/thing.c": "/* */\n"},
        {"tests/unit/test_thing.c": "/* */\n"},
        {"tests/unit/attic/test_thing.c": "/* */\n"},
        {"tests/fuzz/thing.c": "/* */\n"},
        {"jvm/extra.c": "/* */\n"},
    ],
    "no_leftovers": [{"src/base/thing.c": "/* FIX" + "ME: later */\n"}, {"docs/page.md": "TO" + "DO: write\n"}],
    "lines_fit": [{"src/base/thing.c": "/* " + "x" * 120 + " */\n"}, {"scripts/run": "#!/bin/bash\n" + "x" * 121}],
    "no_tabs_or_loose_ends": [
        {"src/base/thing.c": "/* */\n\tint x;\n"},
        {"src/base/thing.c": "/* */ \n"},
        {"src/base/thing.c": "/* */"},
    ],
    "files_are_short": [
        {"src/base/thing.c": "/* */\n" * 701},
        {"tests/unit/base/test_thing.c": "/* */\n" * 1001},
        {"scripts/run": "#!/bin/sh\n" * 701},
    ],
    "functions_fit_a_screen": [
        {"src/base/thing.c": LONG_FUNCTION},
    ],
    "c_files_tell_their_idea": [{"src/base/thing.c": "#include <stdio.h>\n"}],
    "api_says_owner_and_thread": [
        {"include/tfos/base.h": HEADER.replace("Owner:", "")},
        {"include/tfos/base.h": HEADER.replace("Thread:", "")},
        {"include/tfos/base.h": HEADER + "TFOS_API const char *tfos_thing_name(int a,\n              int b);\n"},
        {"include/tfos/base.h": "/* Empty. */\n"},
    ],
    "public_types_keep_their_form": [
        {"include/tfos/base.h": HEADER + "typedef enum tfos_color { TFOS_RED } tfos_color;\n"},
        {"include/tfos/base.h": HEADER + "typedef struct tfos_thing_options {\n    size_t size;\n};\n"},
        {"include/tfos/base.h": HEADER + "typedef struct tfos_thing_want {\n    int rows;\n};\n"},
    ],
    "headers_open_with_their_laws": [
        {"include/tfos.h": "/* Nothing. */\n"},
        {"include/tfos/base.h": HEADER.replace("Threads.", "")},
        {"include/tfos/base.h": HEADER + "tfos_unknown tfos_thing_make(void);\n"},
    ],
    "scripts_stop_at_errors": [
        {"scripts/run": "#!/usr/bin/env bash\necho run\n"},
        {"scripts/run": "#!/bin/sh\n# set -eu is missing\n"},
        {"examples/run.sh": "echo run\n"},
    ],
    "links_resolve": [
        {"docs/page.md": "[gone](gone.md)\n"},
        {"README.md": "[gone](docs/gone.md#part)\n"},
        {"README.md": "![picture](docs/gone.png)\n"},
    ],
    "versions_agree": [
        {"jvm/pom.xml": "<artifactId>tfos</artifactId>\n<version>1.2.4</version>\n"},
        {"pyproject.toml": '[project]\nversion = "0.9"\n'},
        {"CHANGELOG.md": "## 1.2.2\n"},
    ],
    "requirements_are_pinned": [{"requirements.txt": "thing>=1.0\n"}, {"requirements.txt": "thing\n"}],
    "names_stand_for_one_thing": [{"tests/python/test_thing.py": "def test_it():\n    pass\n\n\n" * 2}],
    "code_is_formatted": [{"src/base/thing.c": "/* */\nint  f( void ){return 0;}\n"}],
    "library_is_built": [{"build/release/src/libtfos.so": None}],
    "library_exports_the_api": [
        {"build/release/src/libtfos.so": "int tfos_thing_do(void) { return 0; }\nint deflate(void) { return 0; }"},
        {"build/release/src/libtfos.so": "int tfos__thing_help(void) { return 0; }"},
    ],
    "shells_export_their_entry_only": [
        {"build/release/jvm/native/linux/libtfosjni.so": "int SSL_new(void) { return 0; }"},
        {"build/release/src/libtfos_ops.so": "int tfos_thing_do(void) { return 0; }"},
        {EXTENSION: "int PyInit__core(void) { return 0; }\nint tfos_thing_do(void) { return 0; }"},
    ],
    "dependencies_are_few": [
        {"build/release/src/libtfos.so": "/* -l:libz.so.1 */ int tfos_thing_do(void) { return 0; }"},
        {EXTENSION: "/* -l:libz.so.1 */ int PyInit__core(void) { return 0; }"},
    ],
    "internal_names_have_our_prefix": [{"build/release/src/libtfos_core.a": "int helper(void) { return 0; }"}],
}


@functools.lru_cache(maxsize=None)
def compiled(suffix, text):
    """The bytes of a shared library or an archive. A text that opens with a comment "-l…" is linked to that library."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "sample.c"), os.path.join(folder, "sample" + suffix)
        with open(source, "w", encoding="utf-8") as file:
            file.write(text)
        if suffix == ".a":
            subprocess.run(["cc", "-w", "-c", source, "-o", source + ".o"], check=True)
            subprocess.run(["ar", "rc", target, source + ".o"], check=True)
        else:
            link = [text.split()[1]] if text.startswith("/* -l") else []
            command = ["cc", "-w", "-shared", "-fPIC", source, "-o", target, "-Wl,--no-as-needed", *link]
            subprocess.run(command, check=True)
        with open(target, "rb") as file:
            return file.read()


def write_tree(root, files):
    for path, text in files.items():
        if text is None:
            continue
        target = os.path.join(root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        is_binary = path.endswith((".so", ".a"))
        with open(target, "wb") as file:
            file.write(compiled(os.path.splitext(path)[1], text) if is_binary else text.encode())
        if path.startswith("scripts/"):
            os.chmod(target, 0o755)


def breaches_of(rule, tree_class, changes):
    with tempfile.TemporaryDirectory() as root:
        write_tree(root, {**GOOD, **changes})
        tree = tree_class(root, "build/release")
        return list(rule(tree)), tree.notes


def problems_of(rule, tree_class):
    """What is wrong with a rule: sentences that go on after its name."""
    good, notes = breaches_of(rule, tree_class, {})
    if notes:
        return []  # The rule says that it cannot be checked on this machine.
    problems = [f"objects to the good sample: {breach}" for breach in good]
    if rule.__name__ not in BAD:
        problems.append("has no bad sample; add one to BAD")
    for changes in BAD.get(rule.__name__, []):
        if not breaches_of(rule, tree_class, changes)[0]:
            problems.append(f"lets this pass: {changes}")
    return problems
