"""Starts the command `tfos` that lies in this package."""

import os
import sys


def main() -> None:
    command = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin", "tfos")
    if not os.access(command, os.X_OK):
        sys.exit(f"tfos: {command} is missing: this package was built without the command; install it again")
    os.execv(command, ["tfos", *sys.argv[1:]])
