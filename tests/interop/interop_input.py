#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""foliotd against grpcio: a Python client makes tasks, a Python server is the target, and bad input
of every kind gets a clear status and harms nothing. Ends with "N passed, N failed"."""
import base64
import os
import random
import signal
import socket
import sys
import time
import traceback
from concurrent import futures

import grpc
import h2.config
import h2.connection

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import auditor  # noqa: E402
import cluster as harness  # noqa: E402
import stubs  # noqa: E402
from two_brokers import confirmed  # noqa: E402

from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, queue_pb2_grpc,  # noqa: E402
                       receiver_pb2, receiver_pb2_grpc, task_pb2, task_pb2_grpc)
from google.protobuf import duration_pb2, timestamp_pb2  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

CODE = grpc.StatusCode
KEY_MAX = 255
PAYLOAD_MAX = 65536
BATCH_MAX = 10000
CASES = []


def case(function):
    CASES.append(function)
    return function


def fault_of(error):
    """Status and reason of a refused call."""
    for name, value in error.trailing_metadata() or ():
        if name == "grpc-status-details-bin":
            status = status_pb2.Status.FromString(value)
            for detail in status.details:
                info = error_details_pb2.ErrorInfo()
                if detail.Unpack(info):
                    return error.code(), info.reason
    return error.code(), ""


def refused(code, reason, call, *arguments, **options):
    """The call is refused with exactly this status and reason (None: any reason)."""
    try:
        answer = call(*arguments, timeout=20, **options)
    except grpc.RpcError as error:
        got = fault_of(error)
        wanted = (code, got[1] if reason is None else reason)
        assert got == wanted, f"{got} instead of {wanted}: {error.details()}"
        return error
    raise AssertionError(f"accepted: {str(answer)[:200]}")


class Target(grpc.GenericRpcHandler, receiver_pb2_grpc.ReceiverServicer):
    """Takes any method with any bytes, and Deliver."""

    def __init__(self):
        self.taken = {}  # task id → [(metadata, request bytes)]
        self.delivered = {}  # task id → [Attempt]
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        receiver_pb2_grpc.add_ReceiverServicer_to_server(self, self.server)
        self.server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def service(self, details):
        if not details.method.startswith("/any."):
            return None
        return grpc.unary_unary_rpc_method_handler(self.take)

    def take(self, request, context):
        metadata = dict(context.invocation_metadata())
        metadata["remaining"] = context.time_remaining()
        self.taken.setdefault(metadata["foliot-task-id"], []).append((metadata, request))
        return b""

    def Deliver(self, request, context):
        for attempt in request.attempts:
            self.delivered.setdefault(attempt.task_id, []).append(attempt)
        return receiver_pb2.DeliverResponse(results=[
            receiver_pb2.AttemptResult(outcome=receiver_pb2.OUTCOME_DONE)
            for _ in request.attempts])


class World:
    """Two brokers, a target, and stubs of the first broker."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.target = Target()
        for name in ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.wait_shared()
        options = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]
        self.channels = [grpc.insecure_channel(address, options=options)
                         for address in cluster.addresses()]
        self.tasks = task_pb2_grpc.TaskServiceStub(self.channels[0])
        self.other_tasks = task_pb2_grpc.TaskServiceStub(self.channels[1])
        self.queues = queue_pb2_grpc.QueueServiceStub(self.channels[0])
        self.topology = cluster_pb2_grpc.ClusterServiceStub(self.channels[0])
        self.make_queue("method", f"grpc://{self.target.address}/any.Service/Method")
        self.make_queue("batch", f"receiver://{self.target.address}")

    def make_queue(self, name, target):
        self.queues.Create(queue_pb2.CreateQueueRequest(
            queue=queue_pb2.Queue(name=name, target=target)), timeout=20)

    def raw(self, method):
        """A method of bytes."""
        return self.channels[0].unary_unary(method)

    def raw_stream(self, method):
        """The answers of a method that streams, as bytes."""
        return self.channels[0].unary_stream(method)(b"", timeout=60)

    def check_well(self):
        """Both brokers live, and a plain call goes through each."""
        for broker, tasks in zip(self.cluster.brokers.values(), (self.tasks, self.other_tasks)):
            assert broker.alive(), f"{broker.name} has ended"
            assert ignores_broken_pipes(broker), f"{broker.name} would end with its next broken pipe"
            tasks.Create(far("method"), timeout=20)


