#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Call an RPC later: any method of any service, as it is. The payload of the task is the serialized
request; the service does not know that it is called by a broker, unless it looks at the metadata.

    mkdir -p stubs && protoc -I proto -I docs/examples/method --python_out=stubs --grpc_out=stubs \\
        --plugin=protoc-gen-grpc=$(which grpc_python_plugin) proto/foliot/v1/*.proto \\
        docs/examples/method/mail.proto
    PYTHONPATH=stubs /usr/bin/python3 docs/examples/method/method.py 127.0.0.1:7400
"""
import sys
import threading
import uuid
from concurrent import futures

import grpc
import mail_pb2
import mail_pb2_grpc
from foliot.v1 import queue_pb2, queue_pb2_grpc, task_pb2, task_pb2_grpc


class Mail(mail_pb2_grpc.MailServicer):
    """The service. Its first try fails: the broker tries again by the queue's policy."""

    def __init__(self):
        self.sent = threading.Event()
        self.tries = 0

    def Send(self, request, context):
        metadata = dict(context.invocation_metadata())
        self.tries += 1
        if self.tries == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "the mail server is busy")
        print(f"sent    {request.text!r} to {request.to}: task {metadata['foliot-task-id']} "
              f"attempt {metadata['foliot-attempt']}")
        self.sent.set()
        return mail_pb2.SendResponse()


def main(server):
    mail = Mail()
    service = grpc.server(futures.ThreadPoolExecutor(4))
    mail_pb2_grpc.add_MailServicer_to_server(mail, service)
    port = service.add_insecure_port("127.0.0.1:0")
    service.start()

    channel = grpc.insecure_channel(server)
    queue = queue_pb2.Queue(name=f"mail-{uuid.uuid4().hex[:8]}",
                            target=f"grpc://127.0.0.1:{port}/shop.Mail/Send")
    queue.retry.initial_backoff.FromMilliseconds(200)
    queue_pb2_grpc.QueueServiceStub(channel).Create(queue_pb2.CreateQueueRequest(queue=queue))

    request = mail_pb2.SendRequest(to="you@example.org", text="later")
    task = task_pb2.CreateTaskRequest(queue=queue.name, payload=request.SerializeToString())
    task.delay.FromMilliseconds(500)
    created = task_pb2_grpc.TaskServiceStub(channel).Create(task, timeout=10)
    print(f"created {created.id}")

    sent = mail.sent.wait(timeout=30)
    service.stop(1).wait()
    return 0 if sent else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "127.0.0.1:7400"))
