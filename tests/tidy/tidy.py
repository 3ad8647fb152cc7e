"""Checks what the compiler does not: the order of the rooms, what is exported, comments, names, lengths, links.

    python3 tests/tidy/tidy.py [--root FOLDER] [--build FOLDER] [--self-test]

Each breach is printed as "path:line: what is wrong, and what to do". A rule is a function of a Tree that yields
breaches; samples.py has for each rule trees that it must object to, which every run verifies first. The last line is
"N passed, N failed", counting the rules and their samples.
"""

import argparse
import os
import subprocess
import sys

import rules_binary
import rules_text
import samples

RULES = rules_text.RULES + rules_binary.RULES


class Tree:
    """The files of the project, without what was built or downloaded."""

    SKIPPED = {".git", ".venv", "build", "target", "__pycache__", ".pytest_cache", ".hypothesis", "node_modules"}

    def __init__(self, root, build):
        self.root = root
        self.build = build
        self.notes = []
        self.paths = sorted(self._walk())

    def _walk(self):
        for folder, folders, names in os.walk(self.root):
            folders[:] = [name for name in folders if name not in self.SKIPPED and not name.endswith(".egg-info")]
            for name in names:
                yield os.path.relpath(os.path.join(folder, name), self.root)

    def under(self, folder, *endings):
        return [path for path in self.paths if path.startswith(folder) and path.endswith(endings)]

    def has(self, path):
        return os.path.exists(os.path.join(self.root, path))

    def text(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8", errors="surrogateescape") as file:
            return file.read()

    def lines(self, path):
        return list(enumerate(self.text(path).split("\n"), 1))

    def built(self, path):
        return os.path.join(self.root, self.build, path)

    def note(self, text):
        self.notes.append(text)


def run_rule(rule, tree):
    """Prints the breaches of a rule and says whether there were none."""
    try:
        breaches = list(rule(tree))
    except (OSError, subprocess.CalledProcessError) as error:
        breaches = [("tests/tidy", 1, f"the rule {rule.__name__} could not be checked: {error}")]
    for path, line, text in breaches:
        print(f"{path}:{line}: {text}")
    for note in tree.notes:
        print(f"note: {note}")
    tree.notes.clear()
    return not breaches


def self_test(tree_class):
    """One result for each rule: whether it passes its good sample and objects to each bad one."""
    for rule in RULES:
        problems = samples.problems_of(rule, tree_class)
        for problem in problems:
            print(f"tests/tidy/samples.py:1: the rule {rule.__name__} {problem}")
        yield not problems


def main():
    here = os.path.dirname(os.path.abspath(__file__))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(here)), help="the folder of the project")
    parser.add_argument("--build", default="build/release", help="where it was built, below the root")
    parser.add_argument("--self-test", action="store_true", help="only test the rules themselves")
    arguments = parser.parse_args()
    results = list(self_test(Tree))
    if not arguments.self_test:
        tree = Tree(arguments.root, arguments.build)
        results += [run_rule(rule, tree) for rule in RULES]
    print(f"{results.count(True)} passed, {results.count(False)} failed")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
