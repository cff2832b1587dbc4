# SPDX-License-Identifier: Apache-2.0
"""Scenarios of hold.py about the database: it is away while much is due, and a snapshot that is held
open keeps vacuum from cleaning.
"""
import collections
import json
import os
import time

import cluster as harness
import hold_world
import stubs

stubs.generate()
import grpc  # noqa: E402
from foliot.v1 import task_pb2, task_pb2_grpc  # noqa: E402

WINDOWS = 6              # The snapshot's time is cut into so many; the second half is held against …
COST_RATIO_MAX = 1.5     # … the first. PostgreSQL counts buffers up to a second late.
LATE_P99_US = 250_000    # Bound of lateness while a snapshot is held.
GROWTH_KIB_MAX = 64 * 1024  # Of a broker's memory while the database is away and while it catches up.
LEAD_S = 4               # The first of the tasks that come due meanwhile is due so long after its create.
DRAIN_LIMIT_S = 120      # Most time to catch up.
SEEN_MAX = 32            # Buffers of a look at all claims, if there are hardly any.
SWEEPS_S = 5             # Within this a sweep meets a claim of each broker that is busy.
STEP_S = 0.2
CREATE_LIMIT_S = 20      # A create is answered before this, whatever is away.
TICK_US = 1_000_000 // os.sysconf("SC_CLK_TCK")


def processor_us(pids):
    """Processor time of processes and their threads, and of nobody else."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) * TICK_US
    return total


class Costs:
    """What a moment's worth of tasks has cost so far."""

    BUFFERS = ("SELECT sum(heap_blks_hit + heap_blks_read + coalesce(idx_blks_hit, 0) + "
               "coalesce(idx_blks_read, 0))::bigint FROM pg_statio_user_tables "
               "WHERE schemaname = 'foliot_data'")
    BACKENDS = ("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'foliot/%' "
                "AND datname = current_database()")

    def __init__(self, world):
        self.at_us = hold_world.now_us()
        self.buffers = int(world.psql.ask(self.BUFFERS)[0])
        self.backends_us = processor_us(map(int, world.psql.ask(self.BACKENDS)))
        self.brokers_us = processor_us(b.popen.pid for b in world.cluster.brokers.values())


class Witness:
    """What creates are answered, and what memory the brokers have, while the database is away."""

    def __init__(self, world):
        self.world = world
        self.brokers = list(world.cluster.brokers.values())
        self.channels = [grpc.insecure_channel(broker.grpc) for broker in self.brokers]
        self.stubs = [task_pb2_grpc.TaskServiceStub(channel) for channel in self.channels]
        self.before_kib = [hold_world.status_of(broker, "VmRSS") for broker in self.brokers]
        self.growth_kib = 0
        self.calls = []

    def look(self):
        for broker, before_kib in zip(self.brokers, self.before_kib):
            now_kib = hold_world.status_of(broker, "VmRSS")
            self.growth_kib = max(self.growth_kib, now_kib - before_kib)

    def create(self):
        stub = self.stubs[len(self.calls) % len(self.stubs)]
        self.calls.append(stub.Create.future(
            task_pb2.CreateTaskRequest(queue="outage", payload=b"x"), timeout=CREATE_LIMIT_S))

    def judge(self):
        """Every create was answered in time: done, to come again, or honestly unknown."""
        codes, retries_s = collections.Counter(), []
        for call in self.calls:
            error = call.exception()
            if error is None:
                codes["OK"] += 1
                self.world.judge.answered[call.result().id] = None
                continue
            codes[error.code().name] += 1
            reason, _, retry_s = stubs.details_of(error)
            if error.code() == grpc.StatusCode.UNAVAILABLE:
                retries_s.append(retry_s)
            self.world.expect(
                error.code() == grpc.StatusCode.UNAVAILABLE and retry_s > 0 or
                error.code() == grpc.StatusCode.UNKNOWN and reason == "OUTCOME_UNKNOWN",
                f"a create was answered {error.code().name} {reason} {error.details()}")
        self.world.expect(retries_s, f"no create was told to come again: {dict(codes)}")
        for channel in self.channels:
            channel.close()
        print(f"    memory grew by {self.growth_kib / 1024:.1f} MiB; creates answered {dict(codes)}, "
              f"to come again after {min(retries_s, default=0):.1f} to "
              f"{max(retries_s, default=0):.1f} s", flush=True)
        self.world.expect(self.growth_kib <= GROWTH_KIB_MAX,
                          f"memory grew by {self.growth_kib} KiB")


