#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real processes, really hurt, under load; judged by what clients were answered and what the
receiver's own clock saw.

  chaos.py [--kills N] [--pause SECONDS] [--away SECONDS] [--build PRESET] [--rate N] [SCENARIO …]

Scenarios: kills (kill -9 of brokers in turn), pause (SIGSTOP, 10 s), postgres (kill -9 and restart),
zookeeper (stopped for 20 s, or --away). Ends with "N passed, N failed".
"""
import datetime
import json
import os
import signal
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tools"), os.path.join(HERE, "../lib")]
import audit as witness  # noqa: E402
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 32
SESSION_S = 4
TICK_S = 0.5
SLACK_S = 1    # The promise after a kill: session timeout, a tick, and this.
STALL_MS = 50  # A window in which a 5 ms sleep took longer than this excuses timing bounds.
QUIET_S = 45   # Most time for the last task to be attempted after the load has ended.


class StallProbe(threading.Thread):
    """Sleeps 5 ms at a time and remembers when that took far longer: the machine's own stalls."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stalls = []
        self.end = False

    def run(self):
        while not self.end:
            before = time.time_ns() // 1000
            time.sleep(0.005)
            after = time.time_ns() // 1000
            if after - before > STALL_MS * 1000:
                self.stalls.append((before, after))

    def share(self, start_us, end_us):
        """Part of a span that was stalled."""
        stalled = sum(max(0, min(b, end_us) - max(a, start_us)) for a, b in self.stalls)
        return stalled / max(1, end_us - start_us)


class DiskProbe(threading.Thread):
    """Writes a byte to the disk 20 times a second and remembers how long that took. It excuses
    nothing: it tells a slow disk from a slow broker, for a take-over waits for five commits in a
    row, three of ZooKeeper and two of PostgreSQL."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self.file = os.open(folder / "probe", os.O_CREAT | os.O_WRONLY)
        self.writes = []
        self.end = False

    def run(self):
        while not self.end:
            before = time.time_ns() // 1000
            os.write(self.file, b"x")
            os.fsync(self.file)
            self.writes.append((before, time.time_ns() // 1000 - before))
            time.sleep(0.05)

    def slowest_ms(self, start_us, end_us):
        return max((took for at, took in self.writes if start_us <= at < end_us), default=0) / 1000


class Run:
    """One scenario's cluster, load and verdict."""

    def __init__(self, options, seconds):
        self.options = options
        self.seconds = seconds
        self.cluster = harness.Cluster(options.build, SHARDS,
                                       broker_options=auditor.OPTIONS)
        self.judge = harness.Judge(SHARDS)
        self.faults = []
        self.probe = StallProbe()
        self.disk = DiskProbe(self.cluster.folder)

    def __enter__(self):
        self.cluster.__enter__()
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self):
        for name in ("a", "b"):
            self.cluster.start_broker(name)
        self.cluster.wait_ready()
        self.cluster.start_receiver()
        self.cluster.cli("queue", "create", "chaos", "--target",
                         f"receiver://{self.cluster.target}", "--attempt-timeout", "1s")
        self.audit = witness.Audit(self.cluster.pg[0])
        self.probe.start()
        self.disk.start()
        rate = self.options.rate
        self.load = self.cluster.start_load(
            "load", "--queue", "chaos", "--rate", str(rate), "--count", str(rate * self.seconds),
            "--delay-min", "0s", "--delay-max", "3s", "--keyed", "--patience", "60s")

    def __exit__(self, *error):
        self.probe.end = self.disk.end = True
        self.cluster.__exit__(*error)

    def expect(self, is_true, text):
        if not is_true:
            self.faults.append(text)

    def restart(self, name):
        self.cluster.start_broker(name)
        self.cluster.wait_ready()

    def share_out(self):
        """Both brokers have half of the shards again."""
        self.cluster.wait_shared()

    def check_audit(self):
        """Every call had a committed claim before it, every task ended once, nobody wrote to a
        shard that was not its own."""
        claims = self.audit.lines("claim")
        self.claims = {(line.task, line.attempt): line for line in claims}
        self.expect(len(self.claims) == len(claims), "an attempt was claimed twice")
        unclaimed = [call for calls in self.judge.attempts.values() for call in calls
                     if (call["taskId"], call["attempt"]) not in self.claims or
                     self.claims[call["taskId"], call["attempt"]].at_us > call["actualUs"]]
        self.expect(not unclaimed, f"calls without a claim before them: {unclaimed[:3]}")
        ends = [line.task for line in self.audit.lines("end")]
        self.expect(len(ends) == len(set(ends)), "a task ended twice")
        open_tasks = set(self.judge.answered) - set(ends)
        self.expect(not open_tasks, f"no end was recorded of {sorted(open_tasks)[:5]}")
        stale = self.audit.lines("stale")
        self.expect(not stale, f"written by others than the owner: {stale[:3]}")

    def calls_of(self, instance):
        """Attempts that a broker made: whoever claimed one makes its call."""
        return [call for calls in self.judge.attempts.values() for call in calls
                if self.claims[call["taskId"], call["attempt"]].instance == instance]

    def finish(self):
        """Wait for the load and the last attempts, then hold everything against the promises."""
        harness.until("the load to end", lambda: not self.load.alive(), self.seconds + 90)
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            self.judge.read_load(self.load.out)
            self.judge.read_receiver(self.cluster.receiver.out)
            if not self.judge.lost() and self.audit.pending() == 0:
                break
            time.sleep(0.5)
        judge = self.judge
        self.expect(judge.answered, "no task was answered")
        self.expect(not judge.lost(), f"lost: {judge.lost()[:5]} of {len(judge.lost())}")
        self.expect(not judge.early(), f"early: {judge.early()[:3]}")
        self.expect(not judge.not_rising(), f"attempts do not rise: {judge.not_rising()[:5]}")
        self.expect(not judge.overlaps(), f"overlap: {judge.overlaps()[:2]}")
        for broker in self.cluster.brokers.values():
            self.expect(broker.alive(), f"{broker.name} has ended by itself")
        self.check_audit()
        self.faults += auditor.faults(self.cluster.pages)
        print(f"    answered {len(judge.answered)}, attempts {judge.count}, repeats "
              f"{judge.repeats()}, lost {len(judge.lost())}, early {len(judge.early())}, overlaps "
              f"{len(judge.overlaps())}", flush=True)


