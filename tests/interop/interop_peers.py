#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Foreign clients use every method of the API, and see the same; a foreign server is the target of
both kinds. A method that nobody uses here fails the test. Ends with "N passed, N failed"."""
import base64
import subprocess
import sys
import tempfile
import time
import urllib.request

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

import callers
import devmode
import peer
from callers import METHODS, Refused

from foliot.v1 import cluster_pb2, queue_pb2, task_pb2  # noqa: E402

CODE = grpc.StatusCode
TASK = "/foliot.v1.TaskService/"
QUEUE = "/foliot.v1.QueueService/"
CLUSTER = "/foliot.v1.ClusterService/"
HOUR = duration_pb2.Duration(seconds=3600)
case = peer.case

class World:
    """foliot dev, a grpc-js server, and one client of each kind."""
    target = None
    clients = ()


class Walk:
    """One client's way through the API."""

    def __init__(self, client):
        self.client = client
        self.used = set()
        self.queue = f"walk-{client.name}".replace(".", "-")

    def call(self, path, **fields):
        """The response."""
        self.used.add(path)
        request = callers.factory.GetPrototype(METHODS[path].input_type)(**fields)
        return self.client.call(path, request)

    def refused(self, code, reason, path, **fields):
        self.used.add(path)
        request = callers.factory.GetPrototype(METHODS[path].input_type)(**fields)
        try:
            answer = self.client.call(path, request)
        except Refused as error:
            assert (error.code, error.reason) == (code, reason), f"{path}: {error} {error.reason}"
            return error
        raise AssertionError(f"{path} is served: {answer}")

    def make(self, **fields):
        return self.call(TASK + "Create", queue=self.queue, **fields)


def walks_through_queues(walk):
    queue = walk.call(QUEUE + "Create", queue=queue_pb2.Queue(
        name=walk.queue, target=f"receiver://{World.target.address}", delivery=
        queue_pb2.DELIVERY_AT_LEAST_ONCE, attempt_timeout=duration_pb2.Duration(seconds=5),
        result_memory=duration_pb2.Duration(seconds=600),
        retry=queue_pb2.RetryPolicy(failures_max=3))).queue
    assert queue.name == walk.queue and queue.attempt_timeout.seconds == 5, queue
    assert walk.call(QUEUE + "Get", name=walk.queue).queue == queue
    assert queue in walk.call(QUEUE + "List", page_size=1000).queues
    queue.concurrency_max = 77
    changed = walk.call(QUEUE + "Update", queue=queue).queue
    assert changed.concurrency_max == 77 and changed.version > queue.version, changed
    error = walk.refused(CODE.FAILED_PRECONDITION, "QUEUE_CHANGED", QUEUE + "Update", queue=queue)
    assert walk.queue in error.message, error
    walk.refused(CODE.ALREADY_EXISTS, "QUEUE_EXISTS", QUEUE + "Create", queue=queue)
    walk.refused(CODE.NOT_FOUND, "QUEUE_NOT_FOUND", QUEUE + "Get", name="nothing")


def walks_through_tasks(walk):
    start = time.monotonic()
    made = walk.make(delay=HOUR, key="\u4e2d\U0001f600", payload=bytes(range(256)),
                     tags={"colour": "bl\u00e4u", "n": ""})
    assert made.created and len(made.id) == 20, made
    again = walk.make(delay=HOUR, key="\u4e2d\U0001f600")
    assert (again.id, again.created, again.due_time) == (made.id, False, made.due_time), again
    walk.refused(CODE.ALREADY_EXISTS, "KEY_EXISTS", TASK + "Create", queue=walk.queue,
                 key="\u4e2d\U0001f600", key_policy=task_pb2.KEY_POLICY_REJECT)
    view = walk.call(TASK + "Get", queue=walk.queue, key="\u4e2d\U0001f600").task
    assert view.id == made.id and view.payload == bytes(range(256)), view
    assert view.state == task_pb2.TASK_STATE_WAITING and view.due_time == made.due_time, view
    moved = walk.call(TASK + "Update", id=made.id, delay=duration_pb2.Duration(seconds=7200),
                      payload=b"")
    apart_s = moved.due_time.seconds - made.due_time.seconds
    assert 3599 <= apart_s <= 3602 + time.monotonic() - start, (made, moved)
    assert walk.call(TASK + "Get", id=made.id).task.payload == b""
    listed = walk.call(TASK + "List", queue=walk.queue, with_payload=True)
    assert [task.id for task in listed.tasks] == [made.id], listed
    told = walk.call(TASK + "Explain", id=made.id)
    assert told.reason == task_pb2.WAIT_REASON_DUE_TIME, told
    gone = walk.call(TASK + "Cancel", id=made.id)
    assert gone.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED, gone
    walk.refused(CODE.NOT_FOUND, "TASK_GONE", TASK + "Get", id=made.id)
    error = walk.refused(CODE.INVALID_ARGUMENT, "PAYLOAD_TOO_LARGE", TASK + "Create",
                         queue=walk.queue, payload=b"x" * 65537)
    assert error.field == "payload" and "65536" in error.message, (error, error.field)


