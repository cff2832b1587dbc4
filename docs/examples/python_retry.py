#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a client does next: tasks are created over and over through crashes, and each is there once.

    PYTHONPATH=stubs /usr/bin/python3 docs/examples/python_retry.py 127.0.0.1:7400 1000

The stubs are made as in python_client.py. Stop and start the broker while it runs.
"""
import sys
import time
import uuid

import grpc
from foliot.v1 import queue_pb2, queue_pb2_grpc, task_pb2, task_pb2_grpc

# Nothing happened, or nobody knows: with a key both are safe to repeat.
REPEAT = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNKNOWN,
          grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.CANCELLED}


def insist(call, request, limit_s=120):
    """Repeat a call until it is answered; what cannot be helped by repeating is raised."""
    end = time.monotonic() + limit_s
    pause_s = 0.05
    while True:
        try:
            return call(request, timeout=5)
        except grpc.RpcError as error:
            if error.code() not in REPEAT or time.monotonic() > end:
                raise
            told_ms = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms")
            time.sleep(int(told_ms) / 1000 if told_ms else pause_s)
            pause_s = min(2 * pause_s, 1)


def main(server, count):
    channel = grpc.insecure_channel(server, options=[("grpc.max_reconnect_backoff_ms", 500)])
    queues = queue_pb2_grpc.QueueServiceStub(channel)
    tasks = task_pb2_grpc.TaskServiceStub(channel)
    name = f"retry-{uuid.uuid4().hex[:8]}"
    try:
        insist(queues.Create, queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name=name, target="receiver://127.0.0.1:1")))
    except grpc.RpcError as error:
        if error.code() != grpc.StatusCode.ALREADY_EXISTS:  # The first try was done after all.
            raise
    print(f"queue   {name}", flush=True)
    ids = {}
    for number in range(count):
        request = task_pb2.CreateTaskRequest(queue=name, key=f"order-{number}")
        request.delay.FromSeconds(3600)
        ids[request.key] = insist(tasks.Create, request).id
        if number % 100 == 99:
            print(f"created {number + 1}", flush=True)
    # Each key holds the task that the answer named, and no other.
    for key, task_id in ids.items():
        task = insist(tasks.Get, task_pb2.GetTaskRequest(queue=name, key=key)).task
        assert task.id == task_id, f"{key} is {task.id}, the answer said {task_id}"
    print(f"checked {len(set(ids.values()))} tasks", flush=True)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400",
         int(sys.argv[2]) if len(sys.argv) > 2 else 1000)
