#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The foliot command against a real broker (`foliot dev`): what each verb does to tasks and queues,
as its user sees it. Ends with "N passed, N failed"."""
import json
import os
import re
import subprocess
import sys
import time

import cases
import devmode

FOLIOT = devmode.FOLIOT
LIMIT_S = 30
NOBODY = "receiver://127.0.0.1:1"


class World:
    def __init__(self, dev):
        self.dev = dev
        self.err = ""

    def run(self, *words, code=0, stdin=b""):
        """Run the command; its standard output."""
        done = subprocess.run([FOLIOT, *words, "--address", self.dev.address], timeout=LIMIT_S,
                              input=stdin, capture_output=True, check=False,
                              env={**os.environ, "TZ": "UTC", "XDG_CONFIG_HOME": "/nonexistent"})
        self.err = done.stderr.decode()
        assert done.returncode == code, (words, done.returncode, done.stdout, self.err)
        return done.stdout.decode()

    def ask(self, *words, code=0):
        """The same with JSON."""
        return json.loads(self.run(*words, "-o", "json", code=code))

    def queue(self, name, target=NOBODY, *options):
        self.run("queue", "create", name, "-t", target, *options)
        return name

    def create(self, queue, *options):
        return self.run("task", "create", "-q", queue, *options, "-o", "name").strip()

    def dead(self, queue, count):
        """A queue with dead letters: nobody takes its tasks, and one failure is enough."""
        self.queue(queue, NOBODY, "--failures-max", "1", "--unknowns-max", "1",
                   "--attempt-timeout", "1s")
        ids = [self.create(queue, "--tag", f"number={number}") for number in range(count)]
        wait(lambda: len(self.run("dead", "list", "-q", queue, "-o", "name").split()) == count)
        return ids


def wait(is_true, what="it never came true"):
    """Ask until it is so."""
    end = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def a_task_is_made_shown_changed_and_cancelled(world):
    world.queue("life")
    made = world.ask("task", "create", "-q", "life", "--at", "1h", "-k", "order-17", "-p", "hello",
                     "--tag", "shop=7", "--expires", "2h")
    view = world.ask("task", "get", made["id"])
    assert view["state"] == "TASK_STATE_WAITING" and view["key"] == "order-17", view
    assert view["tags"] == {"shop": "7"} and "expireTime" in view, view
    assert world.ask("task", "get", "-q", "life", "-k", "order-17") == view
    assert re.search("^payload +hello$", world.run("task", "get", made["id"]), re.M)
    again = world.ask("task", "create", "-q", "life", "-k", "order-17")
    assert (again["id"], again["created"]) == (made["id"], False), again
    world.run("task", "create", "-q", "life", "-k", "order-17", "--key-policy", "reject", code=5)
    assert "KEY_EXISTS" in world.err, world.err
    moved = world.ask("task", "update", made["id"], "--at", "tomorrow 09:00")
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT09:00:00.000Z", moved["dueTime"]), moved
    assert "CANCELLED" in world.run("task", "cancel", made["id"])
    world.run("task", "get", made["id"], code=3)
    assert "TASK_GONE" in world.err, world.err
    world.run("task", "get", "fff-0000000000000009", code=3)
    world.run("task", "create", "-q", "none", code=3)
    assert "QUEUE_NOT_FOUND" in world.err, world.err


def a_task_is_run_now_and_followed_to_its_end(world):
    world.run("queue", "update", "default", "--result-memory", "1h")
    task = world.create("default", "--at", "1h")
    assert f"{task} runs now, due " in world.run("task", "run", task)
    lines = world.run("task", "watch", task, "--interval", "100ms", "-o", "jsonl").splitlines()
    assert json.loads(lines[-1])["state"] == "TASK_STATE_DONE", lines
    assert world.ask("task", "get", task)["state"] == "TASK_STATE_DONE"


def tasks_are_listed_by_what_they_are(world):
    world.queue("listed")
    ids = [world.create("listed", "--at", f"{hour}h", "--tag", f"even={hour % 2 == 0}")
           for hour in range(1, 21)]
    found = world.ask("task", "list", "-q", "listed")
    assert sorted(task["id"] for task in found["tasks"]) == sorted(ids) and not world.err, found
    soon = world.run("task", "list", "-q", "listed", "--due-before", "5h30m", "-o", "name").split()
    assert sorted(soon) == sorted(ids[:5]), soon
    late = world.run("task", "list", "-q", "listed", "--due-from", "15h30m", "-o", "name").split()
    assert sorted(late) == sorted(ids[15:]), late
    even = world.run("task", "list", "-q", "listed", "--tag", "even=True", "-o", "name").split()
    assert sorted(even) == sorted(ids[1::2]), even
    assert world.run("task", "list", "-q", "listed", "--state", "retrying", "-o", "name") == ""
    pages, token = [], []
    while not pages or token[1]:
        page = world.ask("task", "list", "-q", "listed", "--limit", "7", *token)
        pages += [task["id"] for task in page["tasks"]]
        token = ["--page-token", page["nextPageToken"]]
    assert sorted(pages) == sorted(ids), pages
    table = world.run("task", "list", "-q", "listed", "-o", "wide")
    assert len(table.splitlines()) == 21 and "even=True" in table and " in " not in table.split()[0]


def many_are_cancelled_by_a_filter(world):
    world.queue("many")
    keep = world.create("many", "--at", "9h")
    world.run("bench", "record", "-q", "many", "-c", "1500", "--batch", "500", "--delay-min", "1h")
    assert world.ask("task", "cancel", "-q", "many", "--due-before", "2h", "--dry-run")["matched"] == 1500
    done = world.ask("task", "cancel", "-q", "many", "--due-before", "2h", "--yes")
    assert done == {"matched": 1500, "cancelled": 1500, "stopped": 0, "gone": 0, "failed": 0}, done
    left = world.run("task", "list", "-q", "many", "-o", "name").split()
    assert left == [keep], left


def a_waiting_task_is_explained(world):
    world.queue("why")
    task = world.create("why", "--at", "1h")
    why = world.ask("task", "explain", task)
    assert why["reason"] == "WAIT_REASON_DUE_TIME" and why["task"]["id"] == task, why


def a_task_of_a_paused_queue_is_explained(world):
    world.queue("paused")
    world.run("queue", "pause", "paused", "--for", "1h")
    now = world.create("paused")
    why = world.ask("task", "explain", now)
    assert why["reason"] == "WAIT_REASON_QUEUE_PAUSED" and why["text"], why


def a_queue_lives_and_dies(world):
    world.queue("short")
    task = world.create("short", "--at", "1h")
    shown = world.ask("queue", "pause", "short", "--until", "tomorrow 09:00")["queue"]
    assert shown["state"] == "QUEUE_STATE_PAUSED" and shown["pausedUntil"].endswith("09:00:00.000Z")
    assert world.ask("queue", "resume", "short")["queue"]["state"] == "QUEUE_STATE_ACTIVE"
    assert world.ask("queue", "drain", "short")["queue"]["state"] == "QUEUE_STATE_DRAINING"
    world.run("task", "create", "-q", "short", code=5)
    assert "QUEUE_DRAINING" in world.err, world.err
    world.run("queue", "delete", "short", code=5)
    world.run("task", "cancel", task)
    stats = world.ask("queue", "stats", "short")["stats"]
    assert (stats["pending"], stats["dead"]) == ("0", "0"), stats
    assert "deleted" in world.run("queue", "delete", "short")
    world.run("queue", "get", "short", code=3)
    assert "short" not in world.run("queue", "list", "-o", "name").split()


def dead_letters_are_looked_at_and_given_another_chance(world):
    ids = world.dead("lost", 5)
    letters = world.ask("dead", "list", "-q", "lost")["dead"]
    assert sorted(letter["id"] for letter in letters) == sorted(ids), letters
    assert all(letter["error"] for letter in letters), letters
    groups = world.ask("dead", "groups", "-q", "lost")
    assert [group["count"] for group in groups["groups"]] == ["5"], groups
    assert world.ask("task", "get", ids[0])["state"] == "TASK_STATE_DEAD"
    assert world.ask("dead", "redrive", "-q", "lost", "--all", "--dry-run")["matched"] == "5"
    world.run("queue", "update", "lost", "-t",
              world.ask("queue", "get", "default")["queue"]["target"])
    done = world.ask("dead", "redrive", "-q", "lost", "--yes", ids[0])
    assert done == {"matched": "1", "redriven": "1", "skipped": "0"}, done
    done = world.ask("dead", "redrive", "-q", "lost", "--all", "--yes")
    assert done["redriven"] == "4", done
    assert world.run("dead", "list", "-q", "lost", "-o", "name") == ""


def dead_letters_are_purged(world):
    ids = world.dead("dust", 3)
    done = world.ask("dead", "purge", "-q", "dust", "--yes", ids[1])
    assert done["purged"] == "1", done
    assert world.ask("dead", "purge", "-q", "dust", "--error", "no such text", "--yes")["matched"] == "0"
    assert world.ask("dead", "purge", "-q", "dust", "--all", "--yes")["purged"] == "2"
    world.run("task", "get", ids[0], code=3)


def figures_count_what_there_is(world):
    world.dead("counted", 2)
    world.run("queue", "update", "counted", "--failures-max", "9")
    for hours in (2, 1, 3):
        world.create("counted", "--at", f"{hours}h")
    stats = world.ask("queue", "stats", "counted")["stats"]
    assert (stats["pending"], stats["overdue"], stats["dead"]) == ("3", "0", "2"), stats
    assert int(stats["died"]) == 2 and stats["missingShards"] == [], stats


def the_cluster_is_shown(world):
    out = world.run("cluster", "status")
    assert re.match(r"cluster \S+: 1 broker, \d+ shards, 0 without owner", out), out
    shards = world.run("cluster", "shards", "-o", "jsonl").splitlines()
    assert all(json.loads(line)["state"] == "SHARD_STATE_ACTIVE" for line in shards), shards


if __name__ == "__main__":
    sys.exit(cases.play_on_dev(cases.of(globals()), World))
