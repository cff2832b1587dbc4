# SPDX-License-Identifier: Apache-2.0
"""How each kind of fault is done to a world, and undone. A fault says on whom it was: the brokers,
the databases and the receivers whose claims it may leave without an outcome. Orderly ends, joins,
a clock that is wrong and a network that is merely slow are on nobody: they excuse no repeat."""
import contextlib
import pathlib
import signal
import subprocess
import sys
import threading
import time

import journal
import world as worlds

import processes  # found by world

HERE = pathlib.Path(__file__).resolve().parent
DRAIN_S = 40     # An orderly end takes at most this: drain.timeout and a little.
WATCHDOG_S = 15  # A stuck broker has ended itself by then.
SESSION_S = 4    # of ZooKeeper
RECOVER_S = 12   # Whoever takes longer has failed: the judge sees it at the end.
ARM_S = 4        # Longest wait for a write to come by.


class Left(Exception):
    """This fault could not be done here; says why."""


class Turns:
    """Lanes play their faults beside each other; what is to be alone waits until the others have
    ended theirs, and they for it."""

    def __init__(self):
        self.change = threading.Condition()
        self.beside = 0  # faults of the others, being done
        self.is_alone = False

    @contextlib.contextmanager
    def taken(self, is_alone):
        with self.change:
            self.change.wait_for(lambda: not self.is_alone)
            if is_alone:
                self.is_alone = True
                self.change.notify_all()
                self.change.wait_for(lambda: self.beside == 0)
            else:
                self.beside += 1
        try:
            yield
        finally:
            with self.change:
                if is_alone:
                    self.is_alone = False
                else:
                    self.beside -= 1
                self.change.notify_all()


