#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A target that writes down what it is sent and what it answers.

  receiver.py JOURNAL PORT

What becomes of an attempt is said by the payload that the producer gave it: TOKEN:PLAN. An attempt
that comes after its deadline is refused, as the protocol lets a receiver do that must never
overlap.
"""
import asyncio
import os
import sys

import grpc

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../lib"))
import journal  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import receiver_pb2, receiver_pb2_grpc  # noqa: E402

SLOW_S = 1.2
OUTCOMES = {"done": receiver_pb2.OUTCOME_DONE, "retry": receiver_pb2.OUTCOME_RETRY,
            "dead": receiver_pb2.OUTCOME_DEAD, "obsolete": receiver_pb2.OUTCOME_OBSOLETE,
            "late": receiver_pb2.OUTCOME_RETRY}


class Receiver(receiver_pb2_grpc.ReceiverServicer):
    """Counts what it has seen of each task."""

    def __init__(self, path):
        self.journal = journal.Writer(path)
        self.seen = {}  # of tasks that are not done at once

    def decide(self, attempt, plan, now_us):
        """What becomes of it, by the plan and by how often it was seen."""
        if now_us > attempt.deadline.ToMicroseconds():
            return "late"
        if plan in ("retry", "dead"):
            count = self.seen[attempt.task_id] = self.seen.get(attempt.task_id, 0) + 1
            return plan if count == 1 else "done"
        return "obsolete" if plan == "obsolete" else "done"

    async def Deliver(self, request, context):
        """Each attempt gets two lines: when it has come, and when it is answered."""
        now_us = journal.now_us()
        found = []
        is_slow = False
        for attempt in request.attempts:
            token, _, plan = attempt.payload.decode().partition(":")
            out = self.decide(attempt, plan, now_us)
            is_slow = is_slow or plan == "slow"
            found.append((attempt, out))
            self.journal.write(t=now_us, id=attempt.task_id, n=attempt.attempt, p=token, out=out,
                               due=attempt.due_time.ToMilliseconds(),
                               dl=attempt.deadline.ToMilliseconds())
        if is_slow:
            await asyncio.sleep(SLOW_S)
        response = receiver_pb2.DeliverResponse()
        for attempt, out in found:
            response.results.add(outcome=OUTCOMES[out], error=out)
            self.journal.write(id=attempt.task_id, n=attempt.attempt, end=out)
        return response


async def main():
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    receiver_pb2_grpc.add_ReceiverServicer_to_server(Receiver(sys.argv[1]), server)
    if server.add_insecure_port(f"127.0.0.1:{sys.argv[2]}") == 0:
        sys.exit("the port is taken")
    await server.start()
    print("ready", flush=True)
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(main())
