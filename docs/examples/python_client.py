#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A task, end to end, in Python: make a queue, create a task that is due in two seconds, and be the
service that it is fired at.

Needs grpcio (on Debian: /usr/bin/python3 with python3-grpcio) and the code that protoc makes of our
.proto files:

    mkdir -p stubs && protoc -I proto --python_out=stubs --grpc_out=stubs \\
        --plugin=protoc-gen-grpc=$(which grpc_python_plugin) proto/foliot/v1/*.proto
    PYTHONPATH=stubs /usr/bin/python3 docs/examples/python_client.py 127.0.0.1:7400
"""
import sys
import threading
import time
import uuid
from concurrent import futures

import grpc
from foliot.v1 import queue_pb2, queue_pb2_grpc, receiver_pb2, receiver_pb2_grpc
from foliot.v1 import task_pb2, task_pb2_grpc


class Receiver(receiver_pb2_grpc.ReceiverServicer):
    """Where tasks arrive, in batches; each attempt has its own result."""

    def __init__(self):
        self.arrived = threading.Event()
        self.seen = {}  # highest attempt of each task: drop what is older

    def Deliver(self, request, context):
        reply = receiver_pb2.DeliverResponse()
        for attempt in request.attempts:
            late_ms = time.time() * 1000 - attempt.due_time.ToMilliseconds()
            if attempt.attempt > self.seen.get(attempt.task_id, 0):
                self.seen[attempt.task_id] = attempt.attempt
                print(f"fired   {attempt.task_id} attempt {attempt.attempt}, {late_ms:.1f} ms "
                      f"after it was due: {attempt.payload.decode()}")
            reply.results.add(outcome=receiver_pb2.OUTCOME_DONE)
        self.arrived.set()
        return reply


def main(server):
    receiver = Receiver()
    service = grpc.server(futures.ThreadPoolExecutor(4))
    receiver_pb2_grpc.add_ReceiverServicer_to_server(receiver, service)
    port = service.add_insecure_port("127.0.0.1:0")
    service.start()

    channel = grpc.insecure_channel(server)
    queues = queue_pb2_grpc.QueueServiceStub(channel)
    tasks = task_pb2_grpc.TaskServiceStub(channel)

    name = f"example-{uuid.uuid4().hex[:8]}"
    queues.Create(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
        name=name, target=f"receiver://127.0.0.1:{port}")))

    # With a key the call may be repeated after any error: there is still one task.
    request = task_pb2.CreateTaskRequest(queue=name, key="order-17", payload=b"hello from the past")
    request.delay.FromMilliseconds(2000)
    created = tasks.Create(request, timeout=10)
    print(f"created {created.id}, due {created.due_time.ToJsonString()}")

    # Another one, which is not going to happen.
    request = task_pb2.CreateTaskRequest(queue=name, payload=b"never")
    request.delay.FromSeconds(3600)
    other = tasks.Create(request, timeout=10)
    answer = tasks.Cancel(task_pb2.CancelTaskRequest(id=other.id), timeout=10)
    print(f"{task_pb2.CancelOutcome.Name(answer.outcome)} {answer.id}")

    try:
        tasks.Create(task_pb2.CreateTaskRequest(queue="no-such-queue"), timeout=10)
    except grpc.RpcError as error:
        print(f"refused {error.code().name}: {error.details()}")

    arrived = receiver.arrived.wait(timeout=30)
    service.stop(1).wait()
    return 0 if arrived else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400"))
