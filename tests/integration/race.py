#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Cancel and Update racing with the due time, within 2 ms of it either way: every answer is true.

  race.py [--count N] [--rate N] [--build PRESET] [--dev]

Two brokers on real servers, or one foliot dev; a grpcio client, a receiver with its own clock. Ends with
"N passed, N failed".
"""
import argparse
import asyncio
import collections
import os
import random
import sys
import time

import grpc

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tools"), os.path.join(HERE, "../lib")]
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16
LATER_MS = 400   # An update moves the task by this much.
QUIET_S = 8      # After the last answer, until the last attempt must have come.
TRIES = 30
SIDE_MIN = 0.025  # Part of all races that each side must win at least; half of them are cancels.
AIM_STEP_S, AIM_MAX_S = 0.00002, 0.02  # What one outcome moves the aim by; how far it may move.


class Racer:
    """Makes tasks and acts on each of them around its due time: earlier when calls come too late, for
    it is the machine that says how long they are on their way, and later when they do not."""

    def __init__(self, channels, messages, queue):
        self.stubs = [{name: channel.unary_unary(
            f"/foliot.v1.TaskService/{name}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=reply.FromString)
            for name, reply in (("Create", messages.CreateTaskResponse),
                                ("Cancel", messages.CancelTaskResponse),
                                ("Update", messages.UpdateTaskResponse))}
            for channel in channels]
        self.messages = messages
        self.queue = queue
        self.results = []  # (id, due in ms, what was asked, answer)
        self.aim_s = 0.0

    async def ask(self, name, request):
        """Through either broker; again while the answer is that nothing happened."""
        for _ in range(TRIES):
            try:
                return await random.choice(self.stubs)[name](request, timeout=10)
            except grpc.aio.AioRpcError as error:
                if error.code() in (grpc.StatusCode.UNAVAILABLE,
                                    grpc.StatusCode.RESOURCE_EXHAUSTED):
                    await asyncio.sleep(0.05)
                    continue
                if error.code() == grpc.StatusCode.NOT_FOUND:
                    return None
                raise
        raise RuntimeError(f"{name}: unavailable {TRIES} times in a row")

    async def race(self):
        due_ms = int(time.time() * 1000) + random.randint(60, 400)
        request = self.messages.CreateTaskRequest(queue=self.queue, payload=b"race")
        request.due_time.FromMilliseconds(due_ms)
        made = await self.ask("Create", request)
        at = due_ms / 1000 + self.aim_s + random.uniform(-0.002, 0.002)
        await asyncio.sleep(max(0, at - time.time()))
        await self.act(made, due_ms)

    def count(self, made, due_ms, asked, answer, is_in_time):
        self.results.append((made.id, due_ms, asked, answer))
        step_s = AIM_STEP_S if is_in_time else -AIM_STEP_S
        self.aim_s = max(-AIM_MAX_S, min(AIM_MAX_S, self.aim_s + step_s))

    async def act(self, made, due_ms):
        if random.random() < 0.5:
            answer = await self.ask("Cancel", self.messages.CancelTaskRequest(id=made.id))
            self.count(made, due_ms, "cancel", answer, answer is not None and
                       answer.outcome == self.messages.CANCEL_OUTCOME_CANCELLED)
        else:
            request = self.messages.UpdateTaskRequest(id=made.id)
            request.due_time.FromMilliseconds(due_ms + LATER_MS)
            answer = await self.ask("Update", request)
            self.count(made, due_ms, "update", answer,
                       answer is not None and not answer.may_be_running_attempt)

    async def run(self, count, rate):
        tasks = []
        start = time.monotonic()
        for number in range(count):
            await asyncio.sleep(max(0, start + number / rate - time.monotonic()))
            tasks.append(asyncio.create_task(self.race()))
        await asyncio.gather(*tasks)


def fault_of_cancel(messages, answer, attempts):
    """What an answered cancel says about the attempts that the receiver saw; None if it is true."""
    if answer is None:
        return "NOT_FOUND as a status"
    outcome = messages.CancelOutcome.Name(answer.outcome).removeprefix("CANCEL_OUTCOME_")
    numbers = [line["attempt"] for line in attempts]
    if outcome == "CANCELLED" and numbers:
        return f"CANCELLED, and attempts {numbers}"
    if outcome == "STOPPED" and any(number > answer.attempt for number in numbers):
        return f"STOPPED at {answer.attempt}, and attempts {numbers}"
    if outcome == "GONE" and not numbers:
        return "GONE, and never attempted"
    if outcome not in ("CANCELLED", "STOPPED", "GONE"):
        return f"{outcome} for an id that was issued"
    return None


def fault_of_update(answer, due_ms, attempts):
    """The same for an update."""
    numbers = [line["attempt"] for line in attempts]
    old = [line for line in attempts if line["actualUs"] < (due_ms + LATER_MS) * 1000]
    if not attempts:
        return "updated or too late, and never attempted"
    if answer is None:
        return None if len(attempts) == 1 else f"too late for the update, and attempts {numbers}"
    allowed = [answer.may_be_running_attempt] if answer.may_be_running_attempt else []
    if [line["attempt"] for line in old] not in ([], allowed):
        return f"updated ({allowed} may run), and by the old due time came attempts {numbers}"
    return None


def judge(messages, results, attempts):
    counts = collections.Counter()
    faults = []
    for task, due_ms, asked, answer in results:
        seen = attempts.get(task, [])
        if asked == "cancel":
            fault = fault_of_cancel(messages, answer, seen)
            counts["cancel " + (messages.CancelOutcome.Name(answer.outcome) if answer else "?")] += 1
        else:
            fault = fault_of_update(answer, due_ms, seen)
            counts["update " + ("too late" if answer is None else
                                "while running" if answer.may_be_running_attempt else "in time")] += 1
        if fault:
            faults.append(f"{task}: {fault}")
    return counts, faults


def one_sided(counts, total):
    """Outcomes that were too few for a race: then nothing was shown."""
    wanted = ("cancel CANCEL_OUTCOME_CANCELLED", "cancel CANCEL_OUTCOME_GONE", "update in time",
              "update too late")
    return [name for name in wanted if counts[name] < total * SIDE_MIN]


async def race_all(cluster, messages, options):
    channels = [grpc.aio.insecure_channel(address) for address in cluster.addresses()]
    racer = Racer(channels, messages, "race")
    await racer.run(options.count, options.rate)
    for channel in channels:
        await channel.close()
    return racer.results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=10000)
    parser.add_argument("--rate", type=int, default=350)
    parser.add_argument("--build", default=os.environ.get("BUILD", "dev"))
    parser.add_argument("--dev", action="store_true")
    options = parser.parse_args()
    with (harness.DevCluster(options.build) if options.dev else
          harness.Cluster(options.build, SHARDS, broker_options=auditor.OPTIONS)) as cluster:
        messages = harness.messages(cluster.folder).task_pb2
        for name in ("dev",) if options.dev else ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.start_receiver()
        cluster.cli("queue", "create", "race", "--target", f"receiver://{cluster.target}")
        results = asyncio.run(race_all(cluster, messages, options))
        book = harness.Judge(cluster.shards)
        time.sleep(1)
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            book.read_receiver(cluster.receiver.out)
            counts, faults = judge(messages, results, book.attempts)
            if not faults:
                break
            time.sleep(0.5)
        left = auditor.faults(cluster.pages)
    for name, count in sorted(counts.items()):
        print(f"  {count:6} {name}")
    early = len(book.early())
    for fault in faults[:10] + left + ([f"{early} attempts came early"] if early else []):
        print(f"  FAIL {fault}")
    too_few = one_sided(counts, len(results))
    if too_few:
        print(f"  FAIL no race: too few of {too_few}")
    failed = len(faults) + len(left) + early + len(too_few)
    print(f"{len(results) - len(faults)} passed, {failed} failed")
    return 1 if failed or len(results) != options.count else 0


if __name__ == "__main__":
    sys.exit(main())
