# SPDX-License-Identifier: Apache-2.0
"""Two real brokers with grpcio around them: stubs on both, a target of both kinds, queues. What the
tests of the API as a user of another language sees it share."""
import os
import pathlib
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

import auditor
import cases
import stubs

ROOT = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402

stubs.generate()
from foliot.v1 import (queue_pb2, queue_pb2_grpc, receiver_pb2, receiver_pb2_grpc,  # noqa: E402
                       task_pb2, task_pb2_grpc)

LIMIT_S = 20
CONFIRM_WAIT_S = 0.5  # So long a change of a queue waits for the brokers that have not read it.
CONFIRM_TRIES = 4  # Not more: a broker that hears of no change still looks every few seconds.
INVALID = grpc.StatusCode.INVALID_ARGUMENT


def timestamp(ms):
    return timestamp_pb2.Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1000000)


def now_ms():
    return int(time.time() * 1000)


class Target(receiver_pb2_grpc.ReceiverServicer):
    """A user's service: Receiver/Deliver, and shop.Mail/Send for the first kind of target."""

    def __init__(self):
        self.lock = threading.Condition()
        self.attempts = []  # of Deliver
        self.sends = []     # (metadata, request) of Send
        self.plan = {}      # key → results to give, in turn
        self.server = grpc.server(futures.ThreadPoolExecutor(16))
        receiver_pb2_grpc.add_ReceiverServicer_to_server(self, self.server)
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Mail", {
            "Send": grpc.unary_unary_rpc_method_handler(self.send),
            "Fail": grpc.unary_unary_rpc_method_handler(self.fail)}),))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def Deliver(self, request, context):
        reply = receiver_pb2.DeliverResponse()
        with self.lock:
            for attempt in request.attempts:
                self.attempts.append((attempt, time.time() * 1000))
                plan = self.plan.get(attempt.key)
                result = plan.pop(0) if plan else None
                reply.results.append(result or receiver_pb2.AttemptResult(
                    outcome=receiver_pb2.OUTCOME_DONE))
            self.lock.notify_all()
        return reply

    def send(self, request, context):
        with self.lock:
            self.sends.append((dict(context.invocation_metadata()), request))
            self.lock.notify_all()
        return b""

    def fail(self, request, context):
        self.send(request, context)
        context.abort(grpc.StatusCode.INTERNAL, "the mail server is down")

    def wait(self, test, what, limit_s=LIMIT_S):
        """Wait until test() is true; its result."""
        with self.lock:
            assert self.lock.wait_for(test, limit_s), f"waited {limit_s} s for {what}"
            return test()

    def of(self, task_id):
        return [pair for pair in self.attempts if pair[0].task_id == task_id]


class World:
    """Two brokers, a target, queues, and stubs on both brokers."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.target = Target()
        self.channels = [grpc.insecure_channel(address) for address in cluster.addresses()]
        self.tasks = [task_pb2_grpc.TaskServiceStub(channel) for channel in self.channels]
        self.queues = [queue_pb2_grpc.QueueServiceStub(channel) for channel in self.channels]
        self.turn = 0
        for name, where in (("mail", f"receiver://{self.target.address}"),
                            ("send", f"grpc://{self.target.address}/shop.Mail/Send"),
                            ("fail", f"grpc://{self.target.address}/shop.Mail/Fail")):
            self.queue(name, where)

    def queue(self, name, target, **policy):
        policy.setdefault("retry", queue_pb2.RetryPolicy(
            initial_backoff=duration_pb2.Duration(nanos=50000000), failures_max=3))
        self.queues[0].Create(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name=name, target=target, **policy)), timeout=LIMIT_S)

    def stub(self):
        """The brokers in turn: any of them takes any call."""
        self.turn += 1
        return self.tasks[self.turn % len(self.tasks)]

    def queue_stub(self):
        self.turn += 1
        return self.queues[self.turn % len(self.queues)]

    def create(self, queue="mail", **fields):
        return self.stub().Create(task_pb2.CreateTaskRequest(queue=queue, **fields),
                                  timeout=LIMIT_S)

    def raw(self, method, data):
        """Send bytes as they are; the serialized answer."""
        self.turn += 1
        call = self.channels[self.turn % len(self.channels)].unary_unary(
            f"/foliot.v1.TaskService/{method}")
        return call(data, timeout=LIMIT_S)

    def close(self):
        for channel in self.channels:
            channel.close()
        self.target.server.stop(0).wait()


def expect(code, reason, call, field=None, words=""):
    """The call is refused like this."""
    try:
        answer = call()
    except grpc.RpcError as error:
        got, where, _ = stubs.details_of(error)
        assert (error.code(), got) == (code, reason), f"{error.code()} {got}: {error.details()}"
        assert field is None or where == field, f"field {where}: {error.details()}"
        assert words in error.details(), error.details()
        return
    raise AssertionError(f"not refused: {answer}")


def waited_for_all(change):
    """The answer of a change of a queue, which names a broker only after it has waited for it."""
    start = time.monotonic()
    answer = change()
    took_s = time.monotonic() - start
    assert not answer.unconfirmed_brokers or took_s >= CONFIRM_WAIT_S, (took_s, answer)
    return answer


def confirmed(change):
    """The answer of a change of a queue that all brokers have read: on a busy machine one of them
    may be slower than the call waits, and then the change is made again."""
    for _ in range(CONFIRM_TRIES):
        answer = waited_for_all(change)
        if not answer.unconfirmed_brokers:
            return answer
    raise AssertionError(f"unconfirmed {CONFIRM_TRIES} times: {answer}")


def run(chosen, cluster, wanted, rounds):
    """(passed, failed) of the cases whose names have one of the words in them, or of all; the auditors'
    figures behind them count as one more."""
    world = World(cluster)
    passed, failed = cases.run(chosen, world, wanted)
    world.close()
    left = auditor.faults(cluster.pages, rounds=rounds)
    for fault in left:
        print(f"FAILED {fault}", flush=True)
    return passed, failed + bool(left)


def run_on_servers(chosen, shards, wanted):
    build = os.path.basename(os.environ["FOLIOT_BUILD_DIR"])
    with harness.Cluster(build, shards, broker_options=auditor.OPTIONS) as cluster:
        for name in ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.wait_shared()
        return run(chosen, cluster, wanted, 2)


def main(chosen, shards):
    """Run the cases that the command line names, or all; with --dev on one `foliot dev` instead of
    two brokers."""
    wanted = [word for word in sys.argv[1:] if word != "--dev"]
    if "--dev" in sys.argv:
        build = os.path.basename(os.environ["FOLIOT_BUILD_DIR"])
        with harness.DevCluster(build) as cluster:
            cluster.start_broker()
            cluster.wait_ready()
            # Its auditor goes round in 15 s, and a test of some cases hurts nobody.
            passed, failed = run(chosen, cluster, wanted, 0)
    else:
        passed, failed = run_on_servers(chosen, shards, wanted)
    return cases.finish(passed, failed)
