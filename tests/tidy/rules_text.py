"""Rules about the text of the sources. Each yields (path, line, what is wrong and what to do)."""

import os
import re
import shutil
import subprocess

# Before the bar: libtfos.so, which enters processes of others. Behind it: the command tfos alone, with an event loop.
LIBRARY_ROOMS = ["base", "column", "fs", "record", "net", "feed", "collective", "tensorflow", "driver"]
COMMAND_ROOMS = ["service", "coordinator", "node", "inference", "training", "cli"]
ROOMS = LIBRARY_ROOMS + COMMAND_ROOMS
MAX_COLUMNS = 120
MAX_LINES = 700
MAX_TEST_LINES = 1000  # a test is a list of cases, read one at a time
MAX_FUNCTION_LINES = 80
SOURCES = (".c", ".h", ".py", ".pyi", ".java", ".cmake", "CMakeLists.txt", "Makefile")

# Files that may be longer than MAX_LINES, each with the reason.
LONG_FILES = {}


def c_files(tree):
    return [path for path in tree.paths if path.endswith((".c", ".h"))]


def shell_scripts(tree):
    for path in tree.paths:
        has_no_ending = "." not in os.path.basename(path)
        if path.endswith(".sh") or has_no_ending and re.match(r"#!.*\b(ba)?sh\b", tree.text(path)):
            yield path


def rooms_in_order(tree):
    for path in tree.under("src/", ".c", ".h"):
        room = path.split("/")[1]
        if room not in ROOMS:
            yield path, 1, f"src/{room} is no room; the rooms are {', '.join(ROOMS)}"
            continue
        for number, line in tree.lines(path):
            match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
            if not match or re.match(r"tfos(/\w+)?\.h$", match[1]):
                continue
            other = match[1].split("/")[0]
            if "/" not in match[1] or other not in ROOMS:
                yield path, number, f'include "{match[1]}" by its room, as "room/file.h"'
            elif ROOMS.index(other) > ROOMS.index(room):
                yield path, number, f"{room} must not use {other}, which comes after it; move the code or pass it in"


def rooms_of_targets(tree):
    """Room → the targets that src/CMakeLists.txt makes of it."""
    target = None
    for match in re.finditer(r"set\(tfos_rooms_of (\w+)\)|tfos_room\(\s*(\w+)", tree.text("src/CMakeLists.txt")):
        if match[1]:
            target = match[1]
        else:
            yield match[2], target


def the_bar_holds(tree):
    """What enters other people's processes has no event loop, and is made of the rooms before the bar."""
    for path in tree.under("src/", ".c", ".h"):
        for number, line in tree.lines(path):
            match = re.match(r"\s*#\s*include\s+<(uv|http_parser)\.h>", line)
            if match and path.split("/")[1] in LIBRARY_ROOMS:
                yield path, number, f"<{match[1]}.h> is for the rooms behind the bar: {', '.join(COMMAND_ROOMS)}"
    for room, target in rooms_of_targets(tree):
        if (target == "tfos_objects") != (room in LIBRARY_ROOMS):
            yield "src/CMakeLists.txt", 1, f"{room} is made part of {target}, on the other side of the bar"


def listed_sources(tree):
    """The files that src/CMakeLists.txt builds, as room/file.c."""
    text = re.sub(r"#.*", "", tree.text("src/CMakeLists.txt"))
    for room, files in re.findall(r"tfos_room\(\s*(\w+)\s+([^)]*)\)", text):
        yield from (f"{room}/{name}" for name in files.split())
    yield from re.findall(r"\b\w+/\w+\.c\b", text)  # files that are no part of libtfos.so


def every_file_is_built(tree):
    listed = set(listed_sources(tree))
    for path in tree.under("src/", ".c"):
        if path[len("src/") :] not in listed:
            yield path, 1, "nobody builds this file; add it to its room in src/CMakeLists.txt"
    for path in tree.under("tests/unit/", ".c"):
        test = re.match(r"tests/unit/(\w+)/test_\w+\.c$", path)
        if not (test and test[1] in ROOMS) and not re.match(r"tests/unit/(helper|stand_in)_\w+\.c$", path):
            yield path, 1, "nobody builds this file; call it <room>/test_<thing>.c, helper_… or stand_in_<thing>.c"
    for path in tree.under("tests/fuzz/", ".c"):
        if not re.match(r"(fuzz_\w+|replay_main)\.c$", os.path.basename(path)):
            yield path, 1, "nobody builds this file; call it fuzz_<format>.c"
    for shell in ("jvm", "python"):
        listing = f"{shell}/CMakeLists.txt"
        built = tree.text(listing) if tree.has(listing) else ""
        for path in tree.under(f"{shell}/", ".c"):
            if os.path.basename(path) not in built:
                yield path, 1, f"nobody builds this file; add it to {shell}/CMakeLists.txt"


