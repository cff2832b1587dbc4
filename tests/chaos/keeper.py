# SPDX-License-Identifier: Apache-2.0
"""What ZooKeeper says about a cluster, watched from outside, and the ending of a session in it."""
import json
import logging
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

CLUSTER = "/foliot/main"
LOOK_S = 0.25
ASK_S = 2
PASSWORD_SEED = 0xB3415C00  # ZooKeeper makes a session's password of its id and this.
JAVA_STEP, JAVA_MASK = 0x5DEECE66D, (1 << 48) - 1

logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def password_of(session):
    """The password of a session: java.util.Random, seeded with the id, gives 16 bytes."""
    state = (session ^ PASSWORD_SEED ^ JAVA_STEP) & JAVA_MASK
    out = b""
    while len(out) < 16:
        state = (state * JAVA_STEP + 0xB) & JAVA_MASK
        out += ((state >> 16) & 0xFFFFFFFF).to_bytes(4, "little")
    return out


class Keeper(threading.Thread):
    """Reads owners and brokers again and again; keeps what it has seen last."""

    def __init__(self, ports, journal):
        super().__init__(daemon=True)
        self.hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.journal = journal
        self.owners = {}     # shard → (broker, epoch, state)
        self.databases = {}  # shard → database
        self.brokers = {}    # instance → (name, session)
        self.seen_us = 0     # when it was last known to be so
        self.end = False

    def run(self):
        client = None
        while not self.end:
            try:
                if client is None:
                    client = KazooClient(self.hosts, timeout=10)
                    client.start(timeout=3)
                self.look(client)
            except (KazooException, KazooTimeoutError, OSError):
                self.drop(client)  # A new one is surer than one that has lost its way.
                client = None
            time.sleep(LOOK_S)
        self.drop(client)

    @staticmethod
    def drop(client):
        if client is not None:
            client.stop()
            client.close()

    @staticmethod
    def ask(method, path):
        """One answer, with a limit: a client that is not connected would wait for ever."""
        return method(f"{CLUSTER}/{path}").get(timeout=ASK_S)

    def look(self, client):
        members = {}
        for name in self.ask(client.get_children_async, "brokers"):
            stat = self.ask(client.exists_async, f"brokers/{name}")
            if stat:
                label, _, instance = name.rpartition("@")
                members[instance] = (label, stat.ephemeralOwner)
        for instance, (label, _) in members.items():
            if instance not in self.brokers:
                self.journal.write(kind="broker", name=label, instance=instance)
        owners = {}
        shards = self.ask(client.get_children_async, "shards")
        asked = [(int(shard), client.get_async(f"{CLUSTER}/shards/{shard}/owner"))
                 for shard in shards]
        for shard, one in asked:
            try:
                body = json.loads(one.get(timeout=ASK_S)[0])
                owners[shard] = (body["broker"], body["epoch"], body["state"])
            except NoNodeError:
                continue  # Nobody owns it now.
        for shard in shards:
            if int(shard) not in self.databases:
                body = json.loads(self.ask(client.get_async, f"shards/{shard}")[0])
                self.databases[int(shard)] = body["database"]
        for shard in self.databases:
            label = owners.get(shard, ("",))[0]
            if label != self.owners.get(shard, ("",))[0]:
                self.journal.write(kind="owner", shard=shard, name=label)
        self.owners, self.seen_us = owners, time.time_ns() // 1000
        self.brokers = self.brokers | members

    def shards_of(self, broker):
        return {shard for shard, owner in self.owners.items() if owner[0] == broker}

    def shards_in(self, databases):
        return {shard for shard, database in self.databases.items() if database in databases}

    def all_served(self):
        """Every shard has an owner that serves it."""
        owners = self.owners
        return len(owners) == len(self.databases) > 0 and \
            all(state == "active" for _, _, state in owners.values())

    def expire(self, broker):
        """End the session of a broker, as the server does when it has not heard of it for long."""
        session = next((session for name, session in reversed(list(self.brokers.values()))
                        if name == broker), None)
        if session is None:
            return False
        session &= (1 << 64) - 1
        signed = session - (1 << 64) if session >> 63 else session
        client = KazooClient(self.hosts, timeout=4, client_id=(signed, password_of(session)))
        try:
            client.start(timeout=5)
            taken = client.client_id[0] == signed
            client.stop()
        except (KazooException, KazooTimeoutError):
            return False
        finally:
            client.close()
        return taken
