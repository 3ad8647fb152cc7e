"""The symbol rule: what is loaded into processes of others neither sees foreign symbols nor shows its own.

TensorFlow exports over a thousand symbols of the libraries inside it into every process that loads it. A library of
ours that depended on a shared library, or exported more than it means to, would mix with them.
"""

import glob
import os
import re
import subprocess

import rules_text

ALLOWED = re.compile(r"lib(c|m|pthread|dl)\.so\.\d+|ld-linux[\w.-]*\.so\.\d+")
MAY_USE_LIBTFOS = re.compile(r"libtfos(jni|_ops)\.so|_\w+\.(abi3|cpython)[\w.-]*\.so")


def output_of(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def exported(path):
    return {line.split()[-1].split("@")[0] for line in output_of("nm", "-D", "--defined-only", path).splitlines()}


def needed(path):
    return re.findall(r"\(NEEDED\).*\[([^\]]+)\]", output_of("readelf", "-d", path))


def show(tree, path):
    return os.path.relpath(path, tree.root)


def extensions(tree):
    """The CPython extensions of the package that is installed in .venv, if it is."""
    package = os.path.join(tree.root, ".venv/lib/python3*/site-packages/tensorflowonspark")
    return [path for path in glob.glob(f"{package}/*.so") if not os.path.basename(path).startswith("libtfos")]


def loaded_elsewhere(tree):
    """Every file that is loaded into, or run beside, processes of others."""
    package = os.path.join(tree.root, ".venv/lib/python3*/site-packages/tensorflowonspark")
    found = [tree.built("src/libtfos.so"), tree.built("src/libtfos_ops.so"), tree.built("src/tfos")]
    found += glob.glob(tree.built("jvm/native/*/*.so")) + glob.glob(f"{package}/*.so")
    return [path for path in found if os.path.isfile(path)]


def library_is_built(tree):
    for name in ("src/libtfos.so", "src/libtfos_core.a"):
        if not os.path.isfile(tree.built(name)):
            yield show(tree, tree.built(name)), 1, "is not built, so was not checked; run scripts/build release"


def library_exports_the_api(tree):
    path = tree.built("src/libtfos.so")
    if not os.path.isfile(path):
        return
    declared = {name: (header, line) for name, header, line, _ in rules_text.declared_functions(tree)}
    symbols = exported(path)
    for name in sorted(symbols - set(declared)):
        yield show(tree, path), 1, f"exports {name}, which tfos.h does not declare; hide or declare it"
    for name in sorted(set(declared) - symbols):
        yield *declared[name], f"declares {name}, which libtfos.so does not export; write or remove it"


def shells_export_their_entry_only(tree):
    allowed = [(path, r"PyInit_\w+") for path in extensions(tree)]
    for path in glob.glob(tree.built("jvm/native/*/libtfosjni.so")):
        allowed.append((path, r"Java_org_tfos_\w+|JNI_On(Load|Unload)"))
    for path in glob.glob(tree.built("src/libtfos_ops.so")):
        allowed.append((path, r"no symbol"))  # its constructor is its entry
    for path, pattern in allowed:
        for name in sorted(exported(path)):
            if not re.fullmatch(pattern, name):
                yield show(tree, path), 1, f"exports {name}; hide it: only {pattern} may be seen"


def dependencies_are_few(tree):
    for path in loaded_elsewhere(tree):
        for library in needed(path):
            shared = library == "libtfos.so" and MAY_USE_LIBTFOS.fullmatch(os.path.basename(path))
            if not ALLOWED.fullmatch(library) and not shared:
                yield show(tree, path), 1, f"needs {library}; link it statically and hidden, or open it at run time"


def internal_names_have_our_prefix(tree):
    path = tree.built("src/libtfos_core.a")
    if not os.path.isfile(path):
        return
    declared = {name for name, *_ in rules_text.declared_functions(tree)}
    member = "?"
    for line in output_of("nm", "--defined-only", "--extern-only", path).splitlines():
        if line.endswith(".o:"):
            member = line[:-1]
        match = re.fullmatch(r"[0-9a-f]+ [A-Z] (\S+)", line)
        if match and not match[1].startswith("tfos__") and match[1] not in declared:
            yield show(tree, path), 1, f"{member} defines {match[1]}; make it static or call it tfos__{match[1]}"


RULES = [
    library_is_built,
    library_exports_the_api,
    shells_export_their_entry_only,
    dependencies_are_few,
    internal_names_have_our_prefix,
]
