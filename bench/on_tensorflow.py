"""Section "tensorflow": what reaches TensorFlow, and what it does with it, against its own ways.

Each part is a module with rows(root, build, quick, say), which returns rows, and NOTES. (Not named like the section:
programs of this folder import TensorFlow.)
"""

import mnist
import model
import record_dataset
import table
import train

PARTS = [model, record_dataset, train, mnist]


def measure(root, build, quick, say):
    rows = []
    for part in PARTS:
        for row in part.rows(root, build, quick, say):
            rows.append(row)
            say(f"tensorflow: {row.work}: {row.ratio or row.ours}")  # a later part may fail
    for row in rows if quick else ():
        row.met = None  # tiny data say nothing about speed
    notes = [note for part in PARTS for note in part.NOTES]
    return table.Section("tensorflow", "rows to results, and batches to a training step", rows, notes)
