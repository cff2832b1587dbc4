#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The database is restored to an earlier moment, as docs/OPERATIONS.md says: what waited at the
backup runs, what was done between the backup and its loss runs again, with the same numbers, what
was over before it does not, and no id is issued twice. Ends with "N passed, N failed"."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16
COUNT = 200
PG_BIN = pathlib.Path("/usr/lib/postgresql/15/bin")
STOP_S = 30


def as_server(*command):
    """PostgreSQL's own programs, as the user that its data belong to."""
    user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    subprocess.run([*user, *map(str, command)], check=True, capture_output=True, cwd="/")


def make(cluster, name, delay_min, delay_max):
    """Tasks that are answered; their ids."""
    load = cluster.start_load(name, "--queue", "work", "--count", str(COUNT), "--delay-min",
                              delay_min, "--delay-max", delay_max)
    harness.until(f"{name} to be created", lambda: not load.alive(), 60)
    judge = harness.Judge(SHARDS)
    judge.read_load(load.out)
    if len(judge.answered) != COUNT:
        raise RuntimeError(f"{len(judge.answered)} of {name} were created")
    return set(judge.answered)


def attempts(cluster):
    judge = harness.Judge(SHARDS)
    judge.read_receiver(cluster.receiver.out)
    return judge


def run_out(cluster, tasks, times=1):
    """All of them have come so often."""
    harness.until(f"{len(tasks)} tasks to have come {times} times", lambda: all(
        len(attempts(cluster).attempts.get(task, [])) >= times for task in tasks), 60)


def settled(cluster):
    """Their outcomes are written, too: nothing is pending but what is due later."""
    psql = harness.Psql(cluster.pg[0])
    harness.until("what has come to be settled", lambda: psql.ask(
        "SELECT count(*) FROM foliot.pending WHERE due < now() + interval '1 second'") == ["0"])
    psql.close()


def stop_all(cluster):
    for broker in cluster.brokers.values():
        broker.signal(signal.SIGTERM)
        if broker.popen.wait(STOP_S) != 0:
            raise RuntimeError(f"{broker.name} ended badly: see {broker.err}")


def start_all(cluster):
    for name in ("a", "b"):
        cluster.start_broker(name)
    cluster.wait_ready()


def run(cluster):
    start_all(cluster)
    cluster.start_receiver()
    cluster.cli("queue", "create", "work", "--target", f"receiver://{cluster.target}")
    over = make(cluster, "over", "0ms", "10ms")
    run_out(cluster, over)
    settled(cluster)
    between = make(cluster, "between", "10s", "11s")
    later = make(cluster, "later", "25s", "26s")
    folder = cluster.servers / "pg0"
    backup = folder / "backup"
    admin = cluster.pg[0].replace("user=foliot", "user=postgres").replace("dbname=foliot",
                                                                           "dbname=postgres")
    as_server(PG_BIN / "pg_basebackup", "-d", admin, "-D", backup, "-X", "stream", "-c", "fast",
              "--no-sync")  # It has no power cut to survive, and ten seconds.
    if attempts(cluster).attempts.keys() & between:
        raise RuntimeError("the backup took longer than ten seconds")
    since = make(cluster, "since", "0ms", "10ms") | make(cluster, "lost", "25s", "26s")
    run_out(cluster, between)
    settled(cluster)
    stop_all(cluster)
    cluster.server("kill-pg")
    shutil.move(folder / "data", folder / "lost")
    shutil.move(backup, folder / "data")
    cluster.server("start-pg")
    start_all(cluster)
    after = make(cluster, "after", "0ms", "10ms")
    run_out(cluster, after | later)
    run_out(cluster, between, 2)
    settled(cluster)
    return judge_all(attempts(cluster), over, between, later, since, after) + auditor.faults(
        cluster.pages)


def judge_all(judge, over, between, later, since, after):
    faults = []
    before = over | between | later | since
    if after & before:
        faults.append(f"ids were issued twice: {sorted(after & before)[:3]}")
    for name, tasks, times in (("over", over, 1), ("between", between, 2), ("later", later, 1),
                               ("after", after, 1)):
        wrong = [task for task in tasks if len(judge.attempts[task]) != times]
        if wrong:
            faults.append(f"{len(wrong)} of {name} did not come {times} times, such as "
                          f"{wrong[0]}: {judge.attempts[wrong[0]]}")
    numbers = {tuple(line["attempt"] for line in judge.attempts[task]) for task in between}
    if numbers != {(1, 1)}:
        faults.append(f"what ran again has the numbers {numbers}")
    if judge.early():
        faults.append(f"early: {judge.early()[0]}")
    print(f"    {len(over)} over before it once, {len(between)} done since twice, {len(later)} that "
          f"waited once; of {len(since)} created since none is known any more", flush=True)
    return faults


def main():
    print("  a restored database goes on from its backup", flush=True)
    with harness.Cluster(os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev")), SHARDS,
                         broker_options=auditor.OPTIONS) as cluster:
        try:
            faults = run(cluster)
        except (RuntimeError, subprocess.SubprocessError) as error:
            faults = [f"{error} {getattr(error, 'stderr', '') or ''}"]
    for fault in faults:
        print(f"    FAIL {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    harness.exit_with(main)