class Fault:
    """One line of the plan, being done."""

    def __init__(self, world, number, line):
        self.world = world
        self.number = number
        self.line = line
        self.links = world.links

    @property
    def broker(self):
        return self.line["broker"]

    def begin(self, brokers=(), databases=(), receivers=(), shards=None, at_us=0, **more):
        """Write down that it begins: on whom, and in which shards gaps are to be looked for."""
        keeper = self.world.keeper
        if shards is None:
            shards = set().union(*(keeper.shards_of(name) for name in brokers),
                                 keeper.shards_in(databases))
        self.world.journal.write(
            t=at_us or journal.now_us(), kind="begin", fault=self.number, what=self.line["kind"],
            brokers=list(brokers), databases=list(databases), receivers=list(receivers),
            shards=sorted(shards), **more)

    def play(self):
        """Do it, hold it, undo it."""
        try:
            getattr(self, self.line["kind"])()
        except Left as reason:
            self.world.journal.write(kind="left", fault=self.number, what=self.line["kind"],
                                     why=str(reason))
            return
        self.world.journal.write(kind="end", fault=self.number)

    def hold(self):
        time.sleep(self.line["lasts_s"])

    def recover(self, least_s=0.0):
        """Wait until every shard is served: so long the fault is not over. At least `least_s`, for
        ZooKeeper ends sessions a moment after it is back."""
        begin, begin_us = time.monotonic(), journal.now_us()
        keeper = self.world.keeper
        time.sleep(least_s)
        while time.monotonic() < begin + RECOVER_S:
            if keeper.seen_us > begin_us + 1_000_000 * least_s and keeper.all_served():
                break
            time.sleep(0.1)

    # ---- brokers and ZooKeeper ----

    def kill(self):
        with self.world.held_down(self.broker) as broker:
            shards = self.world.keeper.shards_of(self.broker)
            self.begin([self.broker], shards=shards)
            broker.popen.kill()
            self.hold()
        self.recover(max(1, SESSION_S + 1 - self.line["lasts_s"]))

    def pause(self):
        broker = self.world.running(self.broker)
        self.begin([self.broker])
        broker.signal(signal.SIGSTOP)
        self.hold()
        broker.signal(signal.SIGCONT)
        self.recover(1)

    def term(self):
        self.leave(self.broker)

    def leave(self, name):
        with self.world.held_down(name) as broker:
            self.begin(shards=self.world.keeper.shards_of(name), who=name)
            broker.signal(signal.SIGTERM)
            try:
                status = broker.popen.wait(DRAIN_S)
            except Exception:  # pylint: disable=broad-except
                broker.popen.kill()
                status = "none in time"
            self.world.journal.write(kind="drained", name=name, status=status)
            if name != worlds.GUEST:
                self.hold()

    def join(self):
        name = worlds.GUEST
        self.begin(shards=(), who=name)
        self.world.down.discard(name)  # It is started by who keeps all of them running.
        self.hold()
        broker = self.world.running(name)
        self.world.down.add(name)
        broker.signal(signal.SIGTERM)
        try:
            status = broker.popen.wait(DRAIN_S)
        except Exception:  # pylint: disable=broad-except
            broker.popen.kill()
            status = "none in time"
        self.world.brokers.pop(name)  # It has not ended by itself.
        self.world.journal.write(kind="drained", name=name, status=status)

    def expire(self):
        shards = self.world.keeper.shards_of(self.broker)
        self.begin([self.broker], shards=shards)
        if not self.world.keeper.expire(self.broker):
            raise Left("its session could not be taken")
        self.recover(1)

    def leader(self):
        ensemble = self.world.ensemble
        server = ensemble.leader()
        self.begin(shards=())
        server.kill()
        self.hold()
        ensemble.start(server)
        ensemble.wait()

    def zookeeper(self):
        self.begin(shards=self.world.keeper.databases)  # All of them; what is owned goes on.
        self.world.ensemble.freeze()
        self.hold()
        # Only now are sessions lost.
        self.world.journal.write(kind="hurt", fault=self.number, brokers=worlds.MEMBERS)
        self.world.ensemble.thaw()
        self.recover(SESSION_S + 1)

    def keepercut(self):
        names = [f"{self.broker}:zk{number}" for number in range(self.world.zookeepers)]
        is_slow = self.line["mode"] == "slow"
        self.begin(() if is_slow else [self.broker],
                   shards=self.world.keeper.shards_of(self.broker))
        self.links.mode(names, self.line["mode"])
        self.hold()
        self.links.mode(names, "pass")
        self.recover(1)

    def stuck(self):
        """Stop the loop's thread and no other, as a loop that spins does: ZooKeeper's library goes
        on sending signs of life. Production has no switch for this, so the thread is held by
        ptrace."""
        with self.world.held_down(self.broker) as broker:
            self.world.until_started(broker)  # Before that it has no watchdog.
            shards = self.world.keeper.shards_of(self.broker)
            at_us = journal.now_us()
            with subprocess.Popen(processes.tied([sys.executable, HERE / "stuck.py",
                                                  str(broker.popen.pid)]),
                                  stdout=subprocess.PIPE, text=True) as tracer:
                said = tracer.stdout.readline().strip()
                if said != "held":
                    raise Left(f"ptrace: {said}")
                self.begin([self.broker], shards=shards, at_us=at_us)
                end = time.monotonic() + WATCHDOG_S
                while tracer.poll() is None and time.monotonic() < end:
                    time.sleep(0.05)
                is_ended = tracer.poll() is not None
                self.world.journal.write(kind="watchdog", name=self.broker, ended=is_ended)
                broker.popen.kill()
            broker.popen.wait()
            self.hold()
        self.recover(max(1, SESSION_S + 1 - self.line["lasts_s"]))

    def clock_of(self, name):
        if name not in self.world.clocks:
            raise Left("libstep_clock.so is not in the build folder, or it has sanitizers")
        return self.world.clocks[name]

    def clock(self):
        clock = self.clock_of("b")
        self.begin(shards=self.world.keeper.shards_of("b"), who="b")
        clock.step(self.line["step_s"])
        self.hold()
        clock.step(0)

    def peer(self):
        self.begin([self.broker])
        self.links.mode([f"peer:{self.broker}"], self.line["mode"])
        self.hold()
        self.links.mode([f"peer:{self.broker}"], "pass")

    # ---- databases and networks ----

    @property
    def databases(self):
        return worlds.DATABASES[self.line["server"]]

    def base_links(self):
        ends = ("pg0", "pg0.1") if self.line["server"] == 0 else ("pg1",)
        return [f"{self.broker}:{end}" for end in ends]

    def base_link(self):
        """The link to the server that takes writes now."""
        if self.line["server"] == 1:
            return f"{self.broker}:pg1"
        port = self.world.pg[0].port
        return next(f"{self.broker}:{place}" for place, there in self.world.behind.items()
                    if there == port)

    def postgres(self):
        server = self.world.pg[self.line["server"]]
        self.begin(databases=self.databases)
        server.kill()
        self.hold()
        server.start()

    def promote(self):
        if self.world.standby is None:
            raise Left("there is no standby")
        at_us, old = self.world.promote(self.line["lasts_s"])
        self.begin(databases=worlds.DATABASES[0], at_us=at_us)
        self.world.new_standby(old, self.number, at_us)

    def backend(self):
        server = self.world.pg[self.line["server"]]
        instances = [i for i, (name, _) in self.world.keeper.brokers.items() if name == self.broker]
        found = [pid for database in self.databases for pid, name in server.backends(database)
                 if instances and name.startswith(f"foliot/{instances[-1]}/")]
        if not found:
            raise Left("the broker had no backend")
        chosen = found if self.line["count"] > 2 else found[:self.line["count"]]
        self.begin(databases=self.databases)
        worlds.servers.tool.send(chosen, signal.SIGSTOP)
        self.hold()
        worlds.servers.tool.send(chosen, signal.SIGCONT)

    def arm(self, how):
        link = self.base_link()
        self.begin(databases=self.databases)
        self.links.arm(link, how, self.line["lasts_s"])
        end = time.monotonic() + ARM_S
        while not self.links.fired_us(link):
            if time.monotonic() > end:
                self.links.disarm(link)
                raise Left("no write came by")
            time.sleep(0.02)
        self.hold()

    def cut(self):
        self.arm("cut")

    def late(self):
        self.arm("late")

    def half(self):
        self.arm("half")

    def basecut(self):
        self.begin(databases=self.databases)
        self.links.mode(self.base_links(), "hold")
        self.hold()
        self.links.mode(self.base_links(), "pass")

    def oneway(self):
        self.begin(databases=self.databases)
        self.links.mode(self.base_links(), self.line["mode"])
        self.hold()
        self.links.mode(self.base_links(), "pass")

    def slow(self):
        self.begin(shards=self.world.keeper.shards_in(self.databases), who=self.broker)
        self.links.mode(self.base_links(), "slow")
        self.hold()
        self.links.mode(self.base_links(), "pass")

    def target(self):
        receiver = self.line["receiver"]
        is_slow = self.line["mode"] == "slow"
        self.begin(receivers=() if is_slow else (receiver,), shards=())
        self.links.mode([f"to:{receiver}"], self.line["mode"])
        self.hold()
        self.links.mode([f"to:{receiver}"], "pass")

    def full(self):
        if self.world.disk is None:
            raise Left("only root can mount a small disk")
        ballast = self.world.disk / "ballast"
        self.begin(databases=("db1",))
        try:
            with open(ballast, "wb", buffering=0) as file:
                while True:
                    file.write(b"x" * 65536)
        except OSError:
            pass  # Full.
        self.hold()
        ballast.unlink()

    def baseclock(self):
        clock = self.clock_of("pg1")
        self.begin(shards=self.world.keeper.shards_in(worlds.DATABASES[1]))
        clock.step(self.line["step_s"])
        self.hold()
        clock.step(0)