def shards_of(run, name):
    owners = run.cluster.owners()
    return {shard for shard, owner in owners.items() if owner == name}


def acquired_us(run, shards):
    """When the coordinator gave these shards to their present owners, in order."""
    rows = json.loads(run.cluster.cli("cluster", "shards", "-o", "json").stdout)["shards"]
    return sorted(int(datetime.datetime.fromisoformat(row["since"]).timestamp() * 1e6)
                  for row in rows if row["shard"] in shards and row.get("since"))


def judge_hit(run, hit, bumps):
    """Hold one kill against the promise, and say where the time of its gap went."""
    kill, shards, end_us, given = hit
    kill_us = kill.at_us
    limit_us = int((SESSION_S + TICK_S + SLACK_S) * 1e6)
    gap_us, worst_us = run.judge.outage(kill, shards, end_us)
    taken = [line for line in bumps if line.shard in shards and kill_us < line.at_us < end_us]
    stalled = run.probe.share(kill_us, end_us)
    is_excused = stalled > 0.01

    def span(moments):
        if not moments:
            return "never"
        return f"{(min(moments) - kill_us) / 1e6:.2f} to {(max(moments) - kill_us) / 1e6:.2f} s"

    run.expect(0 < gap_us <= limit_us or is_excused,
               f"gap of {gap_us / 1e6:.2f} s, the promise is {limit_us / 1e6:.1f} s")
    run.expect(worst_us <= SLACK_S * 1e6 or is_excused,
               f"{worst_us / 1000:.0f} ms late after the shard had been on time again")
    run.expect({line.shard for line in taken} >= shards, "not every shard was taken over")
    print(f"    gap {gap_us / 1e6:.2f} s over {len(shards)} shards: given after {span(given)}, taken "
          f"over after {span([line.at_us for line in taken])}; later up to {worst_us / 1000:.0f} ms "
          f"late; stalled {stalled * 100:.1f} %, slowest write to disk "
          f"{run.disk.slowest_ms(kill_us, end_us):.0f} ms")


