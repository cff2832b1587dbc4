# SPDX-License-Identifier: Apache-2.0
"""A whole cluster of real processes, and the judge of what it did.

Used by the demonstration (tools/demo) and by the chaos test (tests/integration/chaos.py): real
PostgreSQL and ZooKeeper from tools/servers, brokers, a receiver and a load. The judge knows nothing
of the brokers: it compares what clients were answered with what the receiver's own clock saw.
"""
import argparse
import http.client
import importlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import types
import typing

from ports import free_port
from processes import end_on_signals, Ended, tied, uninterrupted

ROOT = pathlib.Path(__file__).resolve().parent.parent
WAIT_S = 60
PAGE_TRIES = 3
ON_TIME_US = 250_000  # Fired within this of its due time: on time, for the gap after a kill.


def until(what, test, limit_s=WAIT_S):
    """Poll until test() is true; RuntimeError with `what` after the limit."""
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        result = test()
        if result:
            return result
        time.sleep(0.02)
    raise RuntimeError(f"waited {limit_s} s in vain for {what}")


def json_lines(path):
    """Whole lines of a file as JSON; a last line that is being written is left out."""
    with open(path, encoding="utf-8") as file:
        for line in file:
            if line.endswith("\n"):
                yield json.loads(line)


class Process:
    """A program of ours: its output goes to files in the scratch folder."""

    def __init__(self, name, command, folder, env=None):
        self.name = name
        self.out = folder / f"{name}.out"
        self.err = folder / f"{name}.err"
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            self.popen = subprocess.Popen(tied(command), stdout=out, stderr=err,
                                          stdin=subprocess.DEVNULL, env=env)

    def signal(self, number):
        self.popen.send_signal(number)

    def alive(self):
        return self.popen.poll() is None

    def stop(self, limit_s=15):
        """SIGTERM, then SIGKILL; the exit status."""
        if self.alive():
            self.signal(signal.SIGTERM)
            try:
                return self.popen.wait(limit_s)
            except subprocess.TimeoutExpired:
                self.signal(signal.SIGKILL)
        return self.popen.wait()


class Broker(Process):
    """A foliotd with its addresses."""

    def __init__(self, cluster, name):
        self.grpc, self.admin = cluster.addresses_of(name)
        self.label = name
        self.starts = cluster.starts = cluster.starts + 1
        command = [str(cluster.bin / "foliotd"), "--name", name, "--listen", self.grpc,
                   "--admin-listen", self.admin, "--zookeeper-hosts", cluster.zk,
                   "--zookeeper-root", cluster.zk_root,
                   "--cluster-shards", str(cluster.shards), "--log-format", "json"]
        for index, conninfo in enumerate(cluster.pg):
            command += ["--databases", f"db{index}={conninfo}"]
        super().__init__(f"{name}.{self.starts}", command + cluster.broker_options,
                         cluster.folder, os.environ | cluster.broker_env)

    def get(self, path):
        """Status and body of an admin page; (0, "") if nobody answers."""
        try:
            host, port = self.admin.split(":")
            connection = http.client.HTTPConnection(host, int(port), timeout=2)
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except OSError:
            return 0, ""

    def metric(self, name):
        """Sum of a metric's samples, 0 if it is absent."""
        total = 0.0
        for line in self.page().splitlines():
            if line.startswith((name + " ", name + "{")):
                total += float(line.rsplit(" ", 1)[1])
        return total

    def page(self):
        """All metrics as text, "" if it does not give them, not when asked again either: one answer
        that was slow on a busy machine is no broker without shards."""
        for _ in range(PAGE_TRIES):
            text = self.get("/metrics")[1]
            if text or not self.alive():
                return text
        return ""

    def is_ready(self):
        if not self.alive():
            raise RuntimeError(f"{self.name} has ended: see {self.err}")
        return self.get("/readyz")[0] == 200


class DevBroker(Broker):
    """A `foliot dev` with its addresses: the broker of a DevCluster."""

    def __init__(self, cluster, name):
        self.grpc, self.admin = cluster.addresses_of(name)
        self.label = name
        self.starts = cluster.starts = cluster.starts + 1
        Process.__init__(self, f"{name}.{self.starts}", [
            str(cluster.bin / "foliot"), "dev", "-o", "json", "--db-file",
            str(cluster.folder / "dev.db"), "--port", self.grpc.split(":")[1],
            "--admin-port", self.admin.split(":")[1]], cluster.folder)