def no_leftovers(tree):
    # Put together here, so that this file is not a breach of itself.
    words = "|".join(["FIX" + "ME", "TO" + "DO", "XX" + "X", "HA" + "CK"])
    for path in tree.paths:
        if path == "LICENSE" or path.startswith(("tests/vectors/", "tests/fuzz/corpus/")):
            continue
        for number, line in tree.lines(path):
            match = re.search(rf"\b({words})\b", line)
            if match:
                yield path, number, f"a leftover {match[1]}; do it, or write it down where work is planned"


def lines_fit(tree):
    for path in [*(p for p in tree.paths if p.endswith(SOURCES)), *shell_scripts(tree)]:
        for number, line in tree.lines(path):
            if len(line) > MAX_COLUMNS:
                yield path, number, f"{len(line)} columns; break the line at {MAX_COLUMNS}"


def no_tabs_or_loose_ends(tree):
    for path in tree.paths:
        if not path.endswith(SOURCES) or path.endswith("Makefile"):
            continue
        for number, line in tree.lines(path):
            if "\t" in line:
                yield path, number, "a tab; indent with spaces"
            if line != line.rstrip():
                yield path, number, "space at the end of the line; remove it"
        if not tree.text(path).endswith("\n") and tree.text(path):
            yield path, tree.lines(path)[-1][0], "no newline at the end of the file; add one"


def files_are_short(tree):
    for path in [*(p for p in tree.paths if p.endswith(SOURCES)), *shell_scripts(tree)]:
        count = tree.text(path).count("\n")
        limit = MAX_TEST_LINES if path.startswith("tests/") else MAX_LINES
        if count > limit and path not in LONG_FILES:
            yield path, count, f"{count} lines; split the file by subject, or give a reason in LONG_FILES"


def functions_fit_a_screen(tree):
    """The braces of a function stand alone at column 0, as clang-format writes them."""
    for path in c_files(tree):
        start = None
        for number, line in tree.lines(path):
            if line == "{":
                start = number
            elif line == "}" and start is not None:
                if number - start > MAX_FUNCTION_LINES:
                    yield path, start, f"a function of {number - start} lines; a function fits a screen, split it"
                start = None


def c_files_tell_their_idea(tree):
    for path in tree.under("src/", ".c", ".h"):
        if not tree.text(path).startswith("/*"):
            yield path, 1, "the file does not open with a comment; tell its idea or its contract first"


def declared_functions(tree):
    """(name, header, line, the comment before it) of each TFOS_API function."""
    for path in tree.under("include/", ".h"):
        text = tree.text(path)
        for match in re.finditer(r"^TFOS_API [^;]*?\b(tfos_\w+)\(", text, re.M):
            before = text[: match.start()].rstrip()
            comment = before[before.rfind("/*") :] if before.endswith("*/") else ""
            yield match[1], path, text[: match.start()].count("\n") + 1, comment


def api_says_owner_and_thread(tree):
    functions = list(declared_functions(tree))
    if not functions:
        yield "include/tfos.h", 1, "declares no TFOS_API function; has the form of the declarations changed?"
    for name, path, line, comment in functions:
        for word in ("Owner:", "Thread:"):
            if word not in comment:
                yield path, line, f'the comment of {name} has no line "{word} …"; say it'


def public_types_keep_their_form(tree):
    """An enum has a name and a parse for its words; a struct that its caller fills in begins with its size."""
    declared = {name for name, *_ in declared_functions(tree)}
    for path in tree.under("include/", ".h"):
        text = tree.text(path)
        for match in re.finditer(r"^typedef (enum|struct) (tfos_\w+) {\n?\s*(.*)", text, re.M):
            kind, name, first = match.groups()
            line = text[: match.start()].count("\n") + 1
            wanted = [f"{name}_name", f"{name}_parse"] if kind == "enum" else []
            if kind == "struct" and name.endswith(("_options", "_want")):
                wanted = [f"{name}_init"]
                if not first.startswith("size_t size;"):
                    yield path, line, f"{name} cannot grow: let it begin with size_t size"
            for function in wanted:
                if function not in declared:
                    yield path, line, f"{name} has no {function}; declare it"


