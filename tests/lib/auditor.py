# SPDX-License-Identifier: Apache-2.0
"""What the brokers' auditors say (docs/METRICS.md): for the end of a test, when nothing may be left
that nobody goes on with.
"""
import re
import time

FIGURES = ("foliot_audit_rows_unheld", "foliot_audit_claims_overdue",
           "foliot_audit_entries_rowless", "foliot_audit_shards_unowned")
ROUNDS = "foliot_audit_rounds_total"
OPTIONS = ["--audit-every", "2s"]  # of the brokers of a test: rounds of some seconds


def read(page):
    """Each figure, and the rounds, of a broker's page of metrics; None if it has none."""
    found = dict(re.findall(r"^(foliot_audit_\w+) (\d+)$", page or "", re.M))
    if ROUNDS not in found:
        return None
    return {name: int(found[name]) for name in (*FIGURES, ROUNDS)}


def faults(pages, limit_s=120, rounds=2):
    """Wait until every broker's auditor has looked at all of its shards once more, and its figures
    are all zero; what is left of that at the limit, one line each.

    pages: a function that returns {name: page of metrics} of the brokers that are to be well. A
    round that was under way may have begun before the call, so two have to pass; with rounds=0 what
    the last one has found is enough, for tests that hurt nobody."""
    end = time.monotonic() + limit_s
    first = {}
    while True:
        left = []
        for name, page in pages().items():
            seen = read(page)
            if seen is None:
                left.append(f"{name} has no auditor")
                continue
            if seen[ROUNDS] < first.setdefault(name, seen[ROUNDS]):
                first[name] = seen[ROUNDS]  # It was started again.
            left += [f"the auditor of {name} says {figure} {seen[figure]}"
                     for figure in FIGURES if seen[figure] != 0]
            if seen[ROUNDS] < first[name] + rounds:
                left.append(f"the auditor of {name} has been round {seen[ROUNDS] - first[name]} "
                            f"times, not {rounds}")
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.3)