def walks_through_keys_of_what_has_ended(walk):
    """The rows of docs/PROTOCOL.md for a key whose task is done and whose memory has not passed."""
    for policy, wanted in ((task_pb2.KEY_POLICY_KEEP, "kept"), (task_pb2.KEY_POLICY_REJECT, None),
                           (task_pb2.KEY_POLICY_REPLACE, "new")):
        key = f"ended-{policy}"
        task = walk.make(key=key)
        peer.eventually(lambda task=task: walk.call(TASK + "Get", id=task.id).task.state ==
                        task_pb2.TASK_STATE_DONE, 20)
        fields = {"queue": walk.queue, "key": key, "key_policy": policy, "delay": HOUR}
        if wanted is None:
            walk.refused(CODE.ALREADY_EXISTS, "KEY_EXISTS", TASK + "Create", **fields)
            continue
        again = walk.call(TASK + "Create", **fields)
        assert again.created == (again.id != task.id) == (wanted == "new"), again
        assert again.HasField("due_time") == again.created, again


def walks_through_batches(walk):
    items = [task_pb2.CreateTaskRequest(key=f"item-{i}", delay=HOUR) for i in range(100)]
    items[7].key = "k" * 256
    results = walk.call(TASK + "BatchCreate", queue=walk.queue, items=items).results
    assert len(results) == 100 and results[7].error.reason == "KEY_TOO_LONG", results[7]
    ids = [one.id for one in results if one.id]
    assert len(set(ids)) == 99
    answer = walk.call(TASK + "BatchCancel", queue=walk.queue, items=[
        task_pb2.CancelTaskRequest(id=one) for one in ids] + [
        task_pb2.CancelTaskRequest(key="never")]).results
    assert [one.outcome for one in answer] == (
        [task_pb2.CANCEL_OUTCOME_CANCELLED] * 99 + [task_pb2.CANCEL_OUTCOME_NOT_FOUND]), answer


def walks_through_runs(walk):
    task = walk.make(delay=HOUR, payload=b"now", tags={"k": "v"})
    walk.call(TASK + "RunNow", id=task.id)
    attempt = World.target.wait(lambda came: World.target.attempts(task.id), "the attempt")[0]
    assert base64.b64decode(attempt["payload"]) == b"now" and attempt["attempt"] == 1, attempt
    assert attempt["queue"] == walk.queue and attempt["namespace"] == "default", attempt
    assert attempt["tags"] == {"k": "v"}, attempt

    def ended():
        return walk.call(TASK + "Get", id=task.id).task
    peer.eventually(lambda: ended().state == task_pb2.TASK_STATE_DONE, 20)
    view = ended()
    assert view.attempt == 1 and view.HasField("end_time") and view.HasField("forget_time"), view
    late = walk.make(expire_time=timestamp_pb2.Timestamp(seconds=1))  # It has passed already.
    peer.eventually(lambda: walk.call(TASK + "Get", id=late.id).task.state ==
                    task_pb2.TASK_STATE_EXPIRED, 20)


def walks_through_dead_letters(walk):
    tasks = [walk.make(key=f"dead-{i}") for i in range(2)]
    for task in tasks:
        World.target.wait(lambda came, task=task: World.target.attempts(task.id), "the attempt")

    def listed():
        return walk.call(QUEUE + "ListDead", queue=walk.queue, with_payload=True).dead
    peer.eventually(lambda: len(listed()) == 2, 20)
    assert {(one.id, one.key, one.error) for one in listed()} == {
        (tasks[i].id, f"dead-{i}", "never") for i in range(2)}, listed()
    groups = walk.call(QUEUE + "GroupDead", queue=walk.queue).groups
    assert [(one.error, one.count) for one in groups] == [("never", 2)], groups
    answer = walk.call(QUEUE + "PurgeDead", queue=walk.queue, ids=[tasks[1].id])
    assert answer.purged == 1 and [one.id for one in listed()] == [tasks[0].id], answer
    answer = walk.call(QUEUE + "RedriveDead", queue=walk.queue, ids=[tasks[0].id])
    assert answer.redriven == 1, answer
    World.target.wait(lambda came: len(World.target.attempts(tasks[0].id)) == 2, "its second chance")