def kills(options):
    """kill -9 of either broker under load: nothing answered is lost, gap within the promise."""
    with Run(options, 11 * options.kills + 5) as run:
        hits = []
        count = 0
        time.sleep(2)
        for number in range(options.kills):
            name = "ab"[number % 2]
            run.share_out()
            shards = shards_of(run, name)
            kill = run.cluster.kill(name)
            time.sleep(SESSION_S + TICK_S + 2)  # The gap is measured without the victim's help.
            harness.until("every shard to be taken over", lambda: shards <= {
                line.shard for line in run.audit.lines("bump") if line.at_us > kill.at_us}, 30)
            hits.append((kill, shards, time.time_ns() // 1000, acquired_us(run, shards)))
            count += kill.in_flight
            run.restart(name)
        run.finish()
        bumps = run.audit.lines("bump")
        for hit in hits:
            judge_hit(run, hit, bumps)
        run.expect(count * 2 > options.kills, f"only {count} kills had a commit in flight")
        print(f"    {count} of {options.kills} kills with a commit in flight")
        return run.faults


def late_claims(lines, instance, wake_us):
    """Claims that a woken broker made in shards that it had not acquired since."""
    acquired, late = set(), []
    for line in lines:
        if line.instance == instance and line.at_us >= wake_us:
            if line.kind == "bump":
                acquired.add(line.shard)
            elif line.shard not in acquired:
                late.append(line)
    return late


def pause(options):
    """SIGSTOP: the woken broker starts no call and commits no claim before it acquires again."""
    with Run(options, 20 + options.pause) as run:
        time.sleep(3)
        run.share_out()
        victim, instance = run.cluster.brokers["a"], run.cluster.instance("a")
        shards = shards_of(run, "a")
        due = run.cluster.start_load("due", "--queue", "chaos", "--rate", "2000", "--count", "1000",
                                     "--delay-min", "2s", "--delay-max", "9s")
        harness.until("tasks to wait in its memory", lambda: not due.alive(), 20)
        victim.signal(signal.SIGSTOP)
        time.sleep(options.pause)
        run.expect({line.shard for line in run.audit.lines("bump")} >= shards and
                   run.cluster.brokers["b"].metric("foliot_shards_owned") == SHARDS,
                   "the other broker has not taken every shard")
        before = [line for line in run.audit.lines("claim") if line.instance == instance]
        wake_us = time.time_ns() // 1000
        victim.signal(signal.SIGCONT)
        run.share_out()
        run.judge.read_load(due.out)
        run.finish()
        lines = run.audit.lines("claim", "bump")
        late = late_claims(lines, instance, wake_us)
        run.expect(not late, f"claims before it had acquired: {late[:3]} of {len(late)}")
        earlier = [line for line in lines if line.kind == "claim" and line.instance == instance and
                   line.at_us < wake_us]
        run.expect(len(earlier) == len(before), "a claim from before the pause committed after it")
        calls = [call for call in run.calls_of(instance) if call["actualUs"] >= wake_us]
        stale = [call for call in calls
                 if run.claims[call["taskId"], call["attempt"]].at_us < wake_us]
        run.expect(not stale, f"calls by a claim from before the pause: {stale[:3]}")
        run.expect(calls, "the woken broker has not worked again")
        print(f"    {len(before)} claims of the broker before the pause, {len(calls)} calls after it,"
              f" by older claims {len(stale)}, claims before it had acquired {len(late)}")
        return run.faults


def postgres(options):
    """kill -9 of PostgreSQL and restart: brokers survive, fire late, lose nothing."""
    with Run(options, 25) as run:
        time.sleep(4)
        run.cluster.server("kill-pg")
        time.sleep(2)
        run.cluster.server("start-pg")
        harness.until("every shard to be served again",
                      lambda: run.cluster.owned() == SHARDS, 30)
        run.finish()
        return run.faults


def zookeeper(options):
    """ZooKeeper stopped for --away seconds: what is owned goes on, on time."""
    with Run(options, options.away + 15) as run:
        time.sleep(3)
        run.share_out()
        run.cluster.server("stop-zk")
        start_us = time.time_ns() // 1000
        time.sleep(options.away)
        end_us = time.time_ns() // 1000
        run.cluster.server("cont-zk")
        run.finish()
        away = run.judge.lateness(lambda line: start_us < line["actualUs"] < end_us)
        there = run.judge.lateness(lambda line: line["actualUs"] < start_us or
                                   line["actualUs"] > end_us + 2_000_000)
        p99_us, usual_us = harness.quantile(away, 990), harness.quantile(there, 990)
        stalled = run.probe.share(start_us, end_us)
        moves = [line for line in run.audit.lines("bump") if start_us < line.at_us < end_us]
        run.expect(not moves, f"moved while ZooKeeper was away: {moves[:3]}")
        run.expect(len(away) > options.away / 2 * options.rate,
                   "too few tasks ran while ZooKeeper was away")
        run.expect(p99_us < max(50_000, 2 * usual_us) or stalled > 0.01,
                   f"p99 lateness {p99_us / 1000:.1f} ms while ZooKeeper was away")
        print(f"    {len(away)} tasks while ZooKeeper was away, p99 {p99_us / 1000:.1f} ms, else "
              f"{usual_us / 1000:.1f} ms, stalled {stalled * 100:.1f} %")
        return run.faults


SCENARIOS = {"kills": kills, "pause": pause, "postgres": postgres, "zookeeper": zookeeper}


def main():
    parser = harness.scenario_parser("Hurt a cluster of real processes under load.", SCENARIOS, 400)
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--pause", type=int, default=10, help="seconds that a broker is stopped")
    parser.add_argument("--away", type=int, default=20, help="seconds that ZooKeeper is stopped")
    return harness.play(SCENARIOS, parser.parse_args())


if __name__ == "__main__":
    harness.exit_with(main)