def outage(options):
    """PostgreSQL is away while tasks come due: none lost, none early, creates are told to come again."""
    with hold_world.World(options, names=("a", "b")) as world:
        world.start_queue("outage")
        made = world.cluster.start_load(
            "made", "--queue", "outage", "--count", str(options.tasks), "--batch", "500",
            "--delay-min", f"{LEAD_S}s", "--delay-max", f"{LEAD_S + options.seconds}s")
        world.start_load("outage", options.rate // 20, "--patience", "10m")
        harness.until("the tasks to be created", lambda: not made.alive(), 120)
        world.judge.read_load(made.out)
        world.expect(len(world.judge.answered) == options.tasks, "not every task was created")
        witness = Witness(world)
        world.psql.close()
        start_us = hold_world.now_us()
        world.cluster.server("kill-pg")
        down_us = hold_world.now_us()  # Killing takes its time on a busy machine.
        while hold_world.now_us() < down_us + options.seconds * 1e6:
            witness.look()
            witness.create()
            time.sleep(STEP_S)
        end_us = hold_world.now_us()
        world.cluster.server("start-pg")
        world.psql = harness.Psql(world.cluster.pg[0])
        catch_up(world, witness, start_us, end_us)
        witness.judge()
        world.finish()
        judge_outage(world, start_us, end_us)
        return world.faults


def due_between(judge, start_us, end_us):
    return [task for task, due_ms in judge.answered.items()
            if due_ms and start_us < due_ms * 1000 < end_us]


def catch_up(world, witness, start_us, end_us):
    """Until every task that was due meanwhile has been attempted; the load beside it goes on."""
    end = time.monotonic() + DRAIN_LIMIT_S
    world.read()
    while time.monotonic() < end and any(
            task not in world.judge.attempts
            for task in due_between(world.judge, start_us, end_us)):
        witness.look()
        time.sleep(STEP_S)
        world.read()


def judge_outage(world, start_us, end_us):
    judge = world.judge
    due = due_between(judge, start_us, end_us)
    last_us = max((judge.attempts[task][0]["actualUs"] for task in due if task in judge.attempts),
                  default=end_us)
    world.expect(due, "nothing was due while the database was away")
    world.expect(not judge.overlaps(), f"overlap: {judge.overlaps()[:2]}")
    world.expect(not judge.not_rising(), f"attempts do not rise: {judge.not_rising()[:5]}")
    print(f"    {len(due)} tasks due while the database was away for {(end_us - start_us) / 1e6:.1f} s,"
          f" the last of them attempted {(last_us - end_us) / 1e6:.1f} s after it was started",
          flush=True)


def snapshot(options):
    """A snapshot that is held open: lateness is bounded, a task's cost does not grow."""
    with hold_world.World(options, names=("a", "b")) as world:
        world.start_queue("snapshot")
        world.start_load("snapshot", options.rate)
        time.sleep(3)
        holder = harness.Psql(world.cluster.pg[0])
        holder.ask("BEGIN ISOLATION LEVEL REPEATABLE READ")
        holder.ask("SELECT count(*) FROM foliot_data.queue")
        costs, rows = [Costs(world)], []
        for _ in range(WINDOWS):
            time.sleep(options.seconds / WINDOWS)
            costs.append(Costs(world))
            world.read()
            rows.append(judge_window(world, *costs[-2:]))
        dead = world.psql.ask("SELECT sum(n_dead_tup) FROM pg_stat_user_tables "
                              "WHERE schemaname = 'foliot_data'")[0]
        check_floors(world)
        since_us = hold_world.now_us()
        world.sigterm("b")
        world.wait_even()
        world.cluster.start_broker("b")
        world.wait_even()
        time.sleep(1)
        horizon = holder.ask("SELECT pg_current_xact_id_if_assigned()")
        world.expect(len(horizon) == 1, "the snapshot was not held to the end")
        world.finish()
        holder.close()
        print(f"    {dead} dead rows at the end")
        world.check_pauses(since_us)
        for name in ("buffers", "server_us", "broker_us"):
            first, last = (sum(row[name] for row in part) / len(part)
                           for part in (rows[:WINDOWS // 2], rows[WINDOWS // 2:]))
            world.expect(last <= COST_RATIO_MAX * first or name != "buffers" and
                         world.stalls.excuses(costs[0].at_us, costs[-1].at_us),
                         f"{name} of a task grew from {first:.1f} to {last:.1f}")
        return world.faults


def buffers_of(world, query):
    """Buffers that a query of a broker's session touches."""
    plan = "\n".join(world.psql.ask(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {query}"))
    return json.loads(plan)[0]["Plan"]["Shared Hit Blocks"]


def check_floors(world):
    """A take-over reads the claims that are there, and does not walk past those that were."""
    for setting in ("enable_seqscan", "enable_bitmapscan"):
        world.psql.ask(f"SET {setting} = off")
    end = time.monotonic() + SWEEPS_S
    every, seen = 0, SEEN_MAX + 1
    # A sweep raises the floors of those who have a claim at that moment; not everybody always has.
    while seen > max(SEEN_MAX, every // 4) and time.monotonic() < end:
        world.psql.ask("SELECT foliot_data.claim_sweep()")
        every = buffers_of(world, "SELECT count(*) FROM foliot_data.claim")
        seen = buffers_of(world, "SELECT count(*) FROM foliot_data.claim_seen")
    world.expect(seen <= max(SEEN_MAX, every // 4),
                 f"the claims are read in {seen} buffers, with all dead ones {every}")
    print(f"    the claims in {seen} buffers, with the dead ones {every}", flush=True)


def judge_window(world, begin, end):
    """Print a window's figures; they are per task that was first attempted in it."""
    late = world.judge.lateness(lambda line: begin.at_us <= line["actualUs"] < end.at_us)
    p99_us = harness.quantile(late, 990)
    count = max(1, len(late))
    row = {"buffers": (end.buffers - begin.buffers) / count,
           "server_us": (end.backends_us - begin.backends_us) / count,
           "broker_us": (end.brokers_us - begin.brokers_us) / count}
    print(f"    {len(late)} tasks, p99 {p99_us / 1000:.1f} ms, max {late[-1] / 1000 if late else 0:.1f}"
          f" ms; a task: {row['buffers']:.1f} buffers, {row['server_us']:.0f} µs of the server, "
          f"{row['broker_us']:.0f} µs of the brokers", flush=True)
    world.expect(late, "no task ran in a window")
    world.expect(p99_us <= LATE_P99_US or world.stalls.excuses(begin.at_us, end.at_us),
                 f"p99 of lateness was {p99_us / 1000:.0f} ms")
    return row
