#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""foliot dev from outside: its banner, its one command, a stock gRPC client and server, restarts on
a kept file, and every way in which it cannot start. Ends with "N passed, N failed"."""
import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from concurrent import futures

import grpc

import devmode
import stubs

stubs.generate()
from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, queue_pb2_grpc, receiver_pb2, receiver_pb2_grpc,  # noqa: E402
                       task_pb2, task_pb2_grpc)

READY_S = 1.0
CLAIM_LEAD_S = 0.1  # CLAIM_LEAD_MS_MAX
TRIES = 10  # A start is measured on a machine that does other things too.


class Receiver(receiver_pb2_grpc.ReceiverServicer):
    """Takes every attempt and remembers it."""

    def __init__(self):
        self.came = {}
        self.wake = threading.Condition()
        self.server = grpc.server(futures.ThreadPoolExecutor(4))
        receiver_pb2_grpc.add_ReceiverServicer_to_server(self, self.server)
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def Deliver(self, request, context):
        with self.wake:
            for attempt in request.attempts:
                self.came.setdefault(attempt.task_id, []).append((time.time(), attempt))
            self.wake.notify_all()
        return receiver_pb2.DeliverResponse(results=[
            receiver_pb2.AttemptResult(outcome=receiver_pb2.OUTCOME_DONE)
            for _ in request.attempts])

    def wait(self, task_id):
        with self.wake:
            assert self.wake.wait_for(lambda: task_id in self.came, devmode.LIMIT_S), task_id
            return self.came[task_id][0]


class Client:
    def __init__(self, dev, address=None):
        self.channel = grpc.insecure_channel(address or dev.address)
        self.tasks = task_pb2_grpc.TaskServiceStub(self.channel)
        self.queues = queue_pb2_grpc.QueueServiceStub(self.channel)

    def create(self, queue, delay_ms, **fields):
        request = task_pb2.CreateTaskRequest(queue=queue, **fields)
        request.delay.FromMilliseconds(delay_ms)
        return self.tasks.Create(request, timeout=devmode.LIMIT_S)

    def make_queue(self, name, port):
        self.queues.Create(queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name=name, target=f"receiver://127.0.0.1:{port}")), timeout=devmode.LIMIT_S)


# ---- what a newcomer sees ----

def is_ready_in_under_a_second(folder):
    for options in ((), ("--db-file", f"{folder}/a.db")):
        took = []
        while not took or min(took) >= READY_S:
            assert len(took) < TRIES, took
            with devmode.Dev(*options) as dev:
                took.append(dev.ready_s)
                assert dev.stop()[0] == 0


def the_command_of_the_banner_fires_a_task(folder):
    with devmode.Dev(output="table") as dev:
        lines = [dev.first]
        while "Ctrl-C" not in lines[-1]:
            lines.append(dev.line())
        banner = "\n".join(lines)
        assert "Not for production" in banner, banner
        assert "in memory: gone when this ends; --db-file FILE keeps it" in banner, banner
        assert "what it fires is printed here" in banner, banner
        command = next(line for line in lines if "foliot task create" in line)
        words = shlex.split(command)
        words[0] = devmode.FOLIOT
        words[words.index("5s")] = "300ms"
        made = subprocess.run(words, check=True, capture_output=True, timeout=devmode.LIMIT_S)
        task = made.stdout.decode().split()[0]
        while not lines[-1].startswith("DUE "):
            lines.append(dev.line())
        fired = dev.line()
        assert task in fired and fired.endswith("default"), fired
        lateness = float(fired.split()[2])
        assert lateness >= 0, fired
        status, _, err = dev.stop(signal.SIGINT)
        assert status == 0 and err == "", (status, err)


def it_ends_with_its_terminal(folder):
    for options in ((), ("--brokers", "2")):
        with devmode.Dev("--db-file", f"{folder}/hup.db", *options) as dev:
            status, _, err = dev.stop(signal.SIGHUP)
            assert status == 0 and err == "", (options, status, err)


def a_kept_file_is_named_in_the_banner(folder):
    path = f"{folder}/kept.db"
    with devmode.Dev("--db-file", path, output="table") as dev:
        lines = [dev.first]
        while "data" not in lines[-1]:
            lines.append(dev.line())
        assert lines[-1].endswith(f"kept in {path}"), lines[-1]
        assert dev.stop()[0] == 0
    assert os.listdir(folder) == ["kept.db"], os.listdir(folder)  # No log is left behind.


def a_default_queue_of_another_port_is_named_in_the_banner(folder):
    options = ("--db-file", f"{folder}/e.db")
    with devmode.Dev(*options) as dev:
        queues = Client(dev).queues
        queue = queues.Get(queue_pb2.GetQueueRequest(name="default")).queue
        assert queue.target == f"receiver://{dev.address}", queue
        queue.target = "receiver://127.0.0.1:1"
        queues.Update(queue_pb2.UpdateQueueRequest(queue=queue))
        assert dev.stop()[0] == 0
    with devmode.Dev(*options, output="table") as dev:
        lines = [dev.first]
        while "queue " not in lines[-1]:
            lines.append(dev.line())
        assert "default: sends to another address; to print here" in lines[-1], lines[-1]
        told = dev.line()
        address = next(line.split()[1] for line in lines if line.startswith("  calls "))
        assert f"queue update default --target receiver://{address}" in told, told
        assert told.rstrip().endswith(f" --address {address}"), told
        assert dev.stop()[0] == 0


# ---- the product ----

def a_stock_client_creates_updates_and_cancels(folder):
    for options in ((), ("--db-file", f"{folder}/b.db")):
        receiver = Receiver()  # Two fresh databases give the same ids.
        with devmode.Dev(*options) as dev:
            client = Client(dev)
            client.make_queue("work", receiver.port)
            soon = client.create("work", 200, payload=b"a\0b", key="soon")
            assert not client.create("work", 0, key="soon").created
            moved = client.create("work", 60_000, key="moved")
            request = task_pb2.UpdateTaskRequest(queue="work", key="moved")
            request.delay.FromMilliseconds(300)
            request.payload = b"new"
            assert client.tasks.Update(request).id == moved.id
            gone = cancel_in_time(client)
            at, attempt = receiver.wait(soon.id)
            assert attempt.payload == b"a\0b" and attempt.attempt == 1, attempt
            assert at >= soon.due_time.ToMicroseconds() / 1e6, (at, soon)
            at, attempt = receiver.wait(moved.id)
            assert attempt.payload == b"new", attempt
            # What must not happen has no event.
            time.sleep(max(0, gone.due_time.ToMicroseconds() / 1e6 - time.time()) + 0.3)
            assert gone.id not in receiver.came
            assert dev.stop()[0] == 0


def cancel_in_time(client):
    """A task that was cancelled before it could be claimed; again with more time if too late."""
    for delay_ms in (400, 800, 1600, 3200):
        gone = client.create("work", delay_ms)
        answer = client.tasks.Cancel(task_pb2.CancelTaskRequest(id=gone.id))
        if time.time() < gone.due_time.ToMicroseconds() / 1e6 - CLAIM_LEAD_S:
            assert answer.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED, answer
            return gone
    raise AssertionError("no cancel was answered before its task was due")


def a_restart_keeps_tasks_queues_and_keys(folder):
    receiver = Receiver()
    path = f"{folder}/c.db"
    with devmode.Dev("--db-file", path) as dev:
        client = Client(dev)
        client.make_queue("work", receiver.port)
        late = client.create("work", 3_600_000, key="late")
        overdue = client.create("work", 900)
        assert dev.stop()[0] == 0
    time.sleep(1)
    for _ in range(3):  # Each one is a new owner, above all epochs before it.
        with devmode.Dev("--db-file", path) as dev:
            client = Client(dev)
            again = client.create("work", 0, key="late")
            assert not again.created and again.id == late.id, again
            dev.kill()
    with devmode.Dev("--db-file", path) as dev:
        receiver.wait(overdue.id)
        request = task_pb2.UpdateTaskRequest(id=late.id)
        request.delay.FromMilliseconds(1)
        Client(dev).tasks.Update(request)
        receiver.wait(late.id)
        assert dev.stop()[0] == 0
    assert all(len(attempts) == 1 for attempts in receiver.came.values()), receiver.came


def several_brokers_share_the_shards_and_take_any_call(folder):
    receiver = Receiver()
    path = f"{folder}/f.db"
    for _ in range(2):  # The second time on what the first has left.
        with devmode.Dev("--brokers", "3", "--db-file", path) as dev:
            addresses = dev.place["addresses"].split(",")
            assert len(addresses) == 3 and addresses[0] == dev.address, dev.place
            topology = cluster_pb2_grpc.ClusterServiceStub(
                grpc.insecure_channel(addresses[2])).GetTopology(
                    cluster_pb2.GetTopologyRequest(), timeout=devmode.LIMIT_S)
            assert sorted(b.grpc_address for b in topology.brokers) == sorted(addresses), topology
            assert len(topology.shards) == 8, topology
            clients = [Client(dev, address) for address in addresses]
            name = f"work-{time.monotonic_ns()}"
            clients[0].make_queue(name, receiver.port)
            made = [client.create(name, 100) for client in clients for _ in range(8)]
            assert len({task.id[:3] for task in made}) > 8  # Of shards of all of them.
            for task in made:
                at, attempt = receiver.wait(task.id)
                assert at >= task.due_time.ToMicroseconds() / 1e6 and attempt.attempt == 1, attempt
            status, _, err = dev.stop()
            assert status == 0 and err == "", (status, err)


def served_by(stub, name):
    """Shards that a broker serves, by its own word."""
    topology = stub.GetTopology(cluster_pb2.GetTopologyRequest(), timeout=devmode.LIMIT_S)
    return {shard.shard for shard in topology.shards if shard.owner == name and shard.epoch > 0 and
            shard.state == cluster_pb2.SHARD_STATE_ACTIVE}


def a_broker_that_is_asked_to_leaves_as_planned(folder):
    """Whoever is asked, it is the named one that goes, and its shards go where the plan says."""
    with devmode.Dev("--brokers", "3") as dev:
        addresses = dev.place["addresses"].split(",")
        stubs = [cluster_pb2_grpc.ClusterServiceStub(grpc.insecure_channel(address))
                 for address in addresses]
        plan = stubs[0].PlanMembers(cluster_pb2.PlanMembersRequest(remove=["dev-2"]),
                                    timeout=devmode.LIMIT_S)
        assert all(getattr(move, "from") == "dev-2" for move in plan.moves), plan
        end = time.monotonic() + devmode.LIMIT_S
        while served_by(stubs[0], "dev-2") != {move.shard for move in plan.moves}:
            assert time.monotonic() < end, plan  # What it has not taken yet it does not leave.
            time.sleep(0.05)
        answer = stubs[0].DrainBroker(cluster_pb2.DrainBrokerRequest(broker="dev-2"),
                                      timeout=devmode.LIMIT_S)
        assert answer.broker == "dev-2" and answer.shard_count == len(plan.moves), (answer, plan)
        end = time.monotonic() + devmode.LIMIT_S
        while True:
            topology = stubs[2].GetTopology(cluster_pb2.GetTopologyRequest(),
                                            timeout=devmode.LIMIT_S)
            owners = {shard.shard: shard.owner for shard in topology.shards}
            if len(topology.brokers) == 2 and all(owners.values()):
                break
            assert time.monotonic() < end, topology
            time.sleep(0.05)
        assert all(owners[move.shard] == move.to for move in plan.moves), (owners, plan)
        status, _, err = dev.stop()
        assert status == 0 and err == "", (status, err)


def its_metrics_say_that_it_is_ready(folder):
    with devmode.Dev() as dev:
        base = f"http://{dev.place['adminAddress']}"
        assert urllib.request.urlopen(f"{base}/readyz", timeout=5).status == 200
        end = time.monotonic() + devmode.LIMIT_S
        while True:  # Figures are about a second old.
            page = urllib.request.urlopen(f"{base}/metrics", timeout=5).read().decode()
            if ("foliot_shards_owned 8\n" in page and
                    'foliot_db_writable{database="dev"} 1' in page):
                break
            assert time.monotonic() < end, page
            time.sleep(0.1)


# ---- what cannot be ----

def must_refuse(status, words, *options, **how):
    found, err = devmode.refused(*options, **how)
    assert found == status, (found, status, err)
    assert err.startswith("foliot: ") and err.endswith("\n") and err.count("\n") == 1, err
    for word in words:
        assert word in err, (word, err)


def change(path, sql):
    link = sqlite3.connect(path)
    with link:
        link.execute(sql)
    link.close()


def listen_above_a_free_port():
    """A listener whose port less two nobody has: there the first of two brokers goes."""
    while True:
        taken = socket.create_server(("127.0.0.1", 0))
        try:
            socket.create_server(("127.0.0.1", taken.getsockname()[1] - 2)).close()
            return taken
        except OSError:
            taken.close()


def a_port_that_is_taken_is_one_clear_line(folder):
    with listen_above_a_free_port() as taken:
        port = str(taken.getsockname()[1])
        must_refuse(5, ["cannot listen for calls", port, "is taken"], "--port", port,
                    "--admin-port", "0")
        must_refuse(5, ["the admin port", port, "is taken"], "--port", "0", "--admin-port", port)
        before = str(int(port) - 2)
        must_refuse(5, ["cannot listen for calls", port, "is taken"], "--port", before,
                    "--admin-port", "0", "--brokers", "2")


def options_that_are_wrong_are_one_clear_line(folder):
    must_refuse(2, ["--port", "65535"], "--port", "70000")
    must_refuse(2, ["--log-level", "loud", "debug, info, warn or error"], "--log-level", "loud", "--port", "0",
                "--admin-port", "0")
    must_refuse(2, ["--db-fil", "--db-file"], "--db-fil", "x")
    must_refuse(2, ["operand"], "x")
    must_refuse(2, ["--brokers", "8"], "--brokers", "9")
    must_refuse(2, ["above 65535"], "--brokers", "2", "--port", "65534")
    must_refuse(2, ["--db-file", "name of a file"], "--db-file", "")
    must_refuse(2, ["--db-file", "name of a file"], "--db-file", ":memory:")


def files_that_cannot_be_used_are_one_clear_line(folder):
    ports = ("--port", "0", "--admin-port", "0")
    path = f"{folder}/d.db"
    with devmode.Dev("--db-file", path) as dev:
        must_refuse(5, [path, "is in use by another foliot dev"], "--db-file", path, *ports)
        assert dev.stop()[0] == 0
    must_refuse(6, [f"{folder}/none/d.db", "its folder must exist"], "--db-file",
                f"{folder}/none/d.db", *ports)
    change(f"{folder}/other.db", "CREATE TABLE theirs (a)")
    must_refuse(5, ["other.db", "another program's database"], "--db-file", f"{folder}/other.db",
                *ports)
    with open(f"{folder}/text", "w", encoding="utf-8") as file:
        file.write("no database\n" * 1000)
    must_refuse(5, ["is no SQLite database"], "--db-file", f"{folder}/text", *ports)
    change(path, f"UPDATE shard SET epoch = {(2 ** 24 - 1) * 256} WHERE id = 3")
    must_refuse(5, [path, "used up its 16777215 generations", "name another file"], "--db-file",
                path, *ports)
    change(path, "INSERT INTO migration VALUES (99, x'')")
    must_refuse(5, ["schema step 99", "newer program"], "--db-file", path, *ports)
    os.chmod(folder, 0o755)
    os.chmod(path, 0o444)
    nobody = {"user": 65534} if os.geteuid() == 0 else {}
    must_refuse(4, [path, "is read-only"], "--db-file", path, *ports, **nobody)


CASES = [is_ready_in_under_a_second, the_command_of_the_banner_fires_a_task,
         it_ends_with_its_terminal,
         a_kept_file_is_named_in_the_banner,
         a_default_queue_of_another_port_is_named_in_the_banner, a_stock_client_creates_updates_and_cancels,
         a_restart_keeps_tasks_queues_and_keys,
         several_brokers_share_the_shards_and_take_any_call,
         a_broker_that_is_asked_to_leaves_as_planned, its_metrics_say_that_it_is_ready,
         a_port_that_is_taken_is_one_clear_line, options_that_are_wrong_are_one_clear_line,
         files_that_cannot_be_used_are_one_clear_line]


def main():
    passed = failed = 0
    for case in CASES:
        if len(sys.argv) > 1 and not any(word in case.__name__ for word in sys.argv[1:]):
            continue
        folder = tempfile.mkdtemp(prefix="foliot-dev-")
        try:
            case(folder)
            passed += 1
        except (AssertionError, RuntimeError, OSError, StopIteration, ValueError, grpc.RpcError,
                subprocess.SubprocessError, json.JSONDecodeError) as error:
            failed += 1
            print(f"FAILED {case.__name__}: {type(error).__name__}: {error}", flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
