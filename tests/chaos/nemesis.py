#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes under load, hurt at random, and judged by journals.

  nemesis.py [--seconds N] [--seed N] [--zookeepers 1|3] [--rate N] [--only KIND,…] [--plan]
             [--page FILE]

The seed decides what is hurt, when and for how long; --plan prints that and does nothing.
--page writes the table in Markdown, too. FOLIOT_KEEP=1 (or failed) keeps the folder with all logs and journals, --again FOLDER judges such a
folder once more. Ends with "N passed, N failed".
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools"), str(HERE.parent / "lib")]
import auditor  # noqa: E402
import cluster as harness  # noqa: E402
import faults  # noqa: E402
import history  # noqa: E402
import journal  # noqa: E402
import judge as judges  # noqa: E402
import plan as plans  # noqa: E402
import report  # noqa: E402
import stalls  # noqa: E402
import witness  # noqa: E402
import world as worlds  # noqa: E402

SETTLE_S = 90  # Most time for producers to end and for the last task to be attempted.
AGREE_S = 10   # Most time until all brokers agree, behind that.
SOON_MS = 60_000
SERVED_S = 60  # Most time for every shard to be served again.


class Lane(threading.Thread):
    """Does its faults one after the other. It lives until the program ends, for what it has started
    would end with it. On a machine so slow that faults take longer than was planned those at the end
    are not begun: the last one has to be over when the run is."""

    def __init__(self, world, turns, lines, begin, seconds):
        super().__init__(daemon=True)
        self.world, self.turns, self.lines, self.start_s = world, turns, lines, begin
        self.end_s = begin + seconds
        self.unbegun = 0
        self.is_done = False
        self.error = None

    def run(self):
        for number, line in self.lines:
            calm_s = line.get("calm_s", 0)
            time.sleep(max(0, self.start_s + line["at_s"] - calm_s - time.monotonic()))
            if self.world.is_ended:
                break
            try:
                with self.turns.taken(line["lane"] == "alone"):
                    if time.monotonic() > self.end_s:
                        self.unbegun += 1
                        continue
                    time.sleep(calm_s)
                    faults.Fault(self.world, number, line).play()
                    time.sleep(calm_s)
            except Exception as error:  # pylint: disable=broad-except
                self.error = f"{line['kind']}: {error!r}"
                break
        self.is_done = True
        threading.Event().wait()


def heal(world):
    """Nothing is hurt any more; how long it took until every shard was served."""
    world.links.mode(list(world.links.ports), "pass")
    begin = time.monotonic()
    world.journal.write(kind="heal")
    heal_us = journal.now_us()
    while time.monotonic() < begin + SERVED_S:
        if world.keeper.seen_us > heal_us and world.keeper.all_served():
            return round(time.monotonic() - begin, 2)
        time.sleep(0.05)
    return None


def overdue(world):
    """Tasks in the databases that are due, or will be within a minute: those of the load that are
    not to be done for hours do not count."""
    now_ms = int(time.time() * 1000) + SOON_MS
    return sum(int(world.pg[number].ask(
        f"SELECT count(*) FROM foliot.pending WHERE due < to_timestamp({now_ms} / 1000.0)",
        database)[0]) for number, names in worlds.DATABASES.items() for database in names)


def settle(world):
    """End the load and wait until nothing is overdue; how long that took."""
    begin = time.monotonic()
    for producer in world.producers:
        producer.signal(15)
    while time.monotonic() < begin + SETTLE_S:
        if not any(producer.alive() for producer in world.producers) and overdue(world) == 0:
            break
        time.sleep(0.5)
    return round(time.monotonic() - begin, 1)


def fault_of_check(world):
    """What `foliot cluster check` has to say against the cluster, once it has had time to agree."""
    end = time.monotonic() + AGREE_S
    while True:
        try:
            world.cli("cluster", "check")
            return ""
        except (RuntimeError, OSError) as error:
            if time.monotonic() > end:
                return str(error)
        time.sleep(0.5)


def pages_of(world):
    """The metrics of the brokers that are to be well."""
    return {broker.name: broker.get("/metrics")[1] for broker in list(world.brokers.values())}


def sanitizer_reports(world):
    """The first lines of what they have found in the brokers that have ended."""
    return [path.read_text(errors="replace")[:500] for path in world.folder.glob("report.*")]


def databases_of(world):
    """What is in the databases at the end, for the judge."""
    found = {"shards": world.keeper.databases, "lines": [], "pending": [], "dead": [],
             "left": world.left}
    for number, names in worlds.DATABASES.items():
        for database in names:
            server = world.pg[number]
            found["lines"] += witness.read_lines(server, database)
            found["pending"] += witness.read_rows(server, database, witness.PENDING)
            found["dead"] += witness.read_rows(server, database, witness.DEAD)
    return found


