#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A client that creates, cancels, updates, runs and revives tasks, and writes down what it asked
and what it was answered.

  producer.py NAME SEED RATE JOURNAL ADDRESS…

Ends after SIGTERM, when all that it has begun is answered or given up. A create with a key is
repeated until it is answered; one without is not, so that the judge can tell what became of it.
Every item carries a token of its own in its payload.
"""
import asyncio
import os
import random
import signal
import sys
import time

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import journal  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import queue_pb2, queue_pb2_grpc, task_pb2, task_pb2_grpc  # noqa: E402

CALL_S = 10        # A call is given up after this: then nobody knows.
PATIENCE_S = 60    # A call that is repeated is given up after this.
AGAIN_S = 0.2
BATCH = 10
SINGLE_SHARE = 0.4  # of tasks, made one by one
KEY_SHARE = 0.6
FAR_SHARE = 0.04
CANCEL_SHARE, UPDATE_SHARE, RUN_SHARE = 0.08, 0.06, 0.02
REDRIVE_S = 2
OUTSTANDING_MAX = 1500
PLANS = (("done", 0.82), ("retry", 0.08), ("slow", 0.05), ("dead", 0.03), ("obsolete", 0.02))
QUEUES = {"slow": "slow", "dead": "dead"}  # by plan; the others go to "fast"
CHANNEL = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.min_reconnect_backoff_ms", 100),
           ("grpc.max_reconnect_backoff_ms", 500), ("grpc.enable_retries", 0)]
# What a broker means by these: nothing has happened.
NOTHING = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED)


class Producer:
    """Makes tasks at a rate, and acts on some of them later."""

    def __init__(self, name, seed, rate, path, addresses):
        self.name = name
        self.random = random.Random(f"{seed}/{name}")
        self.rate = rate
        self.journal = journal.Writer(path)
        channels = [grpc.aio.insecure_channel(address, CHANNEL) for address in addresses]
        self.tasks = [task_pb2_grpc.TaskServiceStub(channel) for channel in channels]
        self.queues = [queue_pb2_grpc.QueueServiceStub(channel) for channel in channels]
        self.calls = self.items = 0
        self.running = set()
        self.is_ending = False

    # ---- one call ----

    async def ask(self, op, request, method, is_queue=False, **what):
        """One call to any broker: its answer or None, and whether the broker itself said that
        nothing has happened."""
        self.calls += 1
        call = f"{self.name}.{self.calls}"
        number = self.random.randrange(len(self.tasks))
        self.journal.write(c=call, op=op, to=number, **what)
        stub = (self.queues if is_queue else self.tasks)[number]
        try:
            answer = await getattr(stub, method)(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            reason, _, _ = stubs.details_of(error)
            self.journal.write(c=call, st=error.code().name, why=reason)
            return None, error.code() in NOTHING, error.code()
        self.journal.write(c=call, st="OK", **self.said(op, answer))
        return answer, False, grpc.StatusCode.OK

    @staticmethod
    def said(op, answer):
        """What of an answer the judge wants to know."""
        if op == "batch":
            return {"items": [[item.id, item.created, item.due_time.ToMilliseconds()]
                              if not item.HasField("error") else
                              ["", grpc_name(item.error.code), item.error.reason]
                              for item in answer.results]}
        if op == "create":
            return {"items": [[answer.id, answer.created, answer.due_time.ToMilliseconds()]]}
        if op == "cancel":
            return {"out": task_pb2.CancelOutcome.Name(answer.outcome)[15:], "n": answer.attempt}
        if op in ("update", "run"):
            return {"due": answer.due_time.ToMilliseconds(), "n": answer.may_be_running_attempt}
        return {"count": answer.redriven}

    async def insist(self, op, request, method, **what):
        """The same until it is answered, or is not worth it any more."""
        end = time.monotonic() + PATIENCE_S
        while True:
            answer, _, code = await self.ask(op, request, method, **what)
            if answer is not None or code in (grpc.StatusCode.NOT_FOUND,
                                              grpc.StatusCode.INVALID_ARGUMENT):
                return answer
            if time.monotonic() > end:
                return None
            await asyncio.sleep(AGAIN_S)

    # ---- items ----

    def item(self):
        """A create with its token; and the line about it."""
        self.items += 1
        token = f"{self.name}.{self.items}"
        draw = self.random.random()
        for plan, share in PLANS:
            draw -= share
            if draw < 0:
                break
        delay_s = self.random.uniform(0, 4) if self.random.random() < 0.8 else \
            self.random.uniform(4, 12)
        if self.random.random() < FAR_SHARE:
            delay_s = 7200
        item = task_pb2.CreateTaskRequest(queue=QUEUES.get(plan, "fast"),
                                          payload=f"{token}:{plan}".encode())
        due_ms = int((time.time() + delay_s) * 1000)
        is_delay = self.random.random() < 0.5
        if not is_delay:
            item.due_time.FromMilliseconds(due_ms)
        else:
            item.delay.FromMilliseconds(int(delay_s * 1000))
        if self.random.random() < KEY_SHARE:
            item.key = token
        return item, {"p": token, "k": int(bool(item.key)), "due": due_ms, "plan": plan,
                      "rel": int(is_delay)}

    def act_later(self, task, due_ms):
        """Perhaps cancel, move or run a task at some moment before or around its due time."""
        draw = self.random.random()
        if draw > CANCEL_SHARE + UPDATE_SHARE + RUN_SHARE:
            return
        wait_s = self.random.uniform(0, max(0, min(due_ms / 1000 - time.time(), 10)) + 0.05)
        if draw < CANCEL_SHARE:
            self.start(self.act(wait_s, "cancel", task_pb2.CancelTaskRequest(id=task), "Cancel",
                                task))
        elif draw < CANCEL_SHARE + UPDATE_SHARE:
            request = task_pb2.UpdateTaskRequest(id=task)
            later_ms = int((time.time() + wait_s + self.random.uniform(1, 5)) * 1000)
            request.due_time.FromMilliseconds(later_ms)
            self.start(self.act(wait_s, "update", request, "Update", task, due=later_ms))
        else:
            self.start(self.act(wait_s, "run", task_pb2.RunTaskNowRequest(id=task), "RunNow", task))

    async def act(self, wait_s, op, request, method, task, **what):
        await asyncio.sleep(wait_s)
        if not self.is_ending or op != "update":
            await self.insist(op, request, method, id=task, **what)

    async def one(self, item, line):
        """A single create; repeated if it has a key."""
        if item.key:
            answer = await self.insist("create", item, "Create", items=[line])
        else:
            answer, _, _ = await self.ask("create", item, "Create", items=[line])
        if answer is not None:
            self.act_later(answer.id, line["due"])

    async def batch(self):
        made = [self.item() for _ in range(BATCH)]
        request = task_pb2.BatchCreateTasksRequest(items=[item for item, _ in made])
        answer, _, _ = await self.ask("batch", request, "BatchCreate",
                                      items=[line for _, line in made])
        results = answer.results if answer is not None else [None] * BATCH
        for (item, line), result in zip(made, results):
            if result is not None and not result.HasField("error"):
                self.act_later(result.id, line["due"])
            elif item.key:
                self.start(self.one(item, line))

    async def redrive(self):
        """Revive dead letters, all over again."""
        while not self.is_ending:
            await asyncio.sleep(REDRIVE_S)
            await self.ask("redrive", queue_pb2.RedriveDeadRequest(queue="dead"), "RedriveDead",
                           is_queue=True)

    # ---- all of them ----

    def start(self, work):
        task = asyncio.create_task(work)
        self.running.add(task)
        task.add_done_callback(self.done)

    def done(self, task):
        self.running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            print(f"{self.name}: {task.exception()!r}", file=sys.stderr, flush=True)

    async def run(self):
        redriver = asyncio.create_task(self.redrive())
        begin, count = time.monotonic(), 0
        while not self.is_ending:
            # What was held up is not made up for: a stalled producer has made less.
            begin = max(begin, time.monotonic() - count / self.rate - 1)
            await asyncio.sleep(max(0, begin + count / self.rate - time.monotonic()))
            if len(self.running) > OUTSTANDING_MAX:
                await asyncio.sleep(0.05)
                continue
            if self.random.random() < SINGLE_SHARE * BATCH / (1 + SINGLE_SHARE * (BATCH - 1)):
                self.start(self.one(*self.item()))
                count += 1
            else:
                self.start(self.batch())
                count += BATCH
        while self.running:
            await asyncio.wait(self.running, return_when=asyncio.FIRST_COMPLETED)
        await redriver
        self.journal.close()


def grpc_name(number):
    """A status by its number."""
    return next(code.name for code in grpc.StatusCode if code.value[0] == number)


async def main():
    name, seed, rate, path, *addresses = sys.argv[1:]
    producer = Producer(name, seed, int(rate), path, addresses)

    def end():
        producer.is_ending = True

    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, end)
    await producer.run()


if __name__ == "__main__":
    asyncio.run(main())