def walks_through_a_pause(walk):
    walk.call(QUEUE + "Pause", name=walk.queue, duration=HOUR)
    task = walk.make(payload=b"paused")
    peer.eventually(lambda: walk.call(TASK + "Get", id=task.id).task.state ==
                    task_pb2.TASK_STATE_READY, 20)
    told = walk.call(TASK + "Explain", id=task.id)
    assert told.reason == task_pb2.WAIT_REASON_QUEUE_PAUSED and told.text, told
    assert told.until.seconds > told.task.due_time.seconds + 3000, told
    assert not World.target.attempts(task.id)
    walk.call(QUEUE + "Resume", name=walk.queue)
    World.target.wait(lambda came: World.target.attempts(task.id), "the attempt")


def walks_through_the_life_of_a_queue(walk):
    for method, state in (("Pause", "PAUSED"), ("Resume", "ACTIVE"), ("Drain", "DRAINING")):
        answer = walk.call(QUEUE + method, name=walk.queue)
        wanted = queue_pb2.QueueState.Value(f"QUEUE_STATE_{state}")
        assert answer.queue.state == wanted, answer
    walk.refused(CODE.FAILED_PRECONDITION, "QUEUE_DRAINING", TASK + "Create", queue=walk.queue)
    answer = walk.call(QUEUE + "GetStats", name=walk.queue)
    assert answer.queue.name == walk.queue and not answer.stats.missing_shards, answer
    other = walk.queue + "-empty"
    walk.call(QUEUE + "Create", queue=queue_pb2.Queue(name=other, target="receiver://127.0.0.1:1"))
    walk.refused(CODE.FAILED_PRECONDITION, "QUEUE_NOT_DRAINING", QUEUE + "Delete", name=other)
    walk.refused(CODE.FAILED_PRECONDITION, "QUEUE_NOT_EMPTY", QUEUE + "Delete", name=walk.queue)
    walk.call(QUEUE + "Drain", name=other)
    walk.call(QUEUE + "Delete", name=other)
    walk.refused(CODE.NOT_FOUND, "QUEUE_NOT_FOUND", QUEUE + "Get", name=other)


def walks_through_the_cluster(walk):
    topology = walk.call(CLUSTER + "GetTopology")
    assert topology.slot_count == 4096 and len(topology.shards) == topology.shard_count, topology
    assert all(shard.state == cluster_pb2.SHARD_STATE_ACTIVE for shard in topology.shards)
    present = [broker.name for broker in topology.brokers]
    plan = walk.call(CLUSTER + "PlanMembers", add=["other"])
    assert {share.broker for share in plan.shares} == {*present, "other"}, plan
    assert all(move.to == "other" for move in plan.moves) and plan.moves, plan
    everybody = walk.call(CLUSTER + "PlanMembers", remove=present)
    assert all(move.to == "" for move in everybody.moves), everybody
    assert len(everybody.moves) == topology.shard_count, everybody
    for path, field in (("PlanMembers", {"remove": ["nobody"]}), ("DrainBroker", {"broker": "nobody"})):
        walk.refused(CODE.NOT_FOUND, "BROKER_NOT_FOUND", CLUSTER + path, **field)
    walk.refused(CODE.ALREADY_EXISTS, "BROKER_EXISTS", CLUSTER + "PlanMembers", add=present)
    walk.refused(CODE.INVALID_ARGUMENT, "NAME_INVALID", CLUSTER + "DrainBroker", broker="")
    walk.refused(CODE.INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", CLUSTER + "PlanMembers",
                 add=[f"b{i}" for i in range(257)])


WALKS = [walks_through_queues, walks_through_tasks, walks_through_keys_of_what_has_ended,
         walks_through_batches, walks_through_runs, walks_through_dead_letters,
         walks_through_a_pause, walks_through_the_life_of_a_queue, walks_through_the_cluster]


