#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Brokers that ask for a shorter session than ZooKeeper's servers grant go by the one they were given:
when another one takes their shards, when a stuck loop ends its process and fails /livez, when shards
of a database that takes no writes are given up. Each would come far too early by what they asked
for. Ends with "N passed, N failed".
"""
import os
import pathlib
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402
import processes  # noqa: E402

SHARDS = 8
ASKED = "1s"
GRANTED_S = 8
PAUSE_S = 3      # Past what was asked for and a tick; half of what was granted is left of it.
BEAT_S = 0.5     # What is counted may have begun so long before a fault.


def grant(cluster):
    """ZooKeeper with a shortest session of its own."""
    cluster.server("kill-zk")
    settings = cluster.servers / "zk0/zoo.cfg"
    text = settings.read_text().replace("minSessionTimeout=1000",
                                        f"minSessionTimeout={GRANTED_S * 1000}")
    assert f"minSessionTimeout={GRANTED_S * 1000}\n" in text, text
    settings.write_text(text)
    cluster.server("start-zk")


def epochs(cluster):
    """Of all shards and whose they are: by the database, for a broker may be behind."""
    psql = harness.Psql(cluster.pg[0])
    try:
        return psql.ask("SELECT id, epoch, owner FROM foliot_data.shard ORDER BY id")
    finally:
        psql.close()


def share_out(cluster):
    harness.until("the shards to be shared", lambda: all(
        broker.is_ready() and broker.metric("foliot_shards_owned") == SHARDS / 2
        for broker in cluster.brokers.values()))


def a_broker_says_what_it_was_given(cluster):
    for broker in cluster.brokers.values():
        lines = [line for line in harness.json_lines(broker.err)
                 if line["msg"] == "cluster is read"]
        assert [line["session_timeout_ms"] for line in lines] == [GRANTED_S * 1000], lines


def a_pause_longer_than_what_was_asked_for_costs_no_shard(cluster):
    before = epochs(cluster)
    cluster.brokers["b"].signal(signal.SIGSTOP)
    time.sleep(PAUSE_S)
    cluster.brokers["b"].signal(signal.SIGCONT)
    time.sleep(PAUSE_S)  # Whoever were to take its shards would have begun to.
    harness.until("it to answer", cluster.brokers["b"].is_ready)
    assert epochs(cluster) == before, (before, epochs(cluster))


def shards_of_a_database_that_is_away_are_kept_for_it(cluster):
    start = time.monotonic()
    cluster.server("kill-pg")
    harness.until("the shards to be given up", lambda: cluster.owned() < SHARDS)
    took_s = time.monotonic() - start
    cluster.server("start-pg")
    share_out(cluster)
    print(f"    given up after {took_s:.1f} s", flush=True)
    assert took_s > GRANTED_S - BEAT_S, took_s


def a_stuck_loop_is_alive_for_it(cluster):
    """The loop's thread is held by ptrace; /livez answers from another one."""
    broker = cluster.brokers.pop("b")
    start = time.monotonic()
    with subprocess.Popen(processes.tied([sys.executable, ROOT / "tests/chaos/stuck.py",
                                          str(broker.popen.pid)]), stdout=subprocess.PIPE,
                          text=True) as tracer:
        said = tracer.stdout.readline().strip()
        if said != "held":
            print(f"    left out: ptrace says {said}")
            cluster.brokers["b"] = broker
            return
        try:
            alive = 200
            while tracer.poll() is None and time.monotonic() - start < 30:
                alive = broker.get("/livez")[0] or alive
                assert alive == 200, f"not alive after {time.monotonic() - start:.1f} s"
                time.sleep(0.05)
        finally:
            tracer.kill()  # Else the broker would be held, and we would wait, for ever.
    took_s = time.monotonic() - start
    assert broker.popen.wait(5) == -signal.SIGABRT, broker.popen.returncode
    print(f"    ended by its watchdog after {took_s:.1f} s", flush=True)
    assert took_s > GRANTED_S - BEAT_S, took_s
    cluster.start_broker("b")
    share_out(cluster)
    left = auditor.faults(cluster.pages)
    assert not left, left


CASES = [a_broker_says_what_it_was_given, a_pause_longer_than_what_was_asked_for_costs_no_shard,
         shards_of_a_database_that_is_away_are_kept_for_it, a_stuck_loop_is_alive_for_it]


def main():
    build = os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev"))
    options = [*auditor.OPTIONS, "--zookeeper-session-timeout", ASKED]
    with harness.Cluster(build, SHARDS, broker_options=options) as cluster:
        grant(cluster)
        for name in ("a", "b"):
            cluster.start_broker(name)
        share_out(cluster)
        return cases.finish(*cases.run(CASES, cluster))


if __name__ == "__main__":
    harness.exit_with(main)