def run(world, options, lines):
    """The whole run; the judge over it."""
    probe = stalls.Stalls(world.folder)
    probe.start()
    begin_us = journal.now_us()
    world.start_producers(options.rate)
    begin = time.monotonic()
    numbered = list(enumerate(lines))
    turns = faults.Turns()
    lanes = [Lane(world, turns, [one for one in numbered if one[1]["lane"] == name], begin,
                  options.seconds)
             for name in (*plans.LANES, "alone")]
    for lane in lanes:
        lane.start()
    time.sleep(max(0, begin + options.seconds - time.monotonic()))
    harness.until("the last fault to be over", lambda: all(lane.is_done for lane in lanes), 120)
    unbegun = sum(lane.unbegun for lane in lanes)
    if unbegun > 0:
        print(f"nemesis: the machine was too slow for {unbegun} of the {len(lines)} faults; they "
              "were not begun", flush=True)
    heal_us = journal.now_us()
    served_s = heal(world)
    probe.read()
    stalled = probe.excuses(heal_us, journal.now_us())
    quiet_s = settle(world)
    time.sleep(1)
    quiet = {"served_s": served_s, "quiet_s": quiet_s, "stalled": stalled,
             "figures": {"overdue tasks at the end": overdue(world),
                         "cluster check": fault_of_check(world),
                         "the auditors' figures": auditor.faults(lambda: pages_of(world)),
                         "reports of sanitizers": sanitizer_reports(world),
                         "faults of the nemesis itself": [one.error for one in lanes if one.error],
                         "more than a quarter of the faults were not begun":
                             unbegun if 4 * unbegun > len(lines) else 0,
                         "producers that have not ended": sum(p.alive() for p in world.producers)}}
    probe.stop()
    quiet |= {"spans": probe.spans, "samples": probe.samples}
    share = probe.within(begin_us, journal.now_us()) / (journal.now_us() - begin_us)
    databases = databases_of(world)
    rest = {"quiet": quiet, "stalled": share, "databases": databases}
    (world.folder / "rest.json").write_text(json.dumps(rest), encoding="utf-8")
    return judge_folder(world.folder, options.page, about(options))


def about(options):
    """What was run, and on what, for the page."""
    commit = subprocess.run(["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"], check=False,
                            capture_output=True, text=True).stdout.strip() or "unknown"
    load = ", ".join(f"{one:.1f}" for one in os.getloadavg())
    return (f"`make chaos CHAOS_SECONDS={options.seconds} CHAOS_SEED={options.seed} "
            f"ZOOKEEPERS={options.zookeepers} CHAOS_RATE={options.rate}`, commit {commit}, "
            f"{os.cpu_count()} cores, load at the end {load}.")


def judge_folder(folder, page=None, text=""):
    """Judge what lies in the folder of a run; how many promises were broken."""
    rest = json.loads((folder / "rest.json").read_text(encoding="utf-8"))
    databases = rest["databases"]
    databases["shards"] = {int(shard): name for shard, name in databases["shards"].items()}
    judge = judges.Judge(history.read(folder, databases), rest["quiet"])
    report.print_table(judge, rest["stalled"])
    if page:
        report.write_page(page, judge, rest["stalled"], text)
    return report.print_verdicts(judge)


def print_plan(lines):
    for line in lines:
        more = ", ".join(f"{name} {value}" for name, value in line.items()
                         if name not in ("lane", "at_s", "kind", "lasts_s", "calm_s"))
        alone = ", alone" if line["lane"] == "alone" else ""
        print(f"  {line['at_s']:6.1f} s  {line['kind']:<10} {line['lasts_s']:5.1f} s  {more}{alone}")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=180)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1, 10**6))
    parser.add_argument("--zookeepers", type=int, choices=(1, 3), default=3)
    parser.add_argument("--rate", type=int, default=300)
    parser.add_argument("--only", default="")
    parser.add_argument("--build", default=os.environ.get("BUILD", "dev"))
    parser.add_argument("--page", type=pathlib.Path)
    parser.add_argument("--plan", action="store_true")
    parser.add_argument("--again", type=pathlib.Path)
    return parser.parse_args()


def main():
    options = parse()
    if options.again:
        return 1 if judge_folder(options.again, options.page, about(options)) else 0
    only = tuple(filter(None, options.only.split(",")))
    lines = plans.make(options.seed, options.seconds, only)
    print(f"nemesis: seed {options.seed}, {options.seconds} s, {options.zookeepers} ZooKeeper, "
          f"{options.rate} tasks/s; again: tests/chaos/nemesis.py --seed {options.seed} --seconds "
          f"{options.seconds} --zookeepers {options.zookeepers} --rate {options.rate}", flush=True)
    print_plan(lines)
    sys.stdout.flush()
    if options.plan:
        return 0
    with worlds.World(options.build, options.seed, options.zookeepers) as world:
        world.has_failed = run(world, options, lines) > 0
        return int(world.has_failed)


if __name__ == "__main__":
    harness.exit_with(main)