@case
def every_client_uses_every_method():
    for client in World.clients:
        walk = Walk(client)
        for step in WALKS:
            try:
                step(walk)
            except Exception as error:
                raise AssertionError(f"{client.name} {step.__name__}: {error}") from error
        missing = set(METHODS) - walk.used
        assert not missing, f"nobody uses {sorted(missing)}: add them to WALKS"


@case
def messages_above_the_limit_are_refused_with_the_same_status():
    for client in World.clients:
        try:
            client.call(TASK + "Create", task_pb2.CreateTaskRequest(payload=b"x" * (5 << 20)))
            raise AssertionError(f"{client.name} was served")
        except Refused as error:  # Which limit it met depends on the port.
            assert error.code == CODE.RESOURCE_EXHAUSTED and error.message, (client.name, error)


@case
def a_grpc_js_server_is_a_target_of_both_kinds():
    client = World.clients[0]
    walk = Walk(client)
    walk.queue = "kinds"
    walk.call(QUEUE + "Create", queue=queue_pb2.Queue(
        name="kinds", target=f"receiver://{World.target.address}", retry=queue_pb2.RetryPolicy(
            initial_backoff=duration_pb2.Duration(nanos=20000000))))
    task = walk.make(key="retry-1", payload=b"\x00\xff")
    attempts = World.target.wait(lambda came: len(World.target.attempts(task.id)) >= 2 and
                                 World.target.attempts(task.id), "two attempts")
    assert [attempt["attempt"] for attempt in attempts] == [1, 2], attempts
    assert base64.b64decode(attempts[1]["payload"]) == b"\x00\xff", attempts
    for method, count in (("Send", 1), ("Fail", 3)):
        walk.queue = f"kinds-{method.lower()}"
        walk.call(QUEUE + "Create", queue=queue_pb2.Queue(
            name=walk.queue, target=f"grpc://{World.target.address}/shop.Mail/{method}",
            retry=queue_pb2.RetryPolicy(initial_backoff=duration_pb2.Duration(nanos=20000000),
                                        failures_max=3)))
        task = walk.make(key="\u00e4", payload=b"\x08\x01")
        calls = World.target.wait(
            lambda came, task=task, count=count: len(World.target.calls(task.id)) >= count and
            World.target.calls(task.id), f"{count} calls")
        assert [call["metadata"]["foliot-attempt"] for call in calls] == (
            ["1", "2", "3"][:count]), calls
        assert base64.b64decode(calls[0]["payload"]) == b"\x08\x01", calls
        assert base64.b64decode(calls[0]["metadata"]["foliot-key-bin"]) == "\u00e4".encode()
    time.sleep(0.2)
    assert len(World.target.calls(task.id)) == 3


@case
def h2load_gets_an_answer_to_each_of_its_calls():
    """A generator that knows nothing of gRPC: each call is a task, and each task is there."""
    with devmode.Dev() as dev, tempfile.NamedTemporaryFile() as body:
        client = callers.Grpcio(dev.place)
        client.call(QUEUE + "Create", queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name="h2load", target="receiver://127.0.0.1:1")))
        client.close()
        request = task_pb2.CreateTaskRequest(queue="h2load", delay=HOUR).SerializeToString()
        body.write(b"\0" + len(request).to_bytes(4, "big") + request)
        body.flush()
        done = subprocess.run(
            ["h2load", "-n", "2000", "-c", "4", "-m", "20", "-d", body.name, "-p", "h2c", "-H",
             "content-type: application/grpc", "-H", "te: trailers",
             f"http://{dev.address}{TASK}Create"],
            capture_output=True, text=True, check=True, timeout=60)
        assert "2000 succeeded, 0 failed" in done.stdout, done.stdout
        peer.eventually(lambda: metric(dev, "foliot_tasks_scheduled_total") == 2000, 10)


def metric(dev, name):
    """One figure of /metrics; they are a second old or so."""
    with urllib.request.urlopen(f"http://{dev.place['adminAddress']}/metrics", timeout=10) as page:
        lines = page.read().decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


def main():
    with devmode.Dev() as dev:
        World.target = callers.NodeTarget()
        World.clients = list(callers.callers(dev.place))
        try:
            peer.main(sys.argv[1:])
        finally:
            for client in World.clients:
                client.close()
            World.target.close()


if __name__ == "__main__":
    main()
