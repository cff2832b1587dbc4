#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A relative delay counts from no earlier than the call: also of a call that is read long after its
turn of the event loop began. Ends with "N passed, N failed".

The reads of a `foliot dev` are late (late_read.c), so that calls are read which were made after the
turn's beginning. Its reference clock is the machine's, and so is the client's.
"""
import asyncio
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../lib"))
import grpc  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import queue_pb2, queue_pb2_grpc, task_pb2, task_pb2_grpc  # noqa: E402

SECONDS = 3
DELAY_S = 3600
CALLERS = 4
CALLS_MIN = 100


async def call(stub, number, end, early_us):
    """Tasks, alone or two in a batch: by how much each is due too early."""
    item = task_pb2.CreateTaskRequest(queue="work")
    item.delay.FromSeconds(DELAY_S)
    while time.monotonic() < end:
        asked_us = time.time_ns() // 1000
        if number % 2:
            found = [await stub.Create(item)]
        else:
            found = (await stub.BatchCreate(task_pb2.BatchCreateTasksRequest(
                items=[item, item]))).results
        early_us += [asked_us + DELAY_S * 1_000_000 - one.due_time.ToMicroseconds()
                     for one in found]
        await asyncio.sleep(0.001 * number)  # Out of step with each other.


async def run(address):
    early_us = []
    async with grpc.aio.insecure_channel(address) as channel:
        await queue_pb2_grpc.QueueServiceStub(channel).Create(queue_pb2.CreateQueueRequest(
            queue=queue_pb2.Queue(name="work", target="receiver://127.0.0.1:9")))
        end = time.monotonic() + SECONDS
        stub = task_pb2_grpc.TaskServiceStub(channel)
        await asyncio.gather(*(call(stub, number, end, early_us) for number in range(CALLERS)))
    return early_us


def main():
    os.environ["LD_PRELOAD"] = sys.argv[1]
    os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    import devmode  # pylint: disable=import-outside-toplevel
    with devmode.Dev() as dev:
        del os.environ["LD_PRELOAD"]
        early_us = asyncio.run(run(dev.address))
    early = [value for value in early_us if value > 0]
    print(f"  {len(early_us)} tasks, {len(early)} of them due too early, by up to "
          f"{max(early, default=0) / 1000:.1f} ms")
    failed = bool(early) or len(early_us) < CALLS_MIN
    print(f"{int(not failed)} passed, {int(failed)} failed")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