def ignores_broken_pipes(broker):
    with open(f"/proc/{broker.popen.pid}/status", encoding="ascii") as file:
        ignored = next(int(line.split()[1], 16) for line in file if line.startswith("SigIgn:"))
    return ignored >> (signal.SIGPIPE - 1) & 1


def far(queue, **fields):
    """A task that does not run during the test."""
    if "due_time" not in fields and "delay" not in fields:
        fields["delay"] = duration_pb2.Duration(seconds=86400)
    return task_pb2.CreateTaskRequest(queue=queue, **fields)


def now(queue, payload=b"x", **fields):
    return task_pb2.CreateTaskRequest(queue=queue, payload=payload, **fields)


# ---- the way of a task ----

@case
def a_grpcio_server_is_the_target(world):
    made = world.tasks.Create(now("method", b"\x00\xff\x00", key="schlüssel"), timeout=20)
    assert made.created
    harness.until("the attempt", lambda: world.target.taken.get(made.id), 10)
    metadata, request = world.target.taken[made.id][0]
    assert request == b"\x00\xff\x00"
    assert metadata["foliot-attempt"] == "1"
    assert metadata["foliot-namespace"] == "default" and metadata["foliot-queue"] == "method"
    assert metadata["foliot-key-bin"] == "schlüssel".encode()
    assert 0 <= time.time() * 1000 - int(metadata["foliot-due-time"]) < 10000
    assert int(metadata["foliot-deadline"]) > int(metadata["foliot-due-time"])
    assert 5 < metadata["remaining"] <= 10


@case
def a_grpcio_receiver_gets_batches(world):
    ids = [world.tasks.Create(now("batch", b"%d" % i), timeout=20).id for i in range(20)]
    harness.until("all attempts", lambda: all(i in world.target.delivered for i in ids), 10)
    for i, task in enumerate(ids):
        assert [a.payload for a in world.target.delivered[task]] == [b"%d" % i]


@case
def either_broker_creates_reads_changes_and_cancels(world):
    for i in range(20):
        first, second = ((world.tasks, world.other_tasks), (world.other_tasks, world.tasks))[i % 2]
        made = first.Create(far("method", key=f"round-{i}", payload=b"old"), timeout=20)
        seen = second.Get(task_pb2.GetTaskRequest(id=made.id), timeout=20).task
        assert (seen.id, seen.queue, seen.key, seen.payload) == (made.id, "method", f"round-{i}",
                                                                 b"old")
        changed = second.Update(task_pb2.UpdateTaskRequest(
            queue="method", key=f"round-{i}", payload=b"new"), timeout=20)
        assert changed.may_be_running_attempt == 0
        seen = first.Get(task_pb2.GetTaskRequest(queue="method", key=f"round-{i}"), timeout=20).task
        assert seen.payload == b"new"
        ended = second.Cancel(task_pb2.CancelTaskRequest(id=made.id), timeout=20)
        assert ended.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED
        refused(CODE.NOT_FOUND, "TASK_GONE", first.Get, task_pb2.GetTaskRequest(id=made.id))


@case
def keys_are_kept_rejected_or_replaced(world):
    made = world.tasks.Create(far("method", key="policy"), timeout=20)
    kept = world.other_tasks.Create(far("method", key="policy"), timeout=20)
    assert kept.id == made.id and not kept.created
    refused(CODE.ALREADY_EXISTS, "KEY_EXISTS", world.tasks.Create,
            far("method", key="policy", key_policy=task_pb2.KEY_POLICY_REJECT))
    new = world.other_tasks.Create(
        far("method", key="policy", key_policy=task_pb2.KEY_POLICY_REPLACE), timeout=20)
    assert new.created and new.id != made.id
    refused(CODE.NOT_FOUND, "TASK_GONE", world.tasks.Get, task_pb2.GetTaskRequest(id=made.id))
    assert world.tasks.Get(task_pb2.GetTaskRequest(queue="method", key="policy"),
                           timeout=20).task.id == new.id


