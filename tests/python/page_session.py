"""What the blocks of Python of a page are typed into, as into a notebook: TensorFlow and a JVM are started once a page.

A line of JSON for each block comes in; it is run under names of its own, and so must bring all that it uses. A line
goes out: null, or what it has raised. What blocks print goes where errors go.
"""

import json
import os
import sys
import traceback
import types

blocks, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
os.dup2(2, 1)


def run(block):
    sys.modules["__main__"] = module = types.ModuleType("__main__")
    try:
        exec(compile(block, "<block>", "exec"), module.__dict__)
    except BaseException:
        return traceback.format_exc()
    return None


for line in blocks:
    print(json.dumps(run(json.loads(line))), file=answers, flush=True)
