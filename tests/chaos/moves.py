# SPDX-License-Identifier: Apache-2.0
"""How long shards stand still that are moved in order, and those that are not moved at all, as their
tasks see it: how late each was attempted that was ready by then. Of orderly ends, joins, and times
without ZooKeeper that nothing else came near."""
import bisect

MOVES = ("term", "join")
AWAY = ("zookeeper", "leader")
SETTLE_US = 6_000_000  # Behind its end shards still move; so long before nothing must have moved.


class Pause:
    """The latest task of a shard in a span: how late, and when it was ready."""

    def __init__(self, fault, shard):
        self.fault, self.shard = fault, shard
        self.ready_us = self.late_us = 0

    def see(self, ready_us, at_us):
        if at_us - ready_us > self.late_us:
            self.ready_us, self.late_us = ready_us, at_us - ready_us

    def __repr__(self):
        return (f"shard {self.shard} at {self.fault.what} {self.fault.number}: "
                f"{self.late_us / 1000:.0f} ms")


def is_alone(history, fault, end_us):
    """True if no other fault was near it."""
    return not any(other is not fault and other.left is None and other.begin_us < end_us and
                   other.end_us + SETTLE_US > fault.begin_us for other in history.faults)


def moved_in(history, begin_us, end_us):
    """The shards whose owner changed in a span."""
    return {shard for shard, lines in history.owned.items()
            if any(begin_us < at_us < end_us for at_us, _ in lines)}


def worst(history, fault, begin_us, end_us):
    """Shard → Pause, of the tasks that became ready in a span."""
    found = {shard: Pause(fault, shard) for shard in history.shard_databases}
    firsts = history.firsts()
    first = bisect.bisect_left(firsts, begin_us, key=lambda one: one.ready_us)
    last = bisect.bisect_left(firsts, end_us, key=lambda one: one.ready_us)
    for one in firsts[first:last]:
        found[history.shard_of(one.task)].see(one.ready_us, one.at_us)
    return found


def of_moves(history):
    """(pauses of the shards that were moved in order, pauses of those that stayed)."""
    moved, stayed = [], []
    for fault in history.faults:
        end_us = min(fault.end_us + SETTLE_US, history.heal_us)
        if fault.what not in MOVES or fault.left is not None or \
                not is_alone(history, fault, end_us):
            continue
        names = moved_in(history, fault.begin_us, end_us)
        for shard, pause in worst(history, fault, fault.begin_us, end_us).items():
            (moved if shard in names else stayed).append(pause)
    return moved, stayed


def of_away(history):
    """Pauses of all shards while ZooKeeper was away, or without a leader; those that were being
    moved just then have nobody to go to."""
    found = []
    for fault in history.faults:
        end_us = fault.hurt_us if fault.what == "zookeeper" else fault.end_us
        if fault.what not in AWAY or fault.left is not None or \
                not is_alone(history, fault, end_us):
            continue
        names = moved_in(history, fault.begin_us - SETTLE_US, end_us)
        pauses = worst(history, fault, fault.begin_us, end_us)
        found += [pause for shard, pause in pauses.items() if shard not in names]
    return found
