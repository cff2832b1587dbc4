#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whole clusters among hostile targets, hostile clients and a database that refuses: whoever is not
hurt must not feel it. Figures are ratios to a control in the same run.

  hostile.py [--build PRESET] [SCENARIO …]

Scenarios: targets (every kind of bad target beside a good one), clients (abuse of the port beside
a decent client), readonly, refused, full (the database takes no writes, no connections, has no
room). Ends with "N passed, N failed".
"""
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent import futures

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tools"), os.path.join(HERE, "../lib"), HERE]
import chaos  # noqa: E402
import cluster as harness  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
import grpc  # noqa: E402
from foliot.v1 import receiver_pb2, receiver_pb2_grpc, task_pb2, task_pb2_grpc  # noqa: E402

SHARDS = 32
BURST = 5000        # Tasks that are sent to each bad target at once.
WINDOW_S = 4        # How long each one is watched.
RATIO = 4           # The good queue's median may be so much worse than in the control …
FLOOR_US = 20_000   # … or up to this, which the machine's own noise can reach.
HELD_UP_US = 500_000  # One in ten may be so late. Behind a target that hangs it would be a second.
LOG_BYTES_MAX = 200_000
GROWTH_KB_MAX = 192 * 1024  # Thrice what answers that nobody reads may take.


def resident_kb(broker):
    with open(f"/proc/{broker.popen.pid}/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS"))


def log_bytes(run):
    return sum(os.path.getsize(broker.err) for broker in run.cluster.brokers.values())


# ---- targets ----

def listen(handle):
    """A target of our own: handle(connection) runs in a thread of its own."""
    server = socket.socket()
    server.bind(("127.0.0.1", 0))
    server.listen(512)

    def loop():
        while True:
            link, _ = server.accept()
            threading.Thread(target=guarded, args=(handle, link), daemon=True).start()

    threading.Thread(target=loop, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}"


def guarded(handle, link):
    try:
        handle(link)
    except OSError:
        pass  # The broker has hung up.


def never_reads(link):
    time.sleep(3600)
    link.close()


def never_answers(link):
    while link.recv(65536):
        pass


def sends_garbage(link):
    while True:
        link.sendall(os.urandom(4096))
        time.sleep(0.01)


def resets(link):
    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    link.close()


def speaks_http1(link):
    link.recv(4096)
    link.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 3\r\n\r\nno\n")
    link.close()


def nobody():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{sock.getsockname()[1]}"


class Miscounting(receiver_pb2_grpc.ReceiverServicer):
    """Answers with one result too few, one too many, none, or results that mean nothing."""

    def __init__(self):
        self.turn = 0

    def Deliver(self, request, context):
        self.turn += 1
        count = len(request.attempts) + (-1, 1, 3, 0)[self.turn % 4]
        outcome = 99 if self.turn % 4 == 3 else receiver_pb2.OUTCOME_DONE
        return receiver_pb2.DeliverResponse(
            results=[receiver_pb2.AttemptResult(outcome=outcome)] * max(0, count))


def serve_miscounting():
    server = grpc.server(futures.ThreadPoolExecutor(4))
    receiver_pb2_grpc.add_ReceiverServicer_to_server(Miscounting(), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    serve_miscounting.server = server  # Kept alive.
    return address


def play_receiver(run, name, *options):
    process = run.cluster.run(name, [str(run.cluster.bin / "foliot"), "receive", "--port", "0", "-o",
                                     "json", *options])
    first = harness.until("a receiver's port", lambda: next(harness.json_lines(process.out), None))
    return f"127.0.0.1:{first['port']}"


def bad_targets(run):
    return {
        "control": "receiver://" + play_receiver(run, "control"),
        "dead": "receiver://" + nobody(),
        "unknown_name": "receiver://no-such-host.invalid:50051",
        "never_greets": "receiver://" + listen(never_reads),
        "never_answers": "grpc://" + listen(never_answers) + "/any.Service/Method",
        "hangs": "receiver://" + play_receiver(run, "hang", "--hang"),
        "slow": "grpc://" + play_receiver(run, "slow", "--delay", "900ms") + "/any.Service/Method",
        "garbage": "receiver://" + listen(sends_garbage),
        "resets": "receiver://" + listen(resets),
        "http1": "receiver://" + listen(speaks_http1),
        "itself": "receiver://" + run.cluster.addresses()[0],
        "miscounts": "receiver://" + serve_miscounting(),
    }


class Watched(chaos.Run):
    """A load on a good queue, and windows in which something else goes on."""

    def __init__(self, options, seconds):
        super().__init__(options, seconds)
        self.cluster.broker_options += ["--targets-allow", "*"]
        self.windows = {}

    def watch(self, name, act):
        """Let `act` run at the beginning of a window."""
        start_us = time.time_ns() // 1000
        act()
        time.sleep(max(0, WINDOW_S - (time.time_ns() // 1000 - start_us) / 1e6))
        self.windows[name] = (start_us, time.time_ns() // 1000)

    def figures(self, name):
        """p50 and p90 lateness of what was due in a window, and the part of it that the machine
        stood still."""
        start_us, end_us = self.windows[name]
        values = self.judge.lateness(lambda line: start_us <= line["dueMs"] * 1000 < end_us)
        return (harness.quantile(values, 500), harness.quantile(values, 900),
                self.probe.share(start_us, end_us))

    def compare(self):
        """No window is much worse than the control."""
        control_us, _, _ = self.figures("control")
        for name in self.windows:
            p50_us, p90_us, stalled = self.figures(name)
            print(f"    {name:<16} p50 {p50_us / 1000:7.1f} ms, {p50_us / max(control_us, 1):6.1f} "
                  f"times the control; p90 {p90_us / 1000:7.1f} ms, stalled {stalled * 100:.1f} %")
            self.expect(p50_us <= max(FLOOR_US, RATIO * control_us) or stalled > 0.05,
                        f"{name}: the good queue's median was {p50_us / 1000:.1f} ms")
            self.expect(p90_us <= HELD_UP_US or stalled > 0.05,
                        f"{name}: the good queue's p90 was {p90_us / 1000:.1f} ms")


def burst(run, name, target):
    queue = name.replace("_", "-")
    run.cluster.cli("queue", "create", queue, "--target", target, "--attempt-timeout", "1s",
                    "--backoff", "500ms", "--failures-max", "2", "--unknowns-max", "1")
    run.cluster.cli("bench", "record", "--queue", queue, "--count", str(BURST), "--batch", "500")


def count_ends(run):
    """Queue → tasks that are still there or ended as dead letters."""
    psql = harness.Psql(run.cluster.pg[0])
    rows = psql.ask("SELECT q.name, count(t.queue) FROM foliot_data.queue q LEFT JOIN (SELECT queue "
                    "FROM foliot.pending UNION ALL SELECT queue FROM foliot.dead) t "
                    "ON t.queue = q.id GROUP BY 1")
    psql.close()
    return {name: int(count) for name, count in (row.split("|") for row in rows)}


def targets(options):
    """Whatever a target does, another queue does not feel it, and no task of its own is lost."""
    with Watched(options, 13 * WINDOW_S) as run:
        kinds = bad_targets(run)
        for name, target in kinds.items():
            run.watch(name, lambda n=name, t=target: burst(run, n, t))
        run.finish()
        run.compare()
        ends = count_ends(run)
        for name in kinds:
            left = ends[name.replace("_", "-")]
            if name not in ("control", "slow", "miscounts"):
                run.expect(left == BURST, f"{name}: {left} of {BURST} tasks are left")
        run.expect(log_bytes(run) < LOG_BYTES_MAX, f"{log_bytes(run)} bytes of log")
        return run.faults


# ---- clients ----

def connect(run):
    host, port = run.cluster.addresses()[0].split(":")
    return socket.create_connection((host, int(port)), timeout=10)


def silence(run):
    run.kept += [connect(run) for _ in range(1000)]


def garbage(run):
    for _ in range(200):
        with connect(run) as link:
            guarded(lambda l: l.sendall(os.urandom(20000)), link)


def deafness(run):
    """Ask for large answers and never read them."""
    channel = grpc.insecure_channel(run.cluster.addresses()[0])
    made = task_pb2_grpc.TaskServiceStub(channel).Create(task_pb2.CreateTaskRequest(
        queue="far", payload=os.urandom(65536)), timeout=20)
    request = task_pb2.GetTaskRequest(id=made.id).SerializeToString()
    for _ in range(20):
        link = connect(run)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        run.kept.append(link)
        guarded(lambda l: l.sendall(flood_of_calls(request)), link)
    channel.close()


def flood_of_calls(request):
    """500 calls on one connection, with credit for all answers, by hand."""
    import h2.config
    import h2.connection
    engine = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
    engine.initiate_connection()
    engine.increment_flow_control_window(2 ** 30)
    body = b"\0" + len(request).to_bytes(4, "big") + request
    for stream in range(1, 1001, 2):
        engine.send_headers(stream, [
            (":method", "POST"), (":scheme", "http"), (":path", "/foliot.v1.TaskService/Get"),
            (":authority", "x"), ("te", "trailers"), ("content-type", "application/grpc")])
        if engine.outbound_flow_control_window > len(body):
            engine.send_data(stream, body, end_stream=True)
    return engine.data_to_send()


def cancels(run):
    """Calls that are given up at once, with metadata as large as it may be and larger."""
    channel = grpc.insecure_channel(run.cluster.addresses()[0],
                                    options=[("grpc.max_metadata_size", 1 << 20)])
    stub = task_pb2_grpc.TaskServiceStub(channel)
    for i in range(3000):
        call = stub.Create.future(task_pb2.CreateTaskRequest(queue="far", payload=b"x" * 1000),
                                  metadata=(("x-large", "y" * (10 if i % 10 else 60000)),))
        if i % 3:
            call.cancel()
    channel.close()


def retreat(run):
    for link in run.kept:
        link.close()
    run.kept = []


def clients(options):
    """Abuse of a broker's port is not felt by a decent client, in memory, or in the log."""
    with Watched(options, 6 * WINDOW_S) as run:
        run.kept = []
        run.cluster.cli("queue", "create", "far", "--target", "receiver://" + nobody(),
                        "--backoff", "10m")
        run.watch("control", lambda: None)
        before_kb = resident_kb(run.cluster.brokers["a"])
        for act in (silence, garbage, deafness, cancels):
            run.watch(act.__name__, lambda a=act: a(run))
        retreat(run)
        growth_kb = resident_kb(run.cluster.brokers["a"]) - before_kb
        run.finish()
        run.compare()
        print(f"    memory grew by {growth_kb} kB, {log_bytes(run)} bytes of log")
        run.expect(growth_kb < GROWTH_KB_MAX, f"memory grew by {growth_kb} kB")
        run.expect(log_bytes(run) < LOG_BYTES_MAX, f"{log_bytes(run)} bytes of log")
        return run.faults


