# SPDX-License-Identifier: Apache-2.0
"""Finding and ending processes: what the runner of the tests, the servers and the clusters share.

Processes are ended by id, and only while the id is still that of the process that was meant.
"""
import contextlib
import os
import pathlib
import signal
import time

ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
END_LIMIT_S = 20  # Orderly, then by force.


class Ended(BaseException):
    """A signal has asked this program to end; .number says which."""

    def __init__(self, number):
        super().__init__(f"ended by {signal.Signals(number).name}")
        self.number = number


class _Ending:
    """What end_on_signals and uninterrupted share: there is one for the whole program."""

    held = 0
    pending = None


def end_on_signals():
    """SIGINT, SIGTERM and SIGHUP raise Ended, so that whoever has started something stops it."""
    def end(number, _):
        for each in ENDINGS:
            signal.signal(each, signal.SIG_IGN)  # Stopping takes a moment: once is enough.
        if _Ending.held:
            _Ending.pending = number
        else:
            raise Ended(number)

    for each in ENDINGS:
        if signal.getsignal(each) != signal.SIG_IGN:
            signal.signal(each, end)


@contextlib.contextmanager
def uninterrupted():
    """Ended is raised behind this block, not in it: what is started here is also noted down. A
    masked signal would do, if the mask were not inherited by what is started."""
    _Ending.held += 1
    try:
        yield
    finally:
        _Ending.held -= 1
        if not _Ending.held and _Ending.pending is not None:
            raise Ended(_Ending.pending)


def tied(command, name="KILL"):
    """The command, to be sent SIG`name` when we end, however we end. If we have ended before it could
    ask for that, it does not start: nobody would tell it."""
    return ["setpriv", "--pdeathsig", name, "--", "sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"',
            str(os.getpid()), *map(str, command)]


def processes():
    """(pid, parent, state, start time) of every process."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            text = pathlib.Path("/proc", entry, "stat").read_text(errors="replace")
        except OSError:
            continue
        fields = text[text.rindex(")") + 2 :].split()
        yield int(entry), int(fields[1]), fields[0], int(fields[19])


def is_alive(pid, born):
    """True if `pid` is still the process that we started; a zombie is dead."""
    return any(p == pid and b == born and s not in "ZX" for p, _, s, b in processes())


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass


def descendants(root):
    """{pid: start time} of a process and everybody below it."""
    everyone = list(processes())
    found = {pid: born for pid, _, _, born in everyone if pid == root}
    size = 0
    while size < len(found):
        size = len(found)
        found |= {pid: born for pid, parent, _, born in everyone if parent in found}
    return found


def end_tree(root, limit_s=END_LIMIT_S):
    """SIGTERM to a process and everybody below it; SIGKILL to those that do not end in time, and to
    whatever they have started since."""
    meant = descendants(root)
    send(meant, signal.SIGTERM)
    send(meant, signal.SIGCONT)
    end = time.monotonic() + limit_s
    while left := {pid: born for pid, born in meant.items() if is_alive(pid, born)}:
        if time.monotonic() > end:
            for pid in left:
                send(descendants(pid), signal.SIGKILL)
            return
        time.sleep(0.05)
