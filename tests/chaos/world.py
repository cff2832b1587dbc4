# SPDX-License-Identifier: Apache-2.0
"""A cluster of real processes in a scratch folder, every connection of which goes through a link
that can be hurt: brokers, PostgreSQL with a standby, ZooKeeper, producers and receivers."""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools")]
import cluster as harness  # noqa: E402
import journal  # noqa: E402
import keeper  # noqa: E402
import links  # noqa: E402
import processes  # noqa: E402
import servers  # noqa: E402
import witness  # noqa: E402

SHARDS = 24
MEMBERS = ("a", "b", "c")
GUEST = "d"        # joins and leaves
RECEIVERS = 2
# Which databases are on which server. The first server has a standby, and the home database.
DATABASES = {0: ("db0",), 1: ("db1", "db2")}
AUDIT_EVERY = "2s"  # So that two rounds behind the end of a run are soon over.
RESTART_S = 0.3  # as an init system would after an end that nobody wanted
SMALL_MB = 150     # of the disk that can be filled


class Broker(harness.Process):
    """A foliotd whose servers, peers and clock are behind links."""

    def __init__(self, world, name):
        self.label = name
        self.grpc, self.admin = world.ports[name]
        world.starts += 1
        command = [str(world.bin / "foliotd"), "--name", name, "--listen", self.grpc,
                   "--advertise", f"127.0.0.1:{world.links.ports[f'peer:{name}']}",
                   "--admin-listen", self.admin, "--cluster-shards", str(SHARDS),
                   "--zookeeper-hosts", world.zookeeper_hosts(name), "--log-format", "json",
                   "--audit-every", AUDIT_EVERY]
        for server, databases in DATABASES.items():
            for database in databases:
                command += ["--databases", f"{database}={world.conninfo(name, server, database)}"]
        report = f"log_path={world.folder}/report"
        env = os.environ | {"ASAN_OPTIONS": f"{report}.asan:quarantine_size_mb=64",
                            "UBSAN_OPTIONS": f"{report}.ubsan"}
        if name in world.clocks:
            env |= world.clocks[name].environment
        super().__init__(f"{name}.{world.starts}", command, world.folder, env)
        world.journal.write(kind="start", name=name, pid=self.popen.pid)

    get = harness.Broker.get
    metric = harness.Broker.metric