def headers_open_with_their_laws(tree):
    """tfos.h is all of them; each says what it is about before it says it, and how its nouns behave."""
    umbrella = tree.text("include/tfos.h")
    for path in tree.under("include/tfos/", ".h"):
        name = path[len("include/") :]
        opening = tree.text(path).split("*/")[0]
        if f'#include "{name}"' not in umbrella:
            yield "include/tfos.h", 1, f"does not include {name}; whoever includes tfos.h has all of tfos"
        for word in ("Errors", "Ownership.", "Threads."):
            if word not in opening:
                yield path, 1, f'the comment at its beginning does not say "{word} …"; say it'
        command = ["cc", "-std=c11", "-fsyntax-only", "-x", "c", "-I", os.path.join(tree.root, "include")]
        result = subprocess.run([*command, os.path.join(tree.root, path)], capture_output=True, text=True)
        if result.returncode != 0:
            yield path, 1, f"cannot be included alone: {result.stderr.strip()[:300]}"


def scripts_stop_at_errors(tree):
    for path in shell_scripts(tree):
        if not re.search(r"^set -eu(o pipefail)?$", tree.text(path), re.M):
            yield path, 1, 'goes on after errors; add "set -euo pipefail" before the first command'
        if not os.access(os.path.join(tree.root, path), os.X_OK):
            yield path, 1, "cannot be run; chmod +x"


def links_resolve(tree):
    for path in [p for p in tree.paths if p.endswith(".md")]:
        in_code = False
        for number, line in tree.lines(path):
            if line.lstrip().startswith("```"):
                in_code = not in_code
            if in_code:
                continue
            for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`]*`", "", line)):
                target = target.split("#")[0]
                if target and not re.match(r"[a-z]+:", target):
                    if not tree.has(os.path.normpath(os.path.join(os.path.dirname(path), target))):
                        yield path, number, f"the link to {target} leads nowhere; correct it"


def versions_agree(tree):
    match = re.search(r'#define TFOS_VERSION "([^"]+)"', tree.text("include/tfos/base.h"))
    version = match[1] if match else None
    forms = {
        "jvm/pom.xml": r"<artifactId>tfos</artifactId>\s*<version>([^<]+)</version>",
        "pyproject.toml": r'^version = "([^"]+)"',
        "CHANGELOG.md": r"^## ([0-9.]+)",
    }
    for path, form in forms.items():
        found = re.search(form, tree.text(path), re.M) if tree.has(path) else None
        if found and found[1] != version:
            yield path, 1, f"says version {found[1]}, include/tfos/base.h says {version}; make them one"


def requirements_are_pinned(tree):
    for path in [p for p in tree.paths if re.fullmatch(r"requirements[\w-]*\.txt", p)]:
        for number, line in tree.lines(path):
            if line and not line.startswith("#") and not re.match(r"[\w.-]+==[\w.]+(; .*)?$", line):
                yield path, number, f'"{line}" is not pinned; write name==version'


def names_stand_for_one_thing(tree):
    """In Python, a function that is defined a second time hides the first: a test that never runs."""
    for path in tree.under("", ".py"):
        seen = {}
        for number, line in tree.lines(path):
            match = re.match(r"(?:def|class) (\w+)", line)
            if match and match[1] in seen:
                yield path, number, f"{match[1]} stands in line {seen[match[1]]}, too; rename one, or remove it"
            elif match:
                seen[match[1]] = number


def clang_format():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if path and " version 14." in subprocess.run([path, "--version"], capture_output=True, text=True).stdout:
            return path
    return None


def code_is_formatted(tree):
    tool = clang_format()
    if tool is None:
        tree.note("clang-format 14 is not installed, so formatting was not checked; other versions format differently")
        return
    command = [tool, "--style=file", "--dry-run", *c_files(tree)]
    result = subprocess.run(command, cwd=tree.root, capture_output=True, text=True)
    places = re.findall(r"^([^:\n]+):(\d+):\d+: warning: code should be clang-formatted", result.stderr, re.M)
    for path, line in {path: line for path, line in reversed(places)}.items():
        yield path, int(line), "the first of the lines that are not formatted; run `make format`"
    if result.returncode != 0:
        yield ".clang-format", 1, f"clang-format failed: {result.stderr.strip()[:300]}"


RULES = [
    rooms_in_order,
    the_bar_holds,
    every_file_is_built,
    no_leftovers,
    lines_fit,
    no_tabs_or_loose_ends,
    files_are_short,
    functions_fit_a_screen,
    c_files_tell_their_idea,
    api_says_owner_and_thread,
    public_types_keep_their_form,
    headers_open_with_their_laws,
    scripts_stop_at_errors,
    links_resolve,
    versions_agree,
    requirements_are_pinned,
    names_stand_for_one_thing,
    code_is_formatted,
]