class Psql:
    """One psql that stays connected, for questions that must be quick."""

    def __init__(self, conninfo):
        self.popen = subprocess.Popen(["psql", "-XqAt", conninfo], stdin=subprocess.PIPE,
                                      stdout=subprocess.PIPE, text=True)

    def ask(self, query):
        """The rows of a query, as text."""
        self.popen.stdin.write(f"{query};\n\\echo --end--\n")
        self.popen.stdin.flush()
        rows = []
        while (line := self.popen.stdout.readline().rstrip("\n")) != "--end--":
            if not line and self.popen.poll() is not None:
                raise RuntimeError(f"psql has ended: {query}")
            rows.append(line)
        return rows

    def close(self):
        self.popen.stdin.close()
        self.popen.wait()


class Cluster:
    """Servers, brokers and a receiver in one scratch folder. Use as a context manager."""

    def __init__(self, build="dev", shards=32, databases=1, broker_options=()):
        self.bin = ROOT / "build" / build / "bin"  # `build`: a preset, or a build folder's path
        self.shards = shards
        self.databases = databases
        self.broker_options = list(broker_options)
        self.broker_env = {}
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foliot-cluster-"))
        self.servers = self.folder / "servers"
        self.keeper = None  # of the servers: it stops them when we end, however we end
        self.processes = []
        self.brokers = {}
        self.starts = 0
        self.ports = {}
        self.zk_root = "/foliot"

    def __enter__(self):
        end_on_signals()
        try:
            self.start_servers()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    def start_servers(self):
        self.folder.chmod(0o755)  # The servers run as another user.
        with uninterrupted(), open(self.folder / "servers.err", "wb") as err:
            self.keeper = subprocess.Popen(
                [ROOT / "tools/servers", "keep", self.servers, "--pg", str(self.databases)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=err, text=True)
        env = {}
        while (line := self.keeper.stdout.readline().rstrip("\n")):
            name, _, value = line.removeprefix("export ").partition("=")
            env[name] = value.strip("'\"")
        if not env:
            raise RuntimeError((self.folder / "servers.err").read_text().strip())
        self.pg = [self.create_database(env["FOLIOT_TEST_PG" + (str(i) if i else "")])
                   for i in range(self.databases)]
        self.zk = env["FOLIOT_TEST_ZK"]

    @staticmethod
    def create_database(conninfo):
        """A database that the brokers' role owns; its conninfo."""
        subprocess.run(["psql", "-qX", "-d", conninfo, "-c", "CREATE DATABASE foliot"], check=True,
                       capture_output=True)
        return f"{conninfo} dbname=foliot"

    def server(self, *words):
        """tools/servers WORD DIR …, for example server("kill-pg")."""
        subprocess.run([str(ROOT / "tools/servers"), words[0], str(self.servers), *words[1:]],
                       check=True, capture_output=True)

    def run(self, name, command):
        with uninterrupted():
            process = Process(name, command, self.folder)
            self.processes.append(process)
        return process

    def start_broker(self, name):
        with uninterrupted():
            broker = Broker(self, name)
            self.processes.append(broker)
        self.brokers[name] = broker
        return broker

    def wait_ready(self, limit_s=WAIT_S):
        """All brokers answer, and every shard has an owner."""
        for broker in self.brokers.values():
            until(f"{broker.name} to be ready", broker.is_ready, limit_s)
        until("every shard to have an owner",
              lambda: self.owned() == self.shards, limit_s)

    def wait_shared(self):
        """Each of the brokers has as many shards as the others: no more of them will move."""
        until("the shards to be shared", lambda: all(
            broker.metric("foliot_shards_owned") == self.shards / len(self.brokers)
            for broker in self.brokers.values()))

    def as_admin(self, *statements):
        """Run statements as the superuser of the first PostgreSQL; RuntimeError with its words."""
        conninfo = f'{self.pg[0].split(" user=")[0]} user=postgres dbname=postgres'
        for statement in statements:
            done = subprocess.run(["psql", "-XqAt", conninfo, "-c", statement], capture_output=True,
                                  text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{statement}: {done.stderr.strip()}")

    def owned(self):
        return sum(broker.metric("foliot_shards_owned") for broker in self.brokers.values()
                   if broker.alive())

    def addresses_of(self, name):
        """Of its gRPC and admin ports. A name keeps them over restarts, as a pod or a host would."""
        return self.ports.setdefault(name, (f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"))

    def pages(self):
        """The living brokers' metrics by name, for tests/lib/auditor.py."""
        return {broker.label: broker.page() for broker in self.brokers.values() if broker.alive()}

    def addresses(self):
        return [broker.grpc for broker in self.brokers.values() if broker.alive()]

    def cli(self, *words, check=True):
        """Run the command against the living brokers; its finished process."""
        command = [str(self.bin / "foliot"), *words]
        for address in self.addresses():
            command += ["--server", address]
        return subprocess.run(command, check=check, capture_output=True, text=True, timeout=60)

    def cli_alone(self, *words):
        """Run a command that asks no broker; its finished process."""
        return subprocess.run([str(self.bin / "foliot"), *words], check=False, capture_output=True,
                              text=True, timeout=60)

    def start_receiver(self, *options):
        """A receiver that writes a line for each attempt; its address in self.target."""
        receiver = self.run("receiver", [str(self.bin / "foliot"), "receive", "--port", "0", "-o",
                                         "json", *options])
        first = until("the receiver's port", lambda: next(json_lines(receiver.out), None))
        self.target = f"127.0.0.1:{first['port']}"
        self.receiver = receiver
        return receiver

    def start_load(self, name, *options):
        """foliot bench record; a line for each answered task in its .out file."""
        command = [str(self.bin / "foliot"), "bench", "record", "-o", "json", *options]
        for address in self.addresses():
            command += ["--server", address]
        return self.run(name, command)

    def owners(self):
        """Shard → broker's name, as the cluster itself says."""
        rows = json.loads(self.cli("cluster", "shards", "-o", "json").stdout)
        rows = rows.get("shards", rows) if isinstance(rows, dict) else rows
        return {int(row.get("shard", 0)): row.get("owner", "") for row in rows}

    def instance(self, name):
        """What a broker's process is called in its znodes and in the database."""
        status = json.loads(self.cli("cluster", "status", "-o", "json").stdout)
        return next(broker["instance"] for broker in status["brokers"] if broker["name"] == name)

    def kill(self, name, limit_s=3):
        """kill -9 of a broker, at a moment when one of its transactions has written and has not
        committed, if such a moment comes within the limit."""
        instance = self.instance(name)
        psql = Psql(self.pg[0])
        query = ("SELECT count(*) FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND "
                 f"application_name LIKE 'foliot/{instance}/%'")
        end = time.monotonic() + limit_s
        in_flight = False
        while not in_flight and time.monotonic() < end:
            in_flight = psql.ask(query) != ["0"]
        at_us = time.time_ns() // 1000
        self.brokers[name].popen.kill()
        self.brokers[name].popen.wait()
        dead_us = time.time_ns() // 1000
        psql.close()
        return Kill(at_us, dead_us, in_flight)

    def close(self):
        for process in reversed(self.processes):
            if process.alive():
                process.signal(signal.SIGCONT)
                process.stop(5)
        if self.keeper is not None:
            self.keeper.stdin.close()
            self.keeper.stdout.read()  # It ends when all are stopped.
            self.keeper.wait()
        if os.environ.get("FOLIOT_KEEP"):
            print(f"kept: {self.folder}")
        else:
            shutil.rmtree(self.folder, ignore_errors=True)


class DevCluster(Cluster):
    """One `foliot dev` on a file, as a cluster: without servers, and of one broker."""

    def __init__(self, build="dev"):
        super().__init__(build, shards=8)

    def start_servers(self):
        pass

    def start_broker(self, name="dev"):
        with uninterrupted():
            broker = DevBroker(self, name)
            self.processes.append(broker)
        self.brokers[name] = broker
        return broker


def shard_of(task_id, shards):
    return int(task_id[:3], 16) % shards


class Kill(typing.NamedTuple):
    """A kill -9 of a broker. Times in microseconds since 1970."""
    at_us: int
    dead_us: int      # It sent nothing after this; between the two it may have.
    in_flight: bool   # One of its transactions had written and not committed.


class Judge:
    """Compares answered tasks with received attempts. Times in microseconds since 1970."""

    def __init__(self, shards):
        self.shards = shards
        self.answered = {}  # id → due in ms, or None
        self.attempts = {}  # id → attempts in order of arrival
        self.count = 0

    def read_load(self, path):
        for line in json_lines(path):
            if "id" in line:
                self.answered[line["id"]] = line.get("dueMs")

    def read_receiver(self, path):
        self.attempts = {}
        self.count = 0
        for line in json_lines(path):
            if "taskId" in line:
                self.attempts.setdefault(line["taskId"], []).append(line)
                self.count += 1

    def lost(self):
        """Answered, and never attempted."""
        return [task for task in self.answered if task not in self.attempts]

    def early(self):
        return [line for lines in self.attempts.values() for line in lines
                if line["latenessUs"] < 0]

    def not_rising(self):
        """Tasks whose attempt numbers do not strictly rise."""
        return [task for task, lines in self.attempts.items()
                if any(b["attempt"] <= a["attempt"] for a, b in zip(lines, lines[1:]))]

    def overlaps(self):
        """Repeats that came before the deadline of the attempt before them, whose outcome the
        receiver had given as done: then nothing but the deadline allows a repeat."""
        return [(a, b) for lines in self.attempts.values() for a, b in zip(lines, lines[1:])
                if not a["failed"] and b["actualUs"] < a["deadlineMs"] * 1000]

    def repeats(self):
        return sum(len(lines) - 1 for lines in self.attempts.values())

    def firsts(self, kill_us, shards, end_us):
        """First attempts after a kill in these shards, by shard. Tasks that were claimed when the
        broker died wait for their deadline: they are repeats, or first seen as attempt 2."""
        found = {shard: [] for shard in shards}
        for task, lines in self.attempts.items():
            shard = shard_of(task, self.shards)
            if (shard in shards and lines[0]["attempt"] == 1 and
                    kill_us < lines[0]["actualUs"] < end_us):
                found[shard].append(lines[0])
        return found

    def outage(self, kill, shards, end_us=sys.maxsize):
        """The gap after a kill, and the worst lateness behind it. A shard works again with the first
        attempt that is on time for a task due after the broker was dead (what that sent was due while
        it lived); the gap lasts until the last late task of those due before that has been attempted.
        """
        gap_us = worst_us = 0
        for lines in self.firsts(kill.at_us, shards, end_us).values():
            again_us = min((line["actualUs"] for line in lines if
                            line["latenessUs"] <= ON_TIME_US and line["dueMs"] * 1000 > kill.dead_us),
                           default=sys.maxsize)
            for line in lines:
                if line["dueMs"] * 1000 > again_us:
                    worst_us = max(worst_us, line["latenessUs"])
                elif line["latenessUs"] > ON_TIME_US:
                    gap_us = max(gap_us, line["actualUs"] - kill.at_us)
        return gap_us, worst_us

    def lateness(self, keep=lambda line: True):
        """Sorted lateness of all first attempts that `keep` keeps."""
        return sorted(line["latenessUs"] for lines in self.attempts.values() for line in lines[:1]
                      if keep(line))


def quantile(values, permille):
    """Of sorted values; 0 if there are none."""
    return values[min(len(values) - 1, len(values) * permille // 1000)] if values else 0


def messages(folder):
    """Python classes of foliot.v1, made by protoc into a folder; modules task_pb2 and so on."""
    out = pathlib.Path(folder) / "python"
    out.mkdir(exist_ok=True)
    sources = sorted((ROOT / "proto").glob("**/*.proto"))
    subprocess.run(["protoc", f"-I{ROOT / 'proto'}", f"--python_out={out}",
                    *map(str, sources)], check=True)
    sys.path.insert(0, str(out))
    names = [path.stem for path in sources if path.parent.name == "v1"]
    return types.SimpleNamespace(**{f"{name}_pb2": importlib.import_module(f"foliot.v1.{name}_pb2")
                                    for name in names})


def scenario_parser(about, scenarios, rate):
    """Options of a program of scenarios: functions from options to a list of faults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--rate", type=int, default=rate)
    parser.add_argument("--build", default=os.environ.get("BUILD", "dev"))
    parser.add_argument("scenario", nargs="*", choices=[[], *scenarios])
    return parser


def play(scenarios, options):
    """Play the chosen ones, or all; "N passed, N failed" and the exit status."""
    passed = failed = 0
    for name in options.scenario or scenarios:
        print(f"  {name}: {scenarios[name].__doc__}", flush=True)
        try:
            faults = scenarios[name](options)
        except (RuntimeError, subprocess.SubprocessError) as error:
            faults = [str(error) + " " + str(getattr(error, "stderr", "") or "")]
        for fault in faults:
            print(f"    FAIL {fault}")
        passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def exit_with(main):
    """End with main()'s status, or with one line when a signal has ended it."""
    try:
        sys.exit(main())
    except Ended as ended:
        print(f"{os.path.basename(sys.argv[0])}: {ended}", file=sys.stderr)
        sys.exit(128 + ended.number)