class World:
    """Use as a context manager."""

    def __init__(self, build, seed, zookeepers):
        self.bin = harness.ROOT / "build" / build / "bin"
        self.seed = seed
        self.zookeepers = zookeepers
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="foliot-nemesis-"))
        self.folder.chmod(0o755)
        self.journal = journal.Writer(self.folder / "nemesis.journal")
        self.brokers = {}
        self.producers = []
        self.receivers = []
        self.starts = 0
        self.disk = None    # the small disk, if there is one
        self.left = []      # folders of old primaries, each with what it alone has
        self.links = self.keeper = self.ensemble = None
        self.pg = {}
        self.standby = None
        self.clocks = {}    # of a broker or a server → Clock
        self.behind = {}    # place in the brokers' addresses → port of the server there
        self.down = {GUEST}  # who is not to run now
        self.supervisor = None
        self.is_ended = False
        self.has_failed = True  # until it is known better

    def __enter__(self):
        processes.end_on_signals()
        try:
            self.build()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_):
        self.close()

    # ---- what it is made of ----

    def build(self):
        self.make_clocks()
        self.links = links.Links(self.folder / "proxy.err")
        self.ensemble = servers.Ensemble(self.folder, self.zookeepers)
        for number, databases in DATABASES.items():
            self.pg[number] = servers.Postgres(self.folder / f"pg{number}")
            if f"pg{number}" in self.clocks:
                self.pg[number].it["environment"] = self.clocks[f"pg{number}"].environment
            self.pg[number].create(databases)
        self.links.add("replica", self.pg[0].port)
        self.standby = servers.Postgres(self.folder / "standby")
        self.standby.follow(self.links.ports["replica"])
        self.behind = {"pg0": self.pg[0].port, "pg0.1": self.standby.port}
        self.ports = {name: (f"127.0.0.1:{harness.free_port()}", f"127.0.0.1:{harness.free_port()}")
                      for name in (*MEMBERS, GUEST)}
        for name in (*MEMBERS, GUEST):
            self.add_links(name)
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.supervisor.start()
        self.keeper = keeper.Keeper(self.ensemble.ports, self.journal)
        self.keeper.start()
        harness.until("every shard to be served", self.keeper.all_served)
        for number, databases in DATABASES.items():
            for database in databases:
                self.pg[number].ask(witness.INSTALL, database)
        self.make_small_disk()
        self.start_receivers()

    def add_links(self, name):
        """Everything that a broker talks to."""
        for number, port in enumerate(self.ensemble.ports):
            self.links.add(f"{name}:zk{number}", port)
        self.links.add(f"{name}:pg0", self.pg[0].port, "pg")
        self.links.add(f"{name}:pg0.1", self.standby.port, "pg")
        self.links.add(f"{name}:pg1", self.pg[1].port, "pg")
        self.links.add(f"peer:{name}", int(self.ports[name][0].split(":")[1]))

    def zookeeper_hosts(self, name):
        return ",".join(f"127.0.0.1:{self.links.ports[f'{name}:zk{number}']}"
                        for number in range(self.zookeepers))

    def conninfo(self, name, server, database):
        ends = [f"{name}:pg0", f"{name}:pg0.1"] if server == 0 else [f"{name}:pg1"]
        hosts = ",".join("127.0.0.1" for _ in ends)
        ports = ",".join(str(self.links.ports[end]) for end in ends)
        return (f"host={hosts} port={ports} user=foliot dbname={database}"
                " target_session_attrs=read-write")

    def make_clocks(self):
        """Those of one broker and one server can be stepped; not in a build with sanitizers."""
        library = self.bin.parent / "tests/chaos/libstep_clock.so"
        if library.exists() and "san" not in str(self.bin):
            self.clocks = {name: servers.Clock(library, self.folder / f"{name}.clock")
                           for name in ("b", "pg1")}

    def make_small_disk(self):
        """A disk of a few megabytes for the tables of one database, if we may mount one."""
        disk = self.folder / "disk"
        disk.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={SMALL_MB}m", "none", disk],
                              check=False, capture_output=True)
        if done.returncode != 0:
            return
        self.disk = disk
        shutil.chown(disk, "postgres")
        self.pg[1].ask(f"CREATE TABLESPACE small LOCATION '{disk}'", "postgres")
        tables = self.pg[1].ask(
            "SELECT tablename FROM pg_tables WHERE schemaname = 'foliot_data' AND tablename ~"
            " '^(task_|claim|dead)'", "db1")
        for table in tables:
            self.pg[1].ask(f"ALTER TABLE foliot_data.{table} SET TABLESPACE small", "db1")

    def run(self, name, command):
        return harness.Process(name, command, self.folder)

    def start_receivers(self):
        for number in range(RECEIVERS):
            port = harness.free_port()
            receiver = self.run(f"receiver{number}", [
                sys.executable, HERE / "receiver.py", self.folder / f"receiver{number}.journal",
                str(port)])
            self.receivers.append(receiver)
            self.links.add(f"to:{number}", port)
            harness.until("a receiver", lambda r=receiver: "ready" in r.out.read_text(), 60)
        for queue, number, timeout in (("fast", 0, "2s"), ("dead", 0, "2s"), ("slow", 1, "4s")):
            target = f"receiver://127.0.0.1:{self.links.ports[f'to:{number}']}"
            self.cli("queue", "create", queue, "--target", target, "--attempt-timeout", timeout,
                     "--backoff", "300ms", "--failures-max", "100", "--unknowns-max", "100")

    def start_producers(self, rate, count=2):
        for number in range(count):
            self.producers.append(self.run(f"producer{number}", [
                sys.executable, HERE / "producer.py", f"p{number}", str(self.seed),
                str(rate // count), self.folder / f"producer{number}.journal",
                *(self.ports[name][0] for name in MEMBERS)]))

    def cli(self, *words):
        addresses = [word for broker in list(self.brokers.values()) if broker.alive()
                    for word in ("--server", broker.grpc)]
        done = subprocess.run([str(self.bin / "foliot"), *words, *addresses], check=False,
                              capture_output=True, text=True, timeout=60)
        if done.returncode != 0:
            raise RuntimeError(f"foliot {' '.join(words)}: {done.stderr.strip()}")
        return done.stdout

    # ---- what can be done to it; called by the threads of the faults ----

    def start_broker(self, name):
        broker = self.brokers[name] = Broker(self, name)
        return broker

    def supervise(self):
        """Start whoever should run and does not, as an init system would. One thread for all: what
        it has started ends with it."""
        while not self.is_ended:
            for name in (*MEMBERS, GUEST):
                broker = self.brokers.get(name)
                if name in self.down or (broker is not None and broker.alive()):
                    continue
                if broker is not None:
                    self.journal.write(kind="ended", name=name, status=broker.popen.returncode,
                                       log=str(broker.err))
                self.start_broker(name)
            time.sleep(RESTART_S)

    def running(self, name):
        """The broker, once it has been started."""
        return harness.until(f"{name} to be started", lambda: self.brokers.get(name))

    @staticmethod
    def until_started(broker):
        harness.until(f"{broker.name} to serve", lambda: broker.get("/startupz")[0] == 200)

    @contextlib.contextmanager
    def held_down(self, name):
        """The broker, which nobody starts again meanwhile. When it has ended, it was meant to."""
        broker = self.running(name)
        self.down.add(name)
        try:
            yield broker
        finally:
            if not broker.alive():
                self.brokers.pop(name)
            self.down.discard(name)

    def promote(self, lost_s):
        """Cut the standby off, let it fall behind, end the primary and promote the standby. Later a
        new standby follows the new primary, in the old one's place in the brokers' addresses."""
        old, new = self.pg[0], self.standby
        self.links.mode(["replica"], "hold")
        time.sleep(lost_s)
        begin_us = journal.now_us()
        old.kill()
        new.promote()
        self.pg[0], self.standby = new, None
        return begin_us, old

    def new_standby(self, old, number, at_us):
        """What only the old primary has is read from its data; then it makes room."""
        self.links.target("replica", self.pg[0].port)
        self.links.mode(["replica"], "refuse")
        self.links.mode(["replica"], "pass")
        was, old.it["port"] = old.it["port"], servers.tool.free_port()
        old.start()
        for database in DATABASES[0]:
            self.left.append({"database": database,
                              "lines": witness.read_lost(old, self.pg[0], database, at_us)})
        old.kill()
        fresh = servers.Postgres(self.folder / f"standby{number}")
        fresh.follow(self.links.ports["replica"])
        place = next(place for place, port in self.behind.items() if port == was)
        self.behind[place] = fresh.port
        for name in (*MEMBERS, GUEST):
            self.links.target(f"{name}:{place}", fresh.port)
        self.standby = fresh
        servers.remove(old.folder)

    def close(self):
        self.is_ended = True
        if self.supervisor is not None:
            self.supervisor.join()
        if self.keeper is not None:
            self.keeper.end = True
        for process in (*self.producers, *self.brokers.values(), *self.receivers):
            if process.alive():
                process.signal(signal.SIGCONT)
                process.signal(signal.SIGKILL)
                process.popen.wait()
        if self.keeper is not None:
            self.keeper.join(5)
        for server in (*self.pg.values(), *([self.standby] if self.standby else [])):
            server.thaw()
            server.kill()
        if self.ensemble is not None:
            self.ensemble.stop()
        if self.links is not None:
            self.links.close()
        if self.disk is not None:
            subprocess.run(["umount", "-l", self.disk], check=False, capture_output=True)
        self.journal.close()
        if os.environ.get("FOLIOT_KEEP", "") in (("failed", "1") if self.has_failed else ("1",)):
            print(f"kept: {self.folder}")
        else:
            servers.remove(self.folder)
