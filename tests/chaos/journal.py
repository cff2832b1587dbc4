# SPDX-License-Identifier: Apache-2.0
"""Journals: JSON lines that each process writes with its own clock, in microseconds since 1970."""
import json
import time


def now_us():
    return time.time_ns() // 1000


class Writer:
    """Appends lines; each is with the kernel before write() returns, so that a kill loses none."""

    def __init__(self, path):
        self.file = open(path, "ab", buffering=0)  # pylint: disable=consider-using-with

    def write(self, **fields):
        fields.setdefault("t", now_us())
        self.file.write(json.dumps(fields, separators=(",", ":")).encode() + b"\n")

    def close(self):
        self.file.close()


def read(path):
    """The whole lines; one that is still being written is left out."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.endswith("\n")]