@case
def topology_names_every_owner(world):
    def read():
        answer = world.topology.GetTopology(cluster_pb2.GetTopologyRequest(), timeout=20)
        owners = {shard.owner for shard in answer.shards}
        return answer if owners == {"a", "b"} else None

    # The second broker takes its share a moment after it has joined, and says so after that.
    topology = harness.until("both brokers to own all shards", read, 20)
    assert sorted(broker.name for broker in topology.brokers) == ["a", "b"]
    assert len(topology.shards) == topology.shard_count == world.cluster.shards


@case
def a_change_of_a_queue_is_confirmed_by_every_broker(world):
    target = f"receiver://{world.target.address}"
    queues = []

    def make():
        """A queue of another name each time: none can be made twice."""
        answer = world.queues.Create(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name=f"confirmed-{len(queues)}", target=target)), timeout=20)
        queues.append(answer.queue)
        return answer

    def change():
        queues[-1].attempt_timeout.seconds = 3
        answer = world.queues.Update(queue_pb2.UpdateQueueRequest(queue=queues[-1]), timeout=20)
        queues[-1] = answer.queue
        return answer

    took_s = []
    for _ in range(5):
        started = time.monotonic()
        confirmed(make)
        took_s.append(time.monotonic() - started)
        confirmed(change)
    assert sorted(took_s)[2] < 2, took_s  # One of them may have met a pause of the machine.


@case
def metrics_are_text_that_prometheus_reads(world):
    for broker in world.cluster.brokers.values():
        status, text = broker.get("/metrics")
        assert status == 200
        kinds, seen = {}, set()
        for line in text.splitlines():
            if line.startswith("# TYPE "):
                _, _, name, kind = line.split()
                assert name not in kinds and kind in ("counter", "gauge", "histogram"), line
                assert (kind == "counter") == name.endswith("_total"), line
                kinds[name] = kind
            elif not line.startswith("# HELP "):
                sample, value = line.rsplit(" ", 1)
                name = sample.split("{")[0]
                base = name if name in kinds else name.rsplit("_", 1)[0]
                assert base in kinds and sample not in seen, line
                float(value)
                seen.add(sample)
        assert f'foliot_build_info{{version="0.1.0",broker="{broker.label}"}}' in seen
        assert any(sample.startswith("foliot_lateness_seconds_bucket") for sample in seen)


# ---- bad input ----

@case
def payloads_of_any_bytes_up_to_the_limit(world):
    for payload in (b"", b"\x00" * 10, os.urandom(1025), b"\xff" * PAYLOAD_MAX):
        made = world.tasks.Create(far("method", payload=payload), timeout=20)
        assert world.other_tasks.Get(task_pb2.GetTaskRequest(id=made.id),
                                     timeout=20).task.payload == payload
        run = world.tasks.Create(now("method", payload), timeout=20)
        harness.until("the attempt", lambda r=run: world.target.taken.get(r.id), 10)
        assert world.target.taken[run.id][0][1] == payload
    refused(CODE.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", world.tasks.Create,
            far("method", payload=b"x" * (PAYLOAD_MAX + 1)))
    refused(CODE.RESOURCE_EXHAUSTED, None, world.tasks.Create,
            far("method", payload=b"x" * (5 << 20)))


def field(number, data):
    """A length-delimited field, serialized by hand."""
    length, size = len(data), b""
    while True:
        size += bytes([length & 0x7F | (0x80 if length > 0x7F else 0)])
        length >>= 7
        if not length:
            return bytes([number << 3 | 2]) + size + data


