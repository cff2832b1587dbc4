#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""All that the journals of a kept run say about a task: story.py FOLDER ID…"""
import json
import pathlib
import sys

import journal


def tell(folder, task):
    rest = json.loads((folder / "rest.json").read_text(encoding="utf-8"))["databases"]
    found = []
    tokens = {line["p"] for path in folder.glob("receiver*.journal") for line in journal.read(path)
              if line["id"] == task and "p" in line}
    calls = set()
    for path in sorted(folder.glob("producer*.journal")):
        for line in journal.read(path):
            items = line.get("items", ())
            mine = [item for item in items if isinstance(item, dict) and item["p"] in tokens or
                    isinstance(item, list) and item[0] == task]
            if mine or line.get("id") == task or line["c"] in calls:
                calls.add(line["c"])
                if mine or "items" not in line:
                    found.append((line["t"], "client", {**line, "items": mine}))
    for path in sorted(folder.glob("receiver*.journal")):
        found += [(line["t"], "receiver", line) for line in journal.read(path)
                  if line["id"] == task]
    shard = int(task[:3], 16) % len(rest["shards"])
    found += [(line[0], "database", line[1:]) for line in rest["lines"]
              if line[4] == task or line[1] == "bump" and line[3] == shard]
    for left in rest["left"]:
        found += [(line[0], "OLD PRIMARY", line[1:]) for line in left["lines"] if line[4] == task]
    begin, end = min(one[0] for one in found if one[1] == "client"), max(
        one[0] for one in found if one[1] != "database")
    for line in journal.read(folder / "nemesis.journal"):
        if begin - 12_000_000 < line["t"] < end + 3_000_000:
            found.append((line["t"], "nemesis", {k: v for k, v in line.items() if k != "shards"}))
    print(f"{task}, shard {shard}, times in s after it was asked for")
    for at_us, who, what in sorted(found, key=lambda one: one[0]):
        if begin - 12_000_000 < at_us < end + 3_000_000:
            print(f"  {(at_us - begin) / 1e6:9.4f} {who:<11} {what}")


if __name__ == "__main__":
    for name in sys.argv[2:]:
        tell(pathlib.Path(sys.argv[1]), name)
