#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The foliot command against grpcio: a broker played by Python answers it, and Python calls its
receiver. Ends with "N passed, N failed"."""
import json
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent import futures

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

import stubs

stubs.generate()
from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, queue_pb2_grpc,  # noqa: E402
                       receiver_pb2, receiver_pb2_grpc, task_pb2, task_pb2_grpc)
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

FOLIOT = os.environ["FOLIOT_PROGRAM_FOLIOT"]
ID = "0a7-0000012300000001"
LIMIT_S = 20


def timestamp(ms):
    return timestamp_pb2.Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1000000)


def refuse(context, code, reason, message, field="", retry_s=0):
    """Abort with the details that a broker sends."""
    status = status_pb2.Status(code=code.value[0], message=message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="foliot"))
    if field:
        bad = error_details_pb2.BadRequest()
        bad.field_violations.add(field=field, description=message)
        status.details.add().Pack(bad)
    if retry_s:
        status.details.add().Pack(error_details_pb2.RetryInfo(
            retry_delay=duration_pb2.Duration(seconds=retry_s)))
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)


class Tasks(task_pb2_grpc.TaskServiceServicer):
    """A broker that remembers what it was asked."""

    def __init__(self):
        self.calls = []
        self.keys = {}
        self.fail_next = []  # (code, reason) for the next calls
        self.count = 0

    def note(self, request, context):
        self.calls.append(request)
        if self.fail_next:
            refuse(context, *self.fail_next.pop(0), "as the test wants it", retry_s=1)

    def Create(self, request, context):
        self.note(request, context)
        if request.queue == "nope":
            refuse(context, grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", "no such queue", "queue")
        if request.queue == "slow":
            time.sleep(3)
        created = request.key not in self.keys
        if request.key_policy == task_pb2.KEY_POLICY_REJECT and not created:
            refuse(context, grpc.StatusCode.ALREADY_EXISTS, "EXISTS", "taken", "key")
        self.count += created
        name = f"0a7-{self.count:016x}"
        if request.key:
            name = self.keys.setdefault(request.key, name)
        return task_pb2.CreateTaskResponse(id=name, created=created, due_time=timestamp(1767323045678))

    def BatchCreate(self, request, context):
        self.note(request, context)
        reply = task_pb2.BatchCreateTasksResponse()
        for index, item in enumerate(request.items):
            if self.count == 5 and index == 0:
                self.count += 1
                reply.results.add(error=task_pb2.ItemError(code=14, reason="UNAVAILABLE",
                                                           message="moving"))
            else:
                self.count += 1
                self.keys[item.key] = reply.results.add(id=f"0a7-{self.count:016x}",
                                                        created=True).id
        return reply

    def Get(self, request, context):
        self.note(request, context)
        if request.WhichOneof("task") == "key":
            refuse(context, grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND", "no such task")
        return task_pb2.GetTaskResponse(task=task_pb2.Task(
            id=request.id, namespace="default", queue="mail", key="k\u00e4y",
            due_time=timestamp(1767323045678), create_time=timestamp(1767323000000),
            payload=b"\x00\xff", state=task_pb2.TASK_STATE_RETRYING, attempt=3, failures=2))

    def Cancel(self, request, context):
        self.note(request, context)
        outcome = {"s": 2, "g": 3, "n": 4}.get(request.key, 1)
        return task_pb2.CancelTaskResponse(outcome=outcome, attempt=7 * (outcome == 2),
                                           id="" if outcome == 4 else ID)

    def Update(self, request, context):
        self.note(request, context)
        return task_pb2.UpdateTaskResponse(id=request.id, due_time=timestamp(1767323045678),
                                           may_be_running_attempt=2)


class Queues(queue_pb2_grpc.QueueServiceServicer):
    """Keeps queues in a dict."""

    def __init__(self):
        self.queues = {}

    def Create(self, request, context):
        queue = request.queue
        if queue.name in self.queues:
            refuse(context, grpc.StatusCode.ALREADY_EXISTS, "EXISTS", "taken", "queue.name")
        queue.id, queue.version = len(self.queues) + 1, 1
        self.queues[queue.name] = queue
        return queue_pb2.CreateQueueResponse(queue=queue, unconfirmed_brokers=["b2"])

    def Get(self, request, context):
        if request.name not in self.queues:
            refuse(context, grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", "no such queue", "name")
        return queue_pb2.GetQueueResponse(queue=self.queues[request.name])

    def List(self, request, context):
        queues = sorted(self.queues.values(), key=lambda queue: queue.id)
        start = int(request.page_token or 0)
        page = [queue for queue in queues if queue.id > start][:2]
        more = page and page[-1].id < queues[-1].id
        return queue_pb2.ListQueuesResponse(queues=page,
                                            next_page_token=str(page[-1].id) if more else "")

    def Update(self, request, context):
        old = self.queues[request.queue.name]
        if request.queue.version != old.version:
            refuse(context, grpc.StatusCode.FAILED_PRECONDITION, "CONFLICT", "another version")
        request.queue.version += 1
        self.queues[request.queue.name] = request.queue
        return queue_pb2.UpdateQueueResponse(queue=request.queue)


class Cluster(cluster_pb2_grpc.ClusterServiceServicer):
    def GetTopology(self, request, context):
        return cluster_pb2.GetTopologyResponse(
            cluster="demo", answered_by="b1", shard_count=2, slot_count=4096,
            brokers=[cluster_pb2.Broker(name="b1", grpc_address="127.0.0.1:1", version="0.1.0",
                                        shard_count=1)],
            shards=[cluster_pb2.Shard(shard=0, database="db0", owner="b1", epoch=2**40,
                                      state=cluster_pb2.SHARD_STATE_ACTIVE),
                    cluster_pb2.Shard(shard=1, database="db0")],
            databases=[cluster_pb2.Database(name="db0", system_id=2**64 - 1, timeline=2),
                       cluster_pb2.Database(name="db1")])


class Broker:
    """All services on a port of their own."""

    def __init__(self):
        self.tasks, self.queues = Tasks(), Queues()
        self.server = grpc.server(futures.ThreadPoolExecutor(8))
        task_pb2_grpc.add_TaskServiceServicer_to_server(self.tasks, self.server)
        queue_pb2_grpc.add_QueueServiceServicer_to_server(self.queues, self.server)
        cluster_pb2_grpc.add_ClusterServiceServicer_to_server(Cluster(), self.server)
        self.address = f"127.0.0.1:{self.server.add_insecure_port('127.0.0.1:0')}"
        self.server.start()

    def stop(self):
        self.server.stop(0).wait()


def foliot(*words, broker=None, servers=None, code=0, stdin=None):
    """Run the command; returns what it wrote to standard output."""
    servers = servers or [broker.address]
    done = subprocess.run([FOLIOT, *words, *[f"--server={server}" for server in servers]],
                          capture_output=True, timeout=LIMIT_S, input=stdin, check=False)
    text = done.stderr.decode()
    assert done.returncode == code, f"{words}: exit {done.returncode}, wanted {code}: {text}"
    foliot.stderr = text
    return done.stdout.decode()


def dead_address():
    """A port where nobody listens."""
    import socket
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


# ---- the cases ----

def creates_with_everything(broker):
    out = foliot("task", "create", "-q", "mail", "-n", "shop", "--at", "2026-01-02T03:04:05.678Z",
                 "-p", "h\u00e4llo", "-k", "order-1", "--key-policy", "replace", "--latest",
                 "2026-01-03T00:00:00Z", "-o", "json", broker=broker)
    request = broker.tasks.calls[-1]
    assert json.loads(out) == {"id": "0a7-0000000000000001", "created": True,
                               "dueTime": "2026-01-02T03:04:05.678Z"}, out
    assert (request.namespace, request.queue, request.key) == ("shop", "mail", "order-1")
    assert request.due_time.ToMilliseconds() == 1767323045678
    assert request.payload == "h\u00e4llo".encode()
    assert request.key_policy == task_pb2.KEY_POLICY_REPLACE
    assert request.latest_time.ToMilliseconds() == 1767398400000


def creates_with_a_delay_and_a_payload_from_a_pipe(broker):
    out = foliot("task", "create", "-q", "mail", "-a", "+1h30m", "-f", "-", broker=broker,
                 stdin=b"\x00\x01\xff")
    request = broker.tasks.calls[-1]
    assert request.WhichOneof("when") == "delay" and request.delay.seconds == 5400
    assert request.payload == b"\x00\x01\xff"
    assert "created, due 2026-01-02T03:04:05.678Z" in out, out


def refuses_a_payload_above_the_limit_before_asking(broker):
    before = len(broker.tasks.calls)
    foliot("task", "create", "-q", "mail", "-f", "-", broker=broker, stdin=b"x" * 65537, code=2)
    assert "PAYLOAD_BYTES_MAX" in foliot.stderr
    assert len(broker.tasks.calls) == before


def exit_codes_tell_errors_apart(broker):
    foliot("task", "create", "-q", "nope", broker=broker, code=3)
    assert "NOT_FOUND (QUEUE_NOT_FOUND): no such queue" in foliot.stderr, foliot.stderr
    foliot("task", "create", "-q", "m", "-k", "k", broker=broker)
    foliot("task", "create", "-q", "m", "-k", "k", "--key-policy", "reject", broker=broker, code=5)
    foliot("task", "get", "-q", "m", "-k", "k", broker=broker, code=3)
    foliot("task", "create", "-q", "slow", "--timeout", "200ms", broker=broker, code=7)
    foliot("task", "create", "-q", "m", servers=[dead_address()], code=6)
    assert "name others with --address" in foliot.stderr, foliot.stderr
    broker.tasks.fail_next = [(grpc.StatusCode.RESOURCE_EXHAUSTED, "FULL")]
    foliot("task", "create", "-q", "m", broker=broker, code=6)
    assert "try again in 1000 ms" in foliot.stderr, foliot.stderr
    broker.tasks.fail_next = [(grpc.StatusCode.PERMISSION_DENIED, "DENIED")]
    foliot("task", "create", "-q", "m", broker=broker, code=4)


def each_mistake_has_one_line_that_says_what_to_do(broker):
    rows = [
        (("task",), "needs a verb: create, get, cancel, update, run, list, explain or watch"),
        (("task", "creat"), 'did you mean "foliot task create"?'),
        (("cluster", "bogus"), '"foliot cluster" knows status, shards, plan, drain, check,'),
        (("task", "create", "--quue", "m"), 'did you mean "--queue"?'),
        (("task", "create", "-q", "m", "--at", "tomorow"), "must be +15m, now, tomorrow 09:00, or"),
        (("task", "create", "-q", "m", "-f", "/nonexistent"), "No such file or directory"),
        (("task", "create", "-q", "m", "--key-policy", "reject"), "add --key KEY"),
        (("queue", "create", "m", "-t", "receiver://h:1", "--failures-max", "0"),
         "must be a whole number from 1"),
        (("queue", "update", "mail"), "say what changes"),
    ]
    before = len(broker.tasks.calls)
    for words, hint in rows:
        foliot(*words, broker=broker, code=2)
        lines = foliot.stderr.splitlines()
        assert len(lines) == 1 and hint in lines[0], (words, lines)
    assert len(broker.tasks.calls) == before
    foliot("cluster", "status", servers=["127.0.0.1"], code=2)
    assert "must be host:port, as 127.0.0.1:7400" in foliot.stderr, foliot.stderr


def says_why_there_is_no_connection(_):
    import socket
    foliot("cluster", "status", servers=[dead_address()], code=6)
    assert "nobody accepts it there" in foliot.stderr, foliot.stderr
    with socket.socket() as other:  # A server of another kind: it closes what it cannot read.
        other.bind(("127.0.0.1", 0))
        other.listen()
        closer = threading.Thread(target=lambda: other.accept()[0].close())
        closer.start()
        foliot("cluster", "status", servers=[f"127.0.0.1:{other.getsockname()[1]}"], code=6)
        closer.join()
        assert "no gRPC server greets there" in foliot.stderr, foliot.stderr


def a_reader_that_has_had_enough_is_no_fault(broker):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb") as out:
        done = subprocess.run([FOLIOT, "queue", "list", "--server", broker.address], stdout=out,
                              stderr=subprocess.PIPE, timeout=LIMIT_S, check=False)
    assert done.stderr == b"", done.stderr


def goes_to_the_next_server_when_nothing_happened(broker):
    other = Broker()
    other.tasks.fail_next = [(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")]
    before = len(broker.tasks.calls)
    foliot("task", "create", "-q", "m",
           servers=[dead_address(), other.address, broker.address])
    assert len(broker.tasks.calls) == before + 1
    other.stop()


def finds_servers_by_name_in_the_environment_and_after_commas(broker):
    port = broker.address.rsplit(":", 1)[1]
    foliot("cluster", "status", servers=[f"{dead_address()},localhost:{port}"])
    done = subprocess.run([FOLIOT, "cluster", "status"], capture_output=True, timeout=LIMIT_S,
                          env={**os.environ, "FOLIOT_SERVER": f"localhost:{port}"}, check=False)
    assert done.returncode == 0, done.stderr
    foliot("cluster", "status", servers=["no-such-host.invalid:1"], code=6)
    foliot("cluster", "status", servers=["no port"], code=2)


def shows_a_task(broker):
    out = foliot("task", "get", ID, broker=broker)
    assert "RETRYING" in out and "k\u00e4y" in out and "2 bytes" in out, out
    view = json.loads(foliot("task", "get", ID, "-o", "json", broker=broker))
    assert view["payload"] == "AP8=" and view["state"] == "TASK_STATE_RETRYING", view
    assert view["createTime"] == "2026-01-02T03:03:20.000Z" and view["attempt"] == 3, view


def tells_the_four_outcomes_of_cancel(broker):
    assert foliot("task", "cancel", ID, broker=broker) == f"{ID} CANCELLED\n"
    out = foliot("task", "cancel", "-q", "m", "-k", "s", broker=broker)
    assert "STOPPED: attempt 7" in out, out
    assert foliot("task", "cancel", "-q", "m", "-k", "g", broker=broker, code=5) == f"{ID} GONE\n"
    assert foliot("task", "cancel", "-q", "m", "-k", "n", broker=broker, code=3) == "NOT_FOUND\n"


def updates_what_was_said_and_nothing_else(broker):
    out = json.loads(foliot("task", "update", ID, "--payload", "", "-o", "json", broker=broker))
    request = broker.tasks.calls[-1]
    assert request.WhichOneof("when") is None and request.WhichOneof("change") == "payload"
    assert out["mayBeRunningAttempt"] == 2, out
    foliot("task", "update", ID, "--at", "+5s", broker=broker)
    request = broker.tasks.calls[-1]
    assert request.delay.seconds == 5 and request.WhichOneof("change") is None
    foliot("task", "update", ID, "--at", "now", broker=broker)
    assert broker.tasks.calls[-1].WhichOneof("when") == "delay"


def keeps_what_a_queue_update_does_not_name(broker):
    foliot("queue", "create", "mail", "-t", "receiver://127.0.0.1:7500", "--attempt-timeout",
           "30s", "--jitter-permille", "0", "--delivery", "at-most-once", broker=broker)
    foliot("queue", "create", "mail", "-t", "receiver://127.0.0.1:7500", broker=broker, code=5)
    foliot("queue", "update", "mail", "--concurrency", "50", broker=broker)
    queue = broker.queues.queues["mail"]
    assert queue.attempt_timeout.seconds == 30 and queue.concurrency_max == 50, queue
    assert queue.retry.jitter_permille == 0 and queue.version == 2, queue
    assert queue.delivery == queue_pb2.DELIVERY_AT_MOST_ONCE
    shown = json.loads(foliot("queue", "get", "mail", "-o", "json", broker=broker))["queue"]
    assert shown["attemptTimeout"] == "30.000s" and shown["retry"]["jitterPermille"] == 0, shown
    foliot("queue", "get", "other", broker=broker, code=3)


def lists_queues_over_several_pages(broker):
    for name in "abcd":
        foliot("queue", "create", name, "-t", "receiver://h:1", broker=broker)
    lines = foliot("queue", "list", "-o", "jsonl", broker=broker).splitlines()
    assert [json.loads(line)["name"] for line in lines] == ["mail", "a", "b", "c", "d"], lines
    whole = json.loads(foliot("queue", "list", "-o", "json", broker=broker))
    assert whole == {"queues": [json.loads(line) for line in lines]}, whole
    assert foliot("queue", "list", "-o", "name", broker=broker).split() == ["mail", *"abcd"]
    assert len(foliot("queue", "list", broker=broker).splitlines()) == 6


def shows_the_cluster(broker):
    out = foliot("cluster", "status", broker=broker)
    assert "cluster demo: 1 broker, 2 shards, 1 without owner (as b1 sees it)" in out, out
    assert "\ndatabase db0: system 18446744073709551615, timeline 2\n" in out and "db1" not in out, out
    said = json.loads(foliot("cluster", "status", "-o", "json", broker=broker))["databases"]
    assert said == [{"name": "db0", "systemId": "18446744073709551615", "timeline": 2},
                    {"name": "db1", "systemId": "0", "timeline": 0}], said
    out = foliot("cluster", "shards", broker=broker)
    assert "0000   db0       b1     1099511627776  ACTIVE" in out, out
    shards = json.loads(foliot("cluster", "shards", "-o", "json", broker=broker))["shards"]
    assert shards[0]["epoch"] == "1099511627776" and shards[1]["owner"] == "", shards


def bench_writes_down_each_task_that_was_answered(broker):
    other = Broker()
    other.tasks.fail_next = [(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE")] * 3
    out = foliot("bench", "record", "-q", "m", "-c", "200", "--rate", "1000", "--keyed",
                 "--delay-min", "1s", "--delay-max", "2s", "--seed", "7", "-o", "json",
                 servers=[dead_address(), other.address, broker.address])
    lines = [json.loads(line) for line in out.splitlines()]
    assert len(lines) == 200 and len({line["key"] for line in lines}) == 200
    for line in lines:
        answered = {b.tasks.keys.get(line["key"]) for b in (broker, other)}
        assert line["id"] in answered, line
    delays = [r.delay.ToMilliseconds() for r in broker.tasks.calls if r.key.startswith("bench-")]
    assert min(delays) >= 1000 and max(delays) <= 2000 and len(set(delays)) > 20
    other.stop()


def bench_tries_single_items_of_a_batch_again(_):
    broker = Broker()
    broker.tasks.count = 5
    out = foliot("bench", "record", "-q", "m", "-c", "25", "--batch", "10", "--keyed",
                 "--outstanding", "1", "-o", "json", broker=broker)
    sizes = [len(call.items) for call in broker.tasks.calls]
    assert sizes == [10, 1, 10, 5], sizes
    assert len(out.splitlines()) == 25
    broker.stop()


def bench_does_not_repeat_an_unknown_outcome_without_a_key(_):
    broker = Broker()
    broker.tasks.fail_next = [(grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN")] * 2
    out = foliot("bench", "record", "-q", "m", "-c", "10", "--outstanding", "1", broker=broker,
                 code=1)
    assert len(out.splitlines()) == 8 and "unknown 2" in foliot.stderr, foliot.stderr
    broker.tasks.fail_next = [(grpc.StatusCode.UNKNOWN, "OUTCOME_UNKNOWN")] * 2
    out = foliot("bench", "record", "-q", "m", "-c", "10", "--keyed", broker=broker)
    assert len(out.splitlines()) == 10
    broker.stop()


class Receiver:
    """foliot receive as a process."""

    def __init__(self, *words):
        self.process = subprocess.Popen([FOLIOT, "receive", "--port", "0", "-o", "json", *words],
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        port = json.loads(self.process.stdout.readline())["port"]
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.stub = receiver_pb2_grpc.ReceiverStub(self.channel)

    def deliver(self, count=1, due_ms=None, timeout=LIMIT_S):
        attempt = receiver_pb2.Attempt(task_id=ID, namespace="default", queue="mail", key="k",
                                       attempt=2, payload=b"x",
                                       due_time=timestamp(due_ms or int(time.time() * 1000)))
        return self.stub.Deliver(receiver_pb2.DeliverRequest(attempts=[attempt] * count),
                                 timeout=timeout)

    def end(self):
        """Ask it to end; (lines, summary)."""
        self.process.send_signal(signal.SIGTERM)
        out, err = self.process.communicate(timeout=LIMIT_S)
        self.channel.close()
        assert self.process.returncode == 0, err
        return [json.loads(line) for line in out.splitlines()], err


def receives_batches_and_says_how_late_they_are(_):
    receiver = Receiver()
    due_ms = int(time.time() * 1000) - 50
    reply = receiver.deliver(3, due_ms)
    assert [result.outcome for result in reply.results] == [receiver_pb2.OUTCOME_DONE] * 3
    receiver.deliver(1, int(time.time() * 1000) + 60000)
    try:
        receiver.channel.unary_unary("/foliot.v1.Receiver/Deliver")(b"\x0a\x7f", timeout=LIMIT_S)
        raise AssertionError("garbage was not refused")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, error
        assert stubs.details_of(error)[0] == "MESSAGE_MALFORMED", error
    lines, err = receiver.end()
    assert len(lines) == 4 and lines[0]["dueMs"] == due_ms and lines[0]["attempt"] == 2
    assert 50000 <= lines[0]["latenessUs"] < 5000000 and lines[3]["latenessUs"] < 0
    summary = json.loads(err)
    assert (summary["count"], summary["early"], summary["repeats"]) == (4, 1, 4), summary


def serves_any_method_besides(_):
    receiver = Receiver("--count", "1")
    send = receiver.channel.unary_unary("/shop.Mail/Send")
    assert send(b"\x08\x01", timeout=LIMIT_S, metadata=(
        ("foliot-task-id", ID), ("foliot-attempt", "1"), ("foliot-queue", "mail"),
        ("foliot-due-time", "1767323045678"), ("foliot-key-bin", "\u00e4".encode()))) == b""
    out, _ = receiver.process.communicate(timeout=LIMIT_S)
    line = json.loads(out)
    assert (line["taskId"], line["key"], line["dueMs"]) == (ID, "\u00e4", 1767323045678), line
    receiver.channel.close()


def plays_a_slow_a_failing_and_a_hanging_target(_):
    receiver = Receiver("--delay", "150ms", "--fail-permille", "1000")
    start = time.monotonic()
    reply = receiver.deliver(2)
    assert time.monotonic() - start >= 0.15
    assert [result.outcome for result in reply.results] == [receiver_pb2.OUTCOME_RETRY] * 2
    receiver.end()
    receiver = Receiver("--hang", "--summary")
    grpc.channel_ready_future(receiver.channel).result(LIMIT_S)
    try:
        receiver.deliver(1, timeout=2)
        raise AssertionError("a hanging receiver answered")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    lines, _ = receiver.end()
    assert lines[-1]["count"] == 1, lines


CASES = [value for name, value in list(globals().items())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and not isinstance(value, type) and name not in ("foliot", "refuse", "timestamp",
                                                          "dead_address", "main")]


def main():
    broker = Broker()
    passed = failed = 0
    for case in CASES:
        try:
            case(broker)
            passed += 1
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {error}")
    broker.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