# ---- a database that refuses ----

def try_creates(run, seconds, *options):
    """Creates without a key while the database refuses: exit status → how many."""
    codes = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done = run.cluster.cli("task", "create", "-q", "chaos", *options, check=False)
        codes[done.returncode] = codes.get(done.returncode, 0) + 1
        if done.returncode == 0:
            run.judge.answered[done.stdout.split()[0]] = None
        time.sleep(0.05)
    return codes


def refusal(options, hurt, heal, *create_options):
    """Hurt the database for 8 s: creates get a retryable error, nothing is lost, and it goes on
    without a restart."""
    with chaos.Run(options, 15) as run:
        time.sleep(3)
        hurt(run)
        time.sleep(1)
        codes = try_creates(run, 7, *create_options)
        heal(run)
        start = time.monotonic()
        harness.until("creates to be taken again", lambda: run.cluster.cli(
            "task", "create", "-q", "chaos", "--delay", "1h", check=False).returncode == 0)
        healed_s = time.monotonic() - start
        run.cluster.wait_ready(30)
        run.finish()
        print(f"    exit statuses meanwhile {codes}, good again after {healed_s:.1f} s, "
              f"{log_bytes(run)} bytes of log")
        run.expect(codes.get(6, 0) > 0, "no create was refused")
        run.expect(set(codes) <= {0, 1, 6}, f"creates ended with {codes}")
        run.expect(codes.get(1, 0) <= 2, f"unknown outcomes of a write that was refused: {codes}")
        run.expect(healed_s < 5, f"creates were refused {healed_s:.1f} s longer")
        run.expect(log_bytes(run) < LOG_BYTES_MAX, f"{log_bytes(run)} bytes of log")
        return run.faults


