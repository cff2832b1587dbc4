# SPDX-License-Identifier: Apache-2.0
"""The servers that a nemesis hurts: PostgreSQL with a standby, and an ensemble of ZooKeeper. Made
by tools/servers, on loopback, and ended by the system when the thread that started them ends."""
import importlib.machinery
import importlib.util
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEP_S = 0.05


def load_tool():
    """tools/servers as a module."""
    loader = importlib.machinery.SourceFileLoader("foliot_servers", str(ROOT / "tools/servers"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module


tool = load_tool()


class Clock:
    """A wall clock that can be put wrong, for the processes that have its environment
    (step_clock.c). `library`: where that was built."""

    def __init__(self, library, path):
        self.environment = {"LD_PRELOAD": str(library), "STEP_CLOCK_FILE": str(path)}
        self.path = path
        path.touch(0o644)
        self.step(0)

    def step(self, step_s):
        """So far from the true one."""
        with open(self.path, "r+b", buffering=0) as file:
            file.write(struct.pack("=q", int(step_s * 1e9)))  # In place: it is mapped.


def make_folder(folder):
    folder.mkdir(mode=0o755)
    if "user" in tool.run_as():
        os.chown(folder, tool.run_as()["user"], tool.run_as()["group"])


class Server:
    """One process with its folder."""

    def __init__(self, kind, folder):
        make_folder(folder)
        self.folder = folder
        self.it = {"kind": kind, "dir": str(folder), "port": tool.free_port(), "pid": 0, "born": 0}

    @property
    def port(self):
        return self.it["port"]

    def kill(self):
        """kill -9, with all children."""
        tool.kill(self.it)

    def stop(self):
        tool.stop(self.it)

    def freeze(self):
        tool.send(tool.family(self.it), signal.SIGSTOP)

    def thaw(self):
        tool.send(tool.family(self.it), signal.SIGCONT)

    def is_running(self):
        return bool(tool.family(self.it))


class Postgres(Server):
    """A PostgreSQL server with the databases of a cluster."""

    def __init__(self, folder):
        super().__init__("pg", folder)
        self.left = None  # where an old primary's data lie, once a standby was promoted

    def create(self, databases):
        tool.pg_init(self.it)
        self.start()
        tool.pg_ready(self.it)
        for name in databases:
            self.ask(f"CREATE DATABASE {name} OWNER foliot", "postgres")

    def follow(self, primary_port):
        """Become a standby of the server behind this port."""
        options = tool.run_as()
        subprocess.run([tool.PG_BIN / "pg_basebackup", "-d",
                        f"host=127.0.0.1 port={primary_port} user=postgres", "-D",
                        self.folder / "data", "-R", "-X", "stream", "-c", "fast"],
                       check=True, capture_output=True, cwd=self.folder, **options)
        with open(self.folder / "data/postgresql.conf", "a", encoding="utf-8") as conf:
            conf.write(f"unix_socket_directories = '{self.folder}'\n")
        self.start()

    def start(self):
        """Returns when it answers."""
        if not self.is_running():
            tool.start(self.it, True)

    def conninfo(self, database, user="postgres"):
        return f"host=127.0.0.1 port={self.port} user={user} dbname={database}"

    def ask(self, sql, database):
        """The rows of a question, as text."""
        done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d",
                               self.conninfo(database), "-c", sql], capture_output=True, text=True,
                              check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{self.folder.name}: {done.stderr.strip()}")
        return done.stdout.splitlines()

    def backends(self, database):
        """(process, application name) of the brokers' connections."""
        rows = self.ask("SELECT pid, application_name FROM pg_stat_activity WHERE datname = "
                        f"'{database}' AND application_name LIKE 'foliot/%'", "postgres")
        return [(int(pid), name) for pid, name in (row.split("|") for row in rows)]

    def promote(self):
        self.ask("SELECT pg_promote(true, 30)", "postgres")


def status_of(port):
    """What a ZooKeeper server says it is: leader, follower, standalone, or nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=1) as link:
            link.settimeout(1)
            link.sendall(b"srvr")
            text = b""
            while piece := link.recv(4096):
                text += piece
    except OSError:
        return ""
    for line in text.decode(errors="replace").splitlines():
        if line.startswith("Mode: "):
            return line.removeprefix("Mode: ")
    return ""


class Ensemble:
    """One ZooKeeper server, or several that elect a leader."""

    def __init__(self, folder, count):
        self.servers = [Server("zk", folder / f"zk{number}") for number in range(count)]
        peers = "".join(f"server.{number}=127.0.0.1:{tool.free_port()}:{tool.free_port()}\n"
                        for number in range(1, count + 1)) if count > 1 else ""
        for number, server in enumerate(self.servers, 1):
            tool.zk_init(server.it)
            with open(server.folder / "zoo.cfg", "a", encoding="utf-8") as conf:
                conf.write("initLimit=20\nsyncLimit=10\n" + peers)
            make_folder(server.folder / "data")
            (server.folder / "data/myid").write_text(f"{number}\n", encoding="utf-8")
        for server in self.servers:
            self.start(server, is_awaited=False)
        self.wait()

    @property
    def ports(self):
        return [server.port for server in self.servers]

    @staticmethod
    def start(server, is_awaited=True):
        # With members named, the main class of one server alone would not look at them.
        text = (server.folder / "zoo.cfg").read_text(encoding="utf-8")
        main = "quorum.QuorumPeerMain" if "server.1=" in text else "ZooKeeperServerMain"
        if not server.is_running():
            tool.spawn(server.it, [
                "java", "-Xmx256m", "-Xms32m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                "-XX:-UsePerfData", "-Dzookeeper.jmx.log4j.disable=true",
                "-Dzookeeper.preAllocSize=1024",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
                "-Dorg.slf4j.simpleLogger.showDateTime=true", "-cp", tool.ZK_JARS,
                f"org.apache.zookeeper.server.{main}", str(server.folder / "zoo.cfg")], True,
                **tool.run_as())
        while is_awaited and not status_of(server.port):
            time.sleep(STEP_S)

    def wait(self, limit_s=60):
        """Until all answer, one of them as the leader."""
        end = time.monotonic() + limit_s
        while True:
            modes = [status_of(port) for port in self.ports]
            if all(modes) and ("leader" in modes or modes == ["standalone"]):
                return
            if time.monotonic() > end:
                raise RuntimeError(f"ZooKeeper does not answer: {modes}")
            time.sleep(STEP_S)

    def leader(self):
        """The server that leads; the first if nobody says so."""
        for server in self.servers:
            if status_of(server.port) in ("leader", "standalone"):
                return server
        return self.servers[0]

    def freeze(self):
        for server in self.servers:
            server.freeze()

    def thaw(self):
        for server in self.servers:
            server.thaw()

    def stop(self):
        for server in self.servers:
            server.kill()


def remove(folder):
    shutil.rmtree(folder, ignore_errors=True)