@case
def texts_are_checked(world):
    create = world.raw("/foliot.v1.TaskService/Create")
    queue = field(2, b"method")
    later = field(4, duration_pb2.Duration(seconds=86400).SerializeToString())
    for bad in (b"\xff", b"a\xc3", b"\xed\xa0\x80", b"\xc0\xaf", b"a\x00b", b"\x00"):
        refused(CODE.INVALID_ARGUMENT, "TEXT_INVALID", create, queue + later + field(6, bad))
        refused(CODE.INVALID_ARGUMENT, "TEXT_INVALID", create, field(2, bad) + later)
    refused(CODE.INVALID_ARGUMENT, "KEY_TOO_LONG", world.tasks.Create,
            far("method", key="k" * (KEY_MAX + 1)))
    assert world.tasks.Create(far("method", key="k" * KEY_MAX), timeout=20).created
    assert world.tasks.Create(far("method", key="ü" * (KEY_MAX // 2)), timeout=20).created
    one = world.tasks.Create(far("method", key=""), timeout=20)
    assert one.created and world.tasks.Create(far("method", key=""), timeout=20).id != one.id
    for name in ("", "UPPER", "a b", "a/b", "x" * 64, "ü"):
        refused(CODE.INVALID_ARGUMENT, None, world.tasks.Create, far(name))


@case
def times_are_taken_or_refused(world):
    for seconds in (0, -1, -62135596800, int(time.time()) - 365 * 86400):
        made = world.tasks.Create(now("method", due_time=timestamp_pb2.Timestamp(
            seconds=seconds)), timeout=20)
        harness.until("the attempt", lambda m=made: world.target.taken.get(m.id), 10)
    distant = int(time.time()) + 100 * 365 * 86400
    made = world.tasks.Create(far("method", due_time=timestamp_pb2.Timestamp(seconds=distant)),
                              timeout=20)
    assert made.due_time.seconds == distant
    for seconds, nanos in ((2**63 - 1, 0), (-2**63, 0), (0, -1), (0, 10**9), (253402300800, 0),
                           (8000000000, 0)):
        refused(CODE.INVALID_ARGUMENT, "TIME_OUT_OF_RANGE", world.tasks.Create,
                far("method", due_time=timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos)))
    for seconds in (2**63 - 1, 2**62, 315576000001, 200 * 366 * 86400):
        refused(CODE.INVALID_ARGUMENT, "TIME_OUT_OF_RANGE", world.tasks.Create,
                far("method", delay=duration_pb2.Duration(seconds=seconds)))
    for seconds in (0, -5):
        made = world.tasks.Create(now("method", delay=duration_pb2.Duration(seconds=seconds)),
                                  timeout=20)
        harness.until("the attempt", lambda m=made: world.target.taken.get(m.id), 10)


@case
def what_is_not_there_is_not_found(world):
    refused(CODE.NOT_FOUND, "QUEUE_NOT_FOUND", world.tasks.Create, far("no-such-queue"))
    refused(CODE.NOT_FOUND, "TASK_NOT_FOUND", world.tasks.Get,
            task_pb2.GetTaskRequest(queue="method", key="no-such-key"))
    answer = world.tasks.Cancel(task_pb2.CancelTaskRequest(id="0a7-7fffffff00000001"), timeout=20)
    assert answer.outcome == task_pb2.CANCEL_OUTCOME_NOT_FOUND
    answer = world.tasks.Cancel(task_pb2.CancelTaskRequest(queue="method", key="no-such-key"),
                                timeout=20)
    assert answer.outcome == task_pb2.CANCEL_OUTCOME_NOT_FOUND
    for bad in ("", "x", "0a7-0000000000000000", "fff0-000000000000001", "0A7-0000012300000001",
                "0a7-0000012300000001 "):
        refused(CODE.INVALID_ARGUMENT, None, world.tasks.Get, task_pb2.GetTaskRequest(id=bad))
    refused(CODE.UNIMPLEMENTED, None, world.raw("/foliot.v1.TaskService/Nothing"), b"")
    refused(CODE.UNIMPLEMENTED, None, world.raw("/foliot.v1.Nothing/Create"), b"")


@case
def a_batch_of_the_limit_with_one_bad_item(world):
    items = [far("", key=f"big-{i}") for i in range(BATCH_MAX)]
    items[7777].payload = b"x" * (PAYLOAD_MAX + 1)
    items[8888].queue = "no-such-queue"
    request = task_pb2.BatchCreateTasksRequest(queue="method", items=items)
    results = world.tasks.BatchCreate(request, timeout=60).results
    assert len(results) == BATCH_MAX
    bad = {i: result.error for i, result in enumerate(results) if result.HasField("error")}
    assert sorted(bad) == [7777, 8888], {i: str(bad[i]) for i in list(bad)[:5]}
    assert (bad[7777].reason, bad[8888].reason) == ("PAYLOAD_TOO_LARGE", "QUEUE_NOT_FOUND")
    assert len({result.id for result in results if result.id}) == BATCH_MAX - 2
    again = world.other_tasks.BatchCreate(request, timeout=60).results
    assert all(not result.created for result in again)
    assert [r.id for r in again] == [r.id for r in results]
    request.items.add(delay=duration_pb2.Duration(seconds=60))
    refused(CODE.INVALID_ARGUMENT, "BATCH_TOO_LARGE", world.tasks.BatchCreate, request)
    refused(CODE.INVALID_ARGUMENT, "BATCH_EMPTY", world.tasks.BatchCreate,
            task_pb2.BatchCreateTasksRequest(queue="method"))


@case
def broken_messages_are_refused(world):
    whole = far("method", key="whole", payload=b"p" * 300).SerializeToString()
    create = world.raw("/foliot.v1.TaskService/Create")
    batch = world.raw("/foliot.v1.TaskService/BatchCreate")
    generator = random.Random(1)
    refused(CODE.INVALID_ARGUMENT, "MESSAGE_MALFORMED", create, whole[:-1])
    refused(CODE.INVALID_ARGUMENT, "MESSAGE_MALFORMED", create, b"\xff" * 20)
    refused(CODE.INVALID_ARGUMENT, "MESSAGE_MALFORMED", create, b"\x12\xff\xff\xff\xff\x7f")
    for _ in range(200):
        broken = bytearray(whole)
        for _ in range(generator.randint(1, 8)):
            broken[generator.randrange(len(broken))] = generator.randrange(256)
        try:
            create(bytes(broken), timeout=20)
        except grpc.RpcError as error:
            assert error.code() in (CODE.INVALID_ARGUMENT, CODE.NOT_FOUND), error
    try:  # Two bytes a piece, more than can be in a batch, or than memory should hold.
        batch(b"\x1a\x00" * 1000000, timeout=20)
    except grpc.RpcError as error:
        assert error.code() in (CODE.INVALID_ARGUMENT, CODE.RESOURCE_EXHAUSTED), error


@case
def queues_are_checked(world):
    def create(**fields):
        return world.queues.Create, queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(**fields))

    good = f"receiver://{world.target.address}"
    refused(CODE.ALREADY_EXISTS, "QUEUE_EXISTS", *create(name="method", target=good))
    refused(CODE.PERMISSION_DENIED, "TARGET_NOT_ALLOWED",
            *create(name="far", target="receiver://10.9.8.7:80"))
    refused(CODE.PERMISSION_DENIED, "TARGET_NOT_ALLOWED",
            *create(name="far", target="grpc://127.0.0.1.example.com:80/a.B/C"))
    for target in ("", "http://a:1", "grpc://a:1", "receiver://a:0", "receiver://a", "x"):
        refused(CODE.INVALID_ARGUMENT, None, *create(name="bad", target=target))
    refused(CODE.INVALID_ARGUMENT, None, *create(name="", target=good))
    refused(CODE.INVALID_ARGUMENT, None, *create(name="bad", target=good, concurrency_max=10**9))
    refused(CODE.NOT_FOUND, "QUEUE_NOT_FOUND", world.queues.Get,
            queue_pb2.GetQueueRequest(name="none"))
    refused(CODE.NOT_FOUND, "QUEUE_NOT_FOUND", world.queues.Update, queue_pb2.UpdateQueueRequest(
        queue=queue_pb2.Queue(name="none", target=good)))
    world.make_queue("versions", good)
    queue = world.queues.Get(queue_pb2.GetQueueRequest(name="versions"), timeout=20).queue
    queue.concurrency_max = 7
    changed = world.queues.Update(queue_pb2.UpdateQueueRequest(queue=queue), timeout=20)
    assert changed.queue.version > queue.version
    refused(CODE.FAILED_PRECONDITION, "QUEUE_CHANGED", world.queues.Update,
            queue_pb2.UpdateQueueRequest(queue=queue))
    queue.version = 0
    assert world.queues.Update(queue_pb2.UpdateQueueRequest(queue=queue), timeout=20)
    names = [q.name for q in world.queues.List(queue_pb2.ListQueuesRequest(), timeout=20).queues]
    assert {"method", "batch", "versions"} <= set(names)
    page = world.queues.List(queue_pb2.ListQueuesRequest(page_size=2), timeout=20)
    assert len(page.queues) == 2 and page.next_page_token
    rest = world.queues.List(queue_pb2.ListQueuesRequest(page_token=page.next_page_token),
                             timeout=20)
    assert [q.name for q in page.queues] + [q.name for q in rest.queues] == names


# ---- bad peers ----

def connect(address):
    host, port = address.split(":")
    return socket.create_connection((host, int(port)), timeout=10)


@case
def garbage_and_silence_on_the_port_harm_nobody(world):
    address = world.cluster.addresses()[0]
    generator = random.Random(2)
    for start in (b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                  b"\x16\x03\x01\x02\x00"):
        for _ in range(10):
            with connect(address) as link:
                try:
                    link.sendall(start + generator.randbytes(2000))
                except OSError:
                    pass  # It has been shown the door.
    silent = [connect(address) for _ in range(1000)]
    started = time.monotonic()
    world.check_well()
    assert time.monotonic() - started < 5
    for link in silent:
        link.close()


@case
def a_client_that_never_reads_holds_nobody_up(world):
    address = world.cluster.addresses()[0]
    made = world.tasks.Create(far("method", payload=b"x" * PAYLOAD_MAX), timeout=20)
    deaf = grpc.insecure_channel(address, options=[("grpc.http2.bdp_probe", 0)])
    calls = [task_pb2_grpc.TaskServiceStub(deaf).Get.future(
        task_pb2.GetTaskRequest(id=made.id)) for _ in range(500)]
    # A raw connection that asks and never reads the answers.
    link = connect(address)
    link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    link.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00\x00\x00\x04\x00\x00\x00\x00\x00")
    for _ in range(2000):
        try:
            link.sendall(b"\x00\x00\x08\x06\x00\x00\x00\x00\x00pingping")
        except OSError:
            break
    world.check_well()
    for call in calls:
        call.cancel()
    deaf.close()
    link.close()
    world.check_well()


def raw_call(address, path, message, timeout):
    """A call by h2 that waits longer than its own grpc-timeout; its final header fields."""
    link = connect(address)
    engine = h2.connection.H2Connection(h2.config.H2Configuration(
        client_side=True, header_encoding="utf-8"))
    engine.initiate_connection()
    engine.send_headers(1, [
        (":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "test"),
        ("te", "trailers"), ("content-type", "application/grpc"), ("grpc-timeout", timeout)])
    engine.send_data(1, b"\0" + len(message).to_bytes(4, "big") + message, end_stream=True)
    link.sendall(engine.data_to_send())
    fields = {}
    with link:
        while "grpc-status" not in fields:
            for event in engine.receive_data(link.recv(65536)):
                fields.update(getattr(event, "headers", None) or [])
            link.sendall(engine.data_to_send())
    return fields


@case
def a_deadline_during_a_write_is_an_unknown_outcome_and_during_a_read_is_not(world):
    topology = world.topology.GetTopology(cluster_pb2.GetTopologyRequest(), timeout=20)
    owners = {shard.shard: shard.owner for shard in topology.shards}
    made = next(task for task in (world.tasks.Create(far("method", key=f"stop-{i}"), timeout=20)
                                  for i in range(100))
                if owners[harness.shard_of(task.id, world.cluster.shards)] == "b")
    broker = world.cluster.brokers["b"]
    address = world.cluster.addresses()[0]
    broker.signal(signal.SIGSTOP)  # Shorter than a session timeout: it keeps its shards.
    try:
        with futures.ThreadPoolExecutor(2) as pool:
            calls = [pool.submit(raw_call, address, f"/foliot.v1.TaskService/{method}",
                                 request.SerializeToString(), "1000m")
                     for method, request in (("Cancel", task_pb2.CancelTaskRequest(id=made.id)),
                                             ("Get", task_pb2.GetTaskRequest(id=made.id)))]
            cancel, read = (call.result() for call in calls)
    finally:
        broker.signal(signal.SIGCONT)
    assert cancel["grpc-status"] == "2", cancel
    details = cancel["grpc-status-details-bin"]
    assert b"OUTCOME_UNKNOWN" in base64.b64decode(details + "=" * (-len(details) % 4)), cancel
    assert read["grpc-status"] == "4", read


@case
def metadata_of_a_passed_on_call_goes_no_further(world):
    """A client that claims to be a broker is answered, or told that nothing happened."""
    for i in range(20):
        try:
            world.tasks.Create(far("method", key=f"hop-{i}"), timeout=20,
                               metadata=(("foliot-forwarded", "x"),))
        except grpc.RpcError as error:
            assert fault_of(error) == (CODE.UNAVAILABLE, "NOT_OWNER")


@case
def a_stopped_database_fills_the_room_for_calls_and_every_answer_is_true(world):
    """Refused or unavailable: it did not happen. Unknown: it may have. Created: it has."""
    items = [far("", key=f"room-{i}") for i in range(BATCH_MAX)]
    request = task_pb2.BatchCreateTasksRequest(queue="method", items=items)
    world.cluster.server("stop-pg")
    try:
        batch = world.tasks.BatchCreate.future(request, timeout=60)
        broker = world.cluster.brokers["a"]
        harness.until("the batch to wait",
                      lambda: broker.metric("foliot_calls_tasks_waiting") >= BATCH_MAX, 10)
        error = refused(CODE.RESOURCE_EXHAUSTED, "LIMITS_CALLS", world.tasks.Create,
                        far("method", key="room-refused"))
        retry_s = stubs.details_of(error)[2]
        pushback = dict(error.trailing_metadata())["grpc-retry-pushback-ms"]
        assert retry_s > 0 and pushback == f"{retry_s * 1000:.0f}", (retry_s, pushback)
        time.sleep(4)  # Longer than a command may take: its outcome becomes unknown.
    finally:
        world.cluster.server("cont-pg")
    first = batch.result().results
    reasons = {result.error.reason for result in first if result.HasField("error")}
    assert reasons <= {"OUTCOME_UNKNOWN", "UNAVAILABLE", "OWNER_UNKNOWN", "OVERLOADED",
                       "NOT_OWNER"}, reasons
    harness.until("every shard to have an owner again",
                  lambda: world.cluster.owned() == world.cluster.shards, 30)

    def again():
        try:
            results = world.other_tasks.BatchCreate(request, timeout=60).results
        except grpc.RpcError:
            return None
        return None if any(result.HasField("error") for result in results) else results

    tries = []
    while not tries or tries[-1] is None:
        tries.append(again())
        assert len(tries) < 20
    if len(tries) == 1:  # Otherwise an earlier repeat may have made what the first did not.
        for before, after in zip(first, tries[0]):
            if not before.HasField("error"):
                assert before.created and not after.created and before.id == after.id
            elif before.error.reason != "OUTCOME_UNKNOWN":
                assert after.created, before
    assert world.tasks.Create(far("method", key="room-refused"), timeout=20).created


def ends_in_order(world):
    """Whoever watches the health hears of the drain before the line ends."""
    watch = world.raw_stream("/grpc.health.v1.Health/Watch")
    first = next(watch)
    statuses = [broker.stop() for broker in world.cluster.brokers.values()]
    try:
        second = next(watch)
    except grpc.RpcError:
        second = b""
    return (first, second, statuses) == (b"\x08\x01", b"\x08\x02", [0, 0])


def main():
    wanted = sys.argv[1:]
    counts = [0, 0]
    with harness.Cluster(shards=16,
                         broker_options=["--limits-calls", str(BATCH_MAX),
                                         *auditor.OPTIONS]) as cluster:
        if "FOLIOT_BUILD_DIR" in os.environ:
            cluster.bin = harness.pathlib.Path(os.environ["FOLIOT_BUILD_DIR"]) / "bin"
        world = World(cluster)
        for function in CASES:
            if wanted and not any(word in function.__name__ for word in wanted):
                continue
            try:
                function(world)
                world.check_well()
                counts[0] += 1
            except Exception:  # pylint: disable=broad-except
                traceback.print_exc()
                print(f"FAILED {function.__name__}")
                counts[1] += 1
        for fault in auditor.faults(cluster.pages):
            print(f"FAILED {fault}")
            counts[1] += 1
        if not ends_in_order(world):
            print("FAILED the brokers did not end in order")
            counts[1] += 1
    print(f"{counts[0]} passed, {counts[1]} failed")
    return 1 if counts[1] or not counts[0] else 0


if __name__ == "__main__":
    sys.exit(main())
