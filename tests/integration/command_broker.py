# SPDX-License-Identifier: Apache-2.0
"""A broker played by grpcio for tests of the command: it remembers what it was asked, and answers as
the test wants it."""
import os
import socket
import time
from concurrent import futures

os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # Handshakes that fail are what tests want.
import grpc  # noqa: E402
from google.protobuf import duration_pb2, timestamp_pb2  # noqa: E402

import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, queue_pb2_grpc,  # noqa: E402
                       task_pb2, task_pb2_grpc)
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

ID = "0a7-0000012300000001"
DUE_MS = 1767323045678  # 2026-01-02T03:04:05.678Z
SHARDS = 8


def timestamp(ms):
    return timestamp_pb2.Timestamp(seconds=ms // 1000, nanos=ms % 1000 * 1000000)


def dead_address():
    """A port where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


def refuse(context, code, reason, message):
    """Abort with the details that a broker sends."""
    status = status_pb2.Status(code=code.value[0], message=message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=reason, domain="foliot"))
    if code == grpc.StatusCode.RESOURCE_EXHAUSTED:
        status.details.add().Pack(error_details_pb2.RetryInfo(
            retry_delay=duration_pb2.Duration(seconds=1)))
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(code, message)


def item_error():
    return task_pb2.ItemError(code=14, reason="UNAVAILABLE", message="moving")


def task_of(number, state=1, **more):
    return task_pb2.Task(id=f"0a7-{number:016x}", namespace="default", queue="mail",
                         key=f"key-{number}", due_time=timestamp(DUE_MS + number - 1),
                         create_time=timestamp(DUE_MS - 1000), payload=b"\x00\xff", state=state,
                         tags={"colour": "red", "size": "9"}, **more)


class Broker:
    """All services on a port of their own."""

    def __init__(self, tls=None, clients_ca=None):
        """tls: (certificate, key) files; clients_ca: file of those whose clients are let in."""
        self.reset()
        self.batches = []
        self.server = grpc.server(futures.ThreadPoolExecutor(8), interceptors=(Garbler(self),))
        task_pb2_grpc.add_TaskServiceServicer_to_server(Tasks(self), self.server)
        queue_pb2_grpc.add_QueueServiceServicer_to_server(Queues(self), self.server)
        cluster_pb2_grpc.add_ClusterServiceServicer_to_server(Cluster(self), self.server)
        self.address = f"127.0.0.1:{self.open_port(tls, clients_ca)}"
        self.server.start()

    def open_port(self, tls, clients_ca):
        if tls is None:
            return self.server.add_insecure_port("127.0.0.1:0")
        texts = []
        for path in (*tls, *([clients_ca] if clients_ca else [])):
            with open(path, "rb") as file:
                texts.append(file.read())
        credentials = grpc.ssl_server_credentials(
            [(texts[1], texts[0])], texts[2] if clients_ca else None, bool(clients_ca))
        return self.server.add_secure_port("127.0.0.1:0", credentials)

    def reset(self):
        self.last = {}           # the last request of each method
        self.fail_next = []      # (status, reason, message) of the next calls
        self.fail_always = None  # a status
        self.fail_method = None  # (method, status)
        self.hang_s = 0
        self.garble = False      # answer with bytes that are no message
        self.bad_token = False   # say that a page follows, by a token that is none
        self.life = []           # what Get says of a task, one after the other
        self.item_fails = 0      # items of a batch that fail
        self.extra = 0           # more tasks than the seven
        self.error = "no such user"
        self.is_sick = False     # the topology has every fault that the command looks for

    def stop(self):
        self.server.stop(0).wait()

    def note(self, name, request, context):
        self.last[name] = request
        # Drawn before the wait: whoever was given up on meanwhile must not take another call's.
        failure = self.take_failure(name)
        if self.hang_s:
            time.sleep(self.hang_s)
        if failure:
            code, reason, message = failure
            refuse(context, getattr(grpc.StatusCode, code), reason, message)

    def take_failure(self, name):
        if self.fail_next and name != "GetTopology":  # Which clients ask for by themselves.
            return self.fail_next.pop(0)
        if self.fail_always or (self.fail_method and self.fail_method[0] == name):
            return self.fail_always or self.fail_method[1], "SOME_REASON", "as the test wants it"
        return None


class Garbler(grpc.ServerInterceptor):
    """Answers with bytes that are no message, while the test wants it."""

    def __init__(self, broker):
        self.broker = broker

    def intercept_service(self, continuation, handler_call_details):
        if self.broker.garble:
            return grpc.unary_unary_rpc_method_handler(lambda request, context: b"\x0a\x7f")
        return continuation(handler_call_details)


def page(items, size, token, bad_token):
    """(items of a page, token of the next one), in the form of our page tokens."""
    start = int(token.split(".")[3], 16) if token else 0
    end = min(start + size, len(items))
    following = f"0.0.1.{end:x}" if end < len(items) else ""
    return items[start:end], ("!" if bad_token else following)


class Tasks(task_pb2_grpc.TaskServiceServicer):
    def __init__(self, broker):
        self.broker = broker
        self.count = 0

    def Create(self, request, context):
        self.broker.note("Create", request, context)
        self.count += 1
        return task_pb2.CreateTaskResponse(id=f"0a7-{self.count:016x}", created=True,
                                           due_time=timestamp(DUE_MS))

    def Get(self, request, context):
        self.broker.note("Get", request, context)
        word = self.broker.life.pop(0) if self.broker.life else "DEAD"
        if word == "away":
            refuse(context, grpc.StatusCode.UNAVAILABLE, "OWNER_UNKNOWN", "moving")
        if word == "gone":
            refuse(context, grpc.StatusCode.NOT_FOUND, "TASK_GONE", "the task is no longer pending")
        task = task_of(1, state=task_pb2.TaskState.Value("TASK_STATE_" + word), attempt=3, failures=2)
        task.id = request.id or ID
        if word == "DEAD":
            task.error = self.broker.error
            task.end_time.CopyFrom(timestamp(DUE_MS + 5000))
        return task_pb2.GetTaskResponse(task=task)

    def Cancel(self, request, context):
        self.broker.note("Cancel", request, context)
        return task_pb2.CancelTaskResponse(outcome=1, id=request.id or ID)

    def Update(self, request, context):
        self.broker.note("Update", request, context)
        return task_pb2.UpdateTaskResponse(id=request.id or ID, due_time=timestamp(DUE_MS),
                                           may_be_running_attempt=2)

    def RunNow(self, request, context):
        self.broker.note("RunNow", request, context)
        return task_pb2.RunTaskNowResponse(id=request.id or ID, due_time=timestamp(DUE_MS),
                                           may_be_running_attempt=2)

    def List(self, request, context):
        self.broker.note("List", request, context)
        count = 0 if request.queue == "empty" else 7 + self.broker.extra
        items, token = page(range(1, count + 1), request.page_size, request.page_token,
                            self.broker.bad_token)
        return task_pb2.ListTasksResponse(tasks=[task_of(number) for number in items],
                                          next_page_token=token)

    def BatchCancel(self, request, context):
        self.broker.note("BatchCancel", request, context)
        self.broker.batches.append(len(request.items))
        reply = task_pb2.BatchCancelTasksResponse()
        for index, item in enumerate(request.items):
            if index < self.broker.item_fails:
                reply.results.add(error=item_error())
            else:
                outcome = {5: 2, 6: 3}.get(index, 1)
                reply.results.add(outcome=outcome, attempt=4 * (outcome == 2), id=item.id)
        return reply

    def Explain(self, request, context):
        self.broker.note("Explain", request, context)
        task = task_of(1)
        task.id = request.id or ID
        return task_pb2.ExplainTaskResponse(
            task=task, reason=task_pb2.WAIT_REASON_QUEUE_PAUSED,
            text="the queue is paused; foliot queue resume ends it", shard=7, broker="b1")


def queue_of(name, state=1):
    return queue_pb2.Queue(namespace="default", name=name, target="receiver://127.0.0.1:1", id=1,
                           version=1, state=state, attempt_timeout=duration_pb2.Duration(seconds=10))


class Queues(queue_pb2_grpc.QueueServiceServicer):
    def __init__(self, broker):
        self.broker = broker

    def Create(self, request, context):
        self.broker.note("CreateQueue", request, context)
        queue = queue_of(request.queue.name)
        return queue_pb2.CreateQueueResponse(queue=queue)

    def Get(self, request, context):
        self.broker.note("GetQueue", request, context)
        return queue_pb2.GetQueueResponse(queue=queue_of(request.name))

    def Update(self, request, context):
        self.broker.note("UpdateQueue", request, context)
        return queue_pb2.UpdateQueueResponse(queue=queue_of(request.queue.name))

    def List(self, request, context):
        self.broker.note("ListQueues", request, context)
        return queue_pb2.ListQueuesResponse(queues=[queue_of("mail")])

    def Pause(self, request, context):
        self.broker.note("Pause", request, context)
        return queue_pb2.PauseQueueResponse(queue=queue_of(request.name, 2))

    def Resume(self, request, context):
        self.broker.note("Resume", request, context)
        return queue_pb2.ResumeQueueResponse(queue=queue_of(request.name))

    def Drain(self, request, context):
        self.broker.note("Drain", request, context)
        return queue_pb2.DrainQueueResponse(queue=queue_of(request.name, 3))

    def Delete(self, request, context):
        self.broker.note("Delete", request, context)
        return queue_pb2.DeleteQueueResponse(unconfirmed_brokers=["b2"])

    def GetStats(self, request, context):
        self.broker.note("GetStats", request, context)
        return queue_pb2.GetQueueStatsResponse(queue=queue_of(request.name), stats=queue_pb2.QueueStats(
            pending=7, overdue=1, dead=3, first_due_time=timestamp(DUE_MS),
            count_time=timestamp(DUE_MS), running=2, done=100, missing_shards=[4, 9], is_at_least=True))

    def ListDead(self, request, context):
        self.broker.note("ListDead", request, context)
        items, token = page(range(1, 4), request.page_size, request.page_token,
                            self.broker.bad_token)
        return queue_pb2.ListDeadResponse(next_page_token=token, dead=[queue_pb2.DeadLetter(
            id=f"0a7-{number:016x}", key="k", due_time=timestamp(DUE_MS), attempt=3, failures=2,
            create_time=timestamp(DUE_MS), dead_time=timestamp(DUE_MS), error=self.broker.error)
            for number in items])

    def GroupDead(self, request, context):
        self.broker.note("GroupDead", request, context)
        return queue_pb2.GroupDeadResponse(looked_at=3, is_partial=True, groups=[queue_pb2.DeadGroup(
            error="no such user", count=3, example_id=ID, first_dead_time=timestamp(DUE_MS),
            last_dead_time=timestamp(DUE_MS))])

    def RedriveDead(self, request, context):
        self.broker.note("RedriveDead", request, context)
        return queue_pb2.RedriveDeadResponse(redriven=2, skipped=1)

    def PurgeDead(self, request, context):
        self.broker.note("PurgeDead", request, context)
        return queue_pb2.PurgeDeadResponse(purged=3)


class Cluster(cluster_pb2_grpc.ClusterServiceServicer):
    def __init__(self, broker):
        self.broker = broker

    def GetTopology(self, request, context):
        self.broker.note("GetTopology", request, context)
        if self.broker.is_sick:
            return sick_topology()
        return cluster_pb2.GetTopologyResponse(cluster="demo", answered_by="b1", shard_count=1,
                                               slot_count=4096)

    def PlanMembers(self, request, context):
        self.broker.note("PlanMembers", request, context)
        return cluster_pb2.PlanMembersResponse(
            moves=[cluster_pb2.ShardMove(shard=7, database="db0", **{"from": "b1", "to": "b2"})],
            shares=[cluster_pb2.BrokerShare(broker="b1", before=2, after=1),
                    cluster_pb2.BrokerShare(broker="b2", before=0, after=1)])

    def DrainBroker(self, request, context):
        self.broker.note("DrainBroker", request, context)
        return cluster_pb2.DrainBrokerResponse(broker=request.broker, instance="0a", shard_count=3)


def sick_topology():
    """One fault for each of the command's checks, and more than it names of one kind."""
    brokers = [cluster_pb2.Broker(name=name, version=version, cannot=cannot, config_version=config,
                                  shard_count=count)
               for name, version, cannot, config, count in (
                   ("b1", "0.1.0", [], 4, 2), ("b2", "0.2.0", ["db1"], 3, 0))]
    shards = [cluster_pb2.Shard(shard=i, database="db0") for i in range(5)]
    shards += [cluster_pb2.Shard(shard=5, database="db0", owner="b1", epoch=9,
                                 state=cluster_pb2.SHARD_STATE_LOADING, audit_faults=2),
               cluster_pb2.Shard(shard=6, database="db0", owner="b2",
                                 state=cluster_pb2.SHARD_STATE_ACTIVE)]
    return cluster_pb2.GetTopologyResponse(cluster="demo", answered_by="b1", shard_count=7,
                                           slot_count=4096, brokers=brokers, shards=shards)
