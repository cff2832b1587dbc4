#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""kill -9 of `foliot dev --db-file` at any moment under load: every answered create, cancel and
update is in effect, no attempt overlaps, none is early. Ends with "N passed, N failed".

  dev_kills.py [--kills N]      default 10; 200 by hand and in make check-long

Stock gRPC clients create tasks, cancel some and move some, and note every answer with the time at
which it came; a call that was not answered proves nothing, but a create is repeated with its key
until it is. A stock gRPC receiver notes every attempt. When it is all over the two are compared.
"""
import argparse
import http.client
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from concurrent import futures

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import auditor  # noqa: E402
import devmode  # noqa: E402
import grpc  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import (queue_pb2, queue_pb2_grpc, receiver_pb2, receiver_pb2_grpc,  # noqa: E402
                       task_pb2, task_pb2_grpc)

QUEUE = "work"
WORKERS = 4
PAUSE_S = 0.01          # of a worker between its tasks: the load is some hundred calls a second
DELAY_MS = (0, 1500)    # of a task from its create
TIMEOUT_MS = 200        # of an attempt: an unknown outcome is repeated after this and two seconds
LIFE_S = (0.05, 0.6)    # of a process, from its being ready to its end
CALL_S = 1.0            # most time for one call
PATIENCE_S = 30         # most time for a create, with all repetitions
QUIET_S = 60            # most time for the last attempt to come
RETRY = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNKNOWN,
         grpc.StatusCode.CANCELLED)


class Receiver(receiver_pb2_grpc.ReceiverServicer):
    """Notes every attempt, takes a moment, says that it is done."""

    def __init__(self):
        self.attempts = {}  # task → attempts in order of arrival
        self.lock = threading.Lock()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        receiver_pb2_grpc.add_ReceiverServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def Deliver(self, request, context):
        now = time.time()
        with self.lock:
            for attempt in request.attempts:
                self.attempts.setdefault(attempt.task_id, []).append(
                    (now, attempt.attempt, attempt.due_time.ToMicroseconds() / 1e6,
                     attempt.deadline.ToMicroseconds() / 1e6, attempt.payload))
        time.sleep(random.random() * 0.02)
        return receiver_pb2.DeliverResponse(results=[
            receiver_pb2.AttemptResult(outcome=receiver_pb2.OUTCOME_DONE)
            for _ in request.attempts])


class Task:
    """What was answered about one task."""

    def __init__(self, answer):
        self.id = answer.id
        self.due = answer.due_time.ToMicroseconds() / 1e6
        self.dues = [(0.0, self.due, 0)]  # (answered at, due, attempt that may have been running)
        self.payload = b"first"
        self.payload_from = 0
        self.cancelled_at = None  # CANCELLED: no attempt has run and none will
        self.stopped_after = None  # STOPPED: no attempt above this one
        self.is_unknown = False   # a cancel or an update was not answered


class Worker(threading.Thread):
    """Creates tasks, moves some, cancels some; one call at a time."""

    def __init__(self, run, number):
        super().__init__(daemon=True)
        self.run_of = run
        self.number = number
        self.prng = random.Random(run.seed * 100 + number)
        self.tasks = []
        self.error = None

    def call(self, method, request):
        """The answer, or None if there was none."""
        try:
            return getattr(self.run_of.stub, method)(request, timeout=CALL_S)
        except grpc.RpcError as error:
            if error.code() not in RETRY:
                raise
            return None

    def create(self, key):
        request = task_pb2.CreateTaskRequest(queue=QUEUE, key=key, payload=b"first")
        request.delay.FromMilliseconds(self.prng.randint(*DELAY_MS))
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            answer = self.call("Create", request)
            if answer is not None:
                return Task(answer)
            time.sleep(0.02)
        raise RuntimeError(f"{key} was never answered")

    def update(self, task):
        request = task_pb2.UpdateTaskRequest(id=task.id, payload=b"second")
        request.delay.FromMilliseconds(self.prng.randint(*DELAY_MS))
        try:
            answer = self.call("Update", request)
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.NOT_FOUND:
                return  # It has run already.
            raise
        if answer is None:
            task.is_unknown = True
            return
        task.dues.append((time.time(), answer.due_time.ToMicroseconds() / 1e6,
                          answer.may_be_running_attempt))
        task.payload = b"second"

    def cancel(self, task):
        answer = self.call("Cancel", task_pb2.CancelTaskRequest(id=task.id))
        if answer is None:
            task.is_unknown = True
        elif answer.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED:
            task.cancelled_at = time.time()
        elif answer.outcome == task_pb2.CANCEL_OUTCOME_STOPPED:
            task.stopped_after = answer.attempt

    def step(self, count):
        task = self.create(f"{self.number}-{count}")
        self.tasks.append(task)
        what = self.prng.random()
        if what < 0.6:
            time.sleep(PAUSE_S)
        if 0.4 < what < 0.7:
            self.update(task)
        elif what >= 0.7:
            self.cancel(task)

    def run(self):
        count = 0
        try:
            while not self.run_of.is_over:
                self.step(count)
                count += 1
        except (grpc.RpcError, RuntimeError) as error:
            self.error = error


class Run:
    def __init__(self, kills, seed):
        self.kills = kills
        self.seed = seed
        self.prng = random.Random(seed)
        self.folder = tempfile.mkdtemp(prefix="foliot-kills-")
        self.receiver = Receiver()
        self.is_over = False
        self.stub = None
        self.faults = []
        self.in_commit = 0

    def start(self):
        dev = devmode.Dev("--db-file", f"{self.folder}/dev.db")
        channel = grpc.insecure_channel(dev.address)
        if self.stub is None:
            queue = queue_pb2.Queue(name=QUEUE, target=f"receiver://127.0.0.1:{self.receiver.port}")
            queue.attempt_timeout.FromMilliseconds(TIMEOUT_MS)
            queue_pb2_grpc.QueueServiceStub(channel).Create(
                queue_pb2.CreateQueueRequest(queue=queue), timeout=devmode.LIMIT_S)
        self.stub = task_pb2_grpc.TaskServiceStub(channel)
        return dev, channel

    def hurt(self):
        dev, channel = self.start()
        channels = [channel]  # Open to the end: a worker may still be about to call by one of them.
        workers = [Worker(self, number) for number in range(WORKERS)]
        for worker in workers:
            worker.start()
        for _ in range(self.kills):
            time.sleep(self.prng.uniform(*LIFE_S))
            dev.kill()
            dev, channel = self.start()
            channels.append(channel)
        time.sleep(1)
        self.is_over = True
        for worker in workers:
            worker.join(PATIENCE_S + 5)
            if worker.error is not None:
                self.faults.append(f"worker {worker.number}: {worker.error}")
        for channel in channels:
            channel.close()
        return dev, [task for worker in workers for task in worker.tasks]

    def wait_for_last(self, tasks):
        wanted = [task for task in tasks
                  if task.cancelled_at is None and task.stopped_after is None and
                  not task.is_unknown]
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            with self.receiver.lock:
                missing = [task.id for task in wanted if task.id not in self.receiver.attempts]
            if not missing:
                return
            time.sleep(0.2)
        self.faults.append(f"lost: {missing[:5]} of {len(missing)}")

    @staticmethod
    def pages(dev):
        """Its metrics, as tests/lib/auditor.py takes them."""
        connection = http.client.HTTPConnection(dev.place["adminAddress"], timeout=devmode.LIMIT_S)
        connection.request("GET", "/metrics")
        page = connection.getresponse().read().decode()
        connection.close()
        return {"dev": page}

    def judge_task(self, task, attempts):
        """What this task's attempts show against what was answered about it."""
        numbers = [number for _, number, _, _, _ in attempts]
        if task.cancelled_at is not None and attempts:
            yield "an attempt of a task that was answered CANCELLED"
        if task.stopped_after is not None and max(numbers, default=0) > task.stopped_after:
            yield f"attempt {max(numbers)} after STOPPED at {task.stopped_after}"
        if any(b <= a for a, b in zip(numbers, numbers[1:])):
            yield f"attempts do not rise: {numbers}"
        for before, after in zip(attempts, attempts[1:]):
            if after[0] < before[3]:
                yield f"attempt {after[1]} came {before[3] - after[0]:.3f} s before the deadline"
        for at, number, due, _, payload in attempts:
            if at < due:
                yield f"attempt {number} is {due - at:.6f} s early"
            yield from self.judge_update(task, at, number, payload)

    def judge_update(self, task, at, number, payload):
        """An answered update holds for every attempt but the one that its answer names."""
        answered_at, due, running = task.dues[-1]
        if len(task.dues) == 1 or task.is_unknown or at < answered_at or number == running:
            return
        if at < due and number == 1:
            yield f"attempt {number} at {at:.3f}, moved to {due:.3f} by an answer of {answered_at:.3f}"
        if payload != task.payload:
            yield f"attempt {number} has the payload from before an answered update"

    def judge(self, tasks):
        repeats = 0
        for task in tasks:
            attempts = self.receiver.attempts.get(task.id, [])
            repeats += max(0, len(attempts) - 1)
            self.faults += [f"{task.id}: {fault}" for fault in self.judge_task(task, attempts)]
        known = {task.id for task in tasks}
        strange = [task for task in self.receiver.attempts if task not in known]
        if strange:
            self.faults.append(f"attempts of tasks that nobody was told of: {strange[:3]}")
        print(f"    {self.kills} kills, {len(tasks)} creates answered, "
              f"{sum(task.cancelled_at is not None for task in tasks)} cancels, "
              f"{sum(len(task.dues) - 1 for task in tasks)} updates, "
              f"{sum(task.is_unknown for task in tasks)} not answered, {repeats} repeats, seed "
              f"{self.seed}", flush=True)
        if len(tasks) < self.kills:
            self.faults.append("too little load to show anything")

    def go(self):
        try:
            dev, tasks = self.hurt()
            self.wait_for_last(tasks)
            time.sleep(3)  # A repeat that must not come has no event; an attempt's deadline is over.
            self.faults += auditor.faults(lambda: self.pages(dev))
            status, _, err = dev.stop()
            if status != 0:
                self.faults.append(f"the last one ended with {status}: {err}")
            self.judge(tasks)
        finally:
            self.receiver.server.stop(None)
            shutil.rmtree(self.folder, ignore_errors=True)
        return self.faults


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    options = parser.parse_args()
    try:
        faults = Run(options.kills, options.seed).go()
    except RuntimeError as error:
        faults = [str(error)]
    for fault in faults[:20]:
        print(f"    FAIL {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