def readonly(options):
    """The database becomes read-only and is made writable again."""
    return refusal(
        options,
        lambda run: run.cluster.as_admin("ALTER SYSTEM SET default_transaction_read_only = on",
                                         "SELECT pg_reload_conf()"),
        lambda run: run.cluster.as_admin("ALTER SYSTEM RESET default_transaction_read_only",
                                         "SELECT pg_reload_conf()"))


def refused(options):
    """The database ends our connections and takes no new ones."""
    return refusal(
        options,
        lambda run: run.cluster.as_admin("ALTER ROLE foliot CONNECTION LIMIT 0",
                                         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                                         "WHERE application_name LIKE 'foliot/%'"),
        lambda run: run.cluster.as_admin("ALTER ROLE foliot CONNECTION LIMIT -1"))


def full(options):
    """The database's disk is full and gets room again."""
    if os.geteuid() != 0:
        print("    left out: only root can mount a small file system")
        return []
    with tempfile.TemporaryDirectory(prefix="foliot-full-", dir="/tmp") as folder:
        payload = os.path.join(folder, "payload")
        disk = os.path.join(folder, "disk")
        os.mkdir(disk)
        os.chmod(folder, 0o755)
        with open(payload, "wb") as file:
            file.write(os.urandom(60000))
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=100m", "none", disk], check=True)
        shutil.chown(disk, "postgres")
        try:
            return refusal(options, lambda run: fill(run, disk),
                           lambda run: os.remove(os.path.join(disk, "ballast")), "-f", payload)
        finally:
            subprocess.run(["umount", "-l", disk], check=True)


def fill(run, disk):
    """Move the growing tables onto the small disk, and fill it up."""
    run.cluster.as_admin(f"CREATE TABLESPACE small LOCATION '{disk}'",
                         "GRANT CREATE ON TABLESPACE small TO foliot")
    psql = harness.Psql(run.cluster.pg[0])
    for table in psql.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'foliot_data' AND "
                          "tablename ~ '^(task_|claim|dead)'"):
        psql.ask(f"ALTER TABLE foliot_data.{table} SET TABLESPACE small")
    psql.close()
    with open(os.path.join(disk, "ballast"), "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass  # Full.


SCENARIOS = {"targets": targets, "clients": clients, "readonly": readonly, "refused": refused,
             "full": full}


def main():
    parser = harness.scenario_parser("Be hostile to a cluster of real processes.", SCENARIOS, 200)
    return harness.play(SCENARIOS, parser.parse_args())


if __name__ == "__main__":
    harness.exit_with(main)
