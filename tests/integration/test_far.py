#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Tasks outside the window cost a broker no memory: many due within a year, and its own allocations
stay as they were. Ends with "N passed, N failed".

  test_far.py [COUNT]      default 200 000; 1 000 000 is the row of tests/bench/bench_cluster.py
"""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16
WARM = 20_000
PAYLOAD_BYTES = 100
HEAP_BYTES_MAX = 512 * 1024       # of all tasks together: what buffers may still grow by
RSS_BYTES_MAX = 16 * 1024 * 1024  # the allocator's and the kernel's share


def create(cluster, count):
    load = cluster.start_load(f"load.{count}", "--queue", "far", "--count", str(count), "--batch",
                              "1000", "--outstanding", "8", "--delay-min", "2h", "--delay-max",
                              "365d", "--payload-bytes", str(PAYLOAD_BYTES), "--out", "/dev/null")
    harness.until(f"{count} creates", lambda: not load.alive(), 240)
    if load.popen.returncode != 0:
        raise RuntimeError(f"the load failed: {load.err.read_text()}")


def fresh(broker, made):
    """Wait for figures that know of all creates; they are about a second old."""
    harness.until("the metrics to be fresh",
                  lambda: broker.metric("foliot_tasks_scheduled_total") >= made, 10)


def run(cluster, count):
    cluster.start_broker("a")
    cluster.wait_ready()
    cluster.cli("queue", "create", "far", "--target", "receiver://127.0.0.1:1")
    broker = cluster.brokers["a"]
    create(cluster, WARM)
    fresh(broker, WARM)
    before = {name: broker.metric(name)
              for name in ("foliot_heap_bytes", "process_resident_memory_bytes")}
    create(cluster, count)
    fresh(broker, WARM + count)
    heap, rss = (broker.metric(name) - was for name, was in before.items())
    print(f"    {count} tasks: own allocations {heap / 1024:+.0f} KiB, resident {rss / 1024:+.0f} "
          f"KiB, in memory {broker.metric('foliot_tasks_in_memory'):.0f}", flush=True)
    faults = []
    if broker.metric("foliot_tasks_in_memory") != 0:
        faults.append("tasks outside the window are in memory")
    if heap > HEAP_BYTES_MAX:
        faults.append(f"own allocations grew by {heap:.0f} bytes")
    if rss > RSS_BYTES_MAX:
        faults.append(f"resident memory grew by {rss:.0f} bytes")
    return faults + auditor.faults(cluster.pages)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200_000
    print("  tasks outside the window cost no memory", flush=True)
    with harness.Cluster(os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev")),
                         SHARDS, broker_options=auditor.OPTIONS) as cluster:
        try:
            faults = run(cluster, count)
        except RuntimeError as error:
            faults = [str(error)]
    for fault in faults:
        print(f"    FAIL {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
