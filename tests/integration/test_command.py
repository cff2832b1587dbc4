#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The foliot command as its user meets it: what it writes where, its exit codes, and every message
that it can complain with. Brokers are played by grpcio, so that each answer can be had. The last
case reads the messages from the source and fails for one that no case has met. Ends with
"N passed, N failed"."""
import glob
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import certs
from command_broker import ID, Broker, dead_address

FOLIOT = os.environ["FOLIOT_PROGRAM_FOLIOT"]
SOURCE = os.environ["FOLIOT_SOURCE_DIR"]
LIMIT_S = 20
HOME = tempfile.mkdtemp(prefix="foliot-command-")
SEEN = []  # all that went to standard error


def environment(**more):
    """A user's own, without anything of ours or of this machine."""
    mine = {name: value for name, value in os.environ.items()
            if not name.startswith(("FOLIOT_", "XDG_")) and name not in ("TZ", "NO_COLOR")}
    return {**mine, "HOME": HOME, "TZ": "UTC", **more}


def run(*words, code=0, stdin=b"", env=None, limit_s=LIMIT_S):
    """Run the command; (standard output, standard error)."""
    done = subprocess.run([FOLIOT, *words], capture_output=True, timeout=limit_s, input=stdin,
                          check=False, env=env or environment())
    out, err = done.stdout.decode(), done.stderr.decode()
    SEEN.extend(err.splitlines())
    assert done.returncode == code, f"{words}: exit {done.returncode}, wanted {code}: {out}{err}"
    return out, err


def ask(broker, *words, code=0, **more):
    """Run against a broker; standard output. What it complained of is in ask.err."""
    out, ask.err = run(*words, "--address", broker.address, code=code, **more)
    return out


def record(text):
    """The lines of one thing, as a dictionary."""
    return dict(re.split(" {2,}", line, maxsplit=1) for line in text.splitlines() if "  " in line)


def refused(*words, **more):
    """A mistake of the user's: exit 2, one line, nothing on standard output. The line."""
    out, err = run(*words, code=2, **more)
    lines = err.splitlines()
    assert out == "" and len(lines) == 1 and lines[0].startswith("foliot: "), (words, out, err)
    return lines[0][len("foliot: "):]


def on_terminal(*words, typed=b"", until=None, env=None):
    """Run with a terminal; types when the prompt is there. (all that the terminal showed, code)."""
    pid, fd = pty.fork()
    if pid == 0:
        os.execve(FOLIOT, ["foliot", *words], env or environment(TERM="xterm"))
    shown = b""
    end = time.monotonic() + LIMIT_S
    sent = not typed
    while time.monotonic() < end:
        if not select.select([fd], [], [], 0.2)[0]:
            continue
        try:
            chunk = os.read(fd, 65536)
        except OSError:
            break
        if not chunk:
            break
        shown += chunk
        if not sent and b"to go on: " in shown:
            os.write(fd, typed)
            sent = True
        if until is not None and until(shown):
            os.kill(pid, signal.SIGINT)
            until = None
    status = os.waitpid(pid, 0)[1]
    os.close(fd)
    text = shown.decode()
    SEEN.extend(text.replace("\r", "\n").replace("go on: ", "go on: \n").splitlines())
    return text, os.waitstatus_to_exitcode(status)


# ---- the frame ----

def help_is_on_standard_output_and_has_examples(_):
    out, err = run("--help")
    assert "  task       create       Create a task" in out and err == "", (out, err)
    assert run("help")[0] == out and run("-h")[0] == out
    assert "foliot task create " in run("task", "--help")[0]
    assert run("help", "task")[0] == run("task", "--help")[0]
    assert run("help", "task", "create")[0] == run("task", "create", "-h")[0]
    for noun, verb in re.findall(r"^  ([a-z]+) +([a-z-]*) +[A-Z]", out, re.M):
        words = [noun] + ([verb] if verb else [])
        text = run(*words, "--help")[0]
        assert f"usage: foliot {' '.join(words)}" in text and "\nexamples:\n  " in text, text
        for example in text.split("\nexamples:\n")[1].splitlines():
            assert f"foliot {noun}" in example, example
    out, err = run(code=2)
    assert out == "" and "usage: foliot NOUN VERB" in err


def every_example_of_the_help_is_a_command_line_that_is_taken(broker):
    """Examples are tried against a broker, as far as they need no files."""
    out = run("help")[0]
    tried = 0
    for noun, verb in re.findall(r"^  ([a-z]+) +([a-z-]*) +[A-Z]", out, re.M):
        if noun in ("receive", "bench", "completion", "help", "version", "context", "dev"):
            continue
        if verb in ("init", "adopt"):  # These ask no broker; test_adopt has them.
            continue
        text = run(noun, verb, "--help")[0]
        for example in re.findall(r"^  foliot (.*)$", text.split("\nexamples:\n")[1], re.M):
            if "--watch" in example or "request.bin" in example or "task watch" in example:
                continue
            for part in example.split(" && foliot "):
                words = subprocess.run(["bash", "-c", f"printf '%s\\n' {part}"], check=True,
                                       capture_output=True, text=True).stdout.split("\n")[:-1]
                command = [FOLIOT, *words, "--address", broker.address]
                if words[0] == "dead" or words[:2] == ["task", "cancel"]:
                    command.append("--yes") if words[1] in ("redrive", "purge", "cancel") else None
                done = subprocess.run(command, capture_output=True, text=True, check=False,
                                      env=environment(), timeout=LIMIT_S)
                assert done.returncode in (0, 3, 5), (words, done.returncode, done.stderr)
                tried += 1
    assert tried > 25, tried


def misspelt_words_are_answered_with_the_nearest(_):
    rows = [
        (("tsk",), 'no command "tsk"; did you mean "foliot task"?'),
        (("frobnicate",), 'no command "frobnicate"; see foliot --help'),
        (("task",), '"foliot task" needs a verb: create, get, cancel, update, run, list, explain '
                    'or watch'),
        (("task", "-o", "json"), "needs a verb"),
        (("task", "lisst"), 'no command "task lisst"; did you mean "foliot task list"?'),
        (("queue", "frobnicate"), '"foliot queue" knows create, get, list'),
        (("--output", "json"), "comes before the command; options follow it"),
        (("task", "list", "--quue", "m"), 'unknown option "--quue"; did you mean "--queue"?'),
        (("task", "list", "-Z"), 'unknown option "-Z"; see --help'),
        (("task", "list", "--queue"), "--queue needs a value: --queue NAME"),
        (("task", "list", "--watch=yes"), "--watch takes no value"),
        (("dev", "--db", "f"), 'unknown option "--db"; did you mean "--db-file"?'),
        (("dead", "list", "--all"), 'unknown option "--all"; see --help'),
        (("task", "list", "extra"), '"extra" is one operand too many; if it is a queue: --queue extra'),
        (("task", "list", "extra", "-q", "m"), '"extra" is one operand too many; see --help'),
        (("task", "get", "a", "b"), '"b" is one operand too many'),
        (("dead", "purge", *["x"] * 513), "more than 512 operands (ARGS_OPERAND_COUNT_MAX)"),
        (("task", "list", *["--no-headers"] * 129), "more than 128 options (ARGS_ITEM_COUNT_MAX)"),
        (("help", "tsk"), 'no command "tsk"; see foliot --help'),
        (("help", "task", "x"), 'no command "task x"; see foliot --help'),
        (("completion",), "name the shell: foliot completion bash, or zsh"),
        (("completion", "fish"), 'no completion for "fish"'),
        (("task", "list", "-o", "xml"), '"xml" must be table, wide, json, jsonl or name'),
        (("receive", "-o", "name"), '--output "name" must be table, json or jsonl'),
    ]
    for words, hint in rows:
        assert hint in refused(*words), (words, hint, SEEN[-1])


def values_that_are_wrong_are_said_with_what_is_right(_):
    key, long = "k" * 256, "n" * 64
    rows = [
        (("task", "create"), "name the queue: --queue NAME"),
        (("task", "create", "-q", "m", "--at", "soon"), '--at "soon" must be +15m, now, tomorrow'),
        (("task", "create", "-q", "m", "--at", "2026-03-29 02:30", "--tz", "Europe/Paris"),
         "never comes: clocks are turned forward then"),
        (("task", "create", "-q", "m", "--at", "1h", "-d", "1h"), "give --at or --delay, not both"),
        (("task", "create", "-q", "m", "--delay", "x"), "must be a time like 500ms"),
        (("task", "create", "-q", "m", "-p", "a", "-f", "b"), "--payload or --payload-file, not"),
        (("task", "create", "-q", "m", "-p", "x" * 65537), "--payload has more than 65536 bytes "
                                                           "(PAYLOAD_BYTES_MAX)"),
        (("task", "create", "-q", "m", "-f", "/nonexistent"), 'cannot open "/nonexistent": No such'),
        (("task", "create", "-q", "m", "-f", "/"), 'cannot read "/": Is a directory'),
        (("task", "create", "-q", "m", "-k", key), "--key has more than 255 bytes (KEY_BYTES_MAX)"),
        (("task", "create", "-q", "m", "--order-key", key),
         "--order-key has more than 255 bytes (ORDER_KEY_BYTES_MAX)"),
        (("task", "create", "-q", "m", "--order-key", ""), "--order-key is empty, which would be none"),
        (("task", "get", "-q", "m", "--order-key", "o"), "--order-key goes with --key: together"),
        (("queue", "create", "m", "-t", "receiver://h:1", "--order-failures", "2"),
         "--order-failures goes with --order-on-failure skip"),
        (("task", "create", "-q", "m", "--latest", "1h"), "add --key KEY"),
        (("task", "create", "-q", "m", "--tag", "x"), '--tag "x" must be NAME=VALUE'),
        (("task", "create", "-q", "m", "--tag", "a b=x"), "--tag: "),
        (("task", "create", "-q", "m", *["--tag=a=1"] * 17), "--tag: "),
        (("task", "create", "-q", "m", "--tz", "Mars/Base"), '"Mars/Base" is no time zone'),
        (("task", "create", "-q", "m", "--utc", "--tz", "Europe/Paris"), "give --utc or --tz"),
        (("task", "get"), "name the task: its id, or --queue NAME --key KEY"),
        (("task", "get", "x"), '"x" is no task id; one looks like 0a7-0000012300000001'),
        (("task", "get", ID, "-q", "m", "-k", "k"), "give an id or --key, not both"),
        (("task", "update", ID), "say what changes: --at TIME, --payload TEXT, or both"),
        (("task", "cancel", ID, "--all"), "name one task, or say which by --all"),
        (("task", "cancel", "-q", "m"), "say which: an id, --key KEY, or for many --all"),
        (("task", "cancel", "--all"), "name the queue whose tasks are cancelled"),
        (("task", "list", "--state", "waiting,dead"), '--state "dead" must be waiting, ready'),
        (("task", "list", "--limit", "-1"), '--limit "-1" must be a whole number from 0'),
        (("task", "list", "--page-token", "x"), '--page-token "x" is none'),
        (("task", "list", "--columns", "id,quue"), 'there is no column "quue"; there are id, queue'),
        (("task", "list", "--columns", ",".join(["id"] * 21)), "--columns: more than 20 (TABLE_COLUMN_COUNT_MAX)"),
        (("task", "list", "--columns", "id", "-o", "json"), "--columns is for -o table and -o wide"),
        (("task", "list", "--watch", "--interval", "1ms"), "--interval must be 100ms to 1d"),
        (("task", "watch", ID, "--interval", "2d"), "--interval must be 100ms to 1d"),
        (("task", "watch", ID, "--interval", "x"), "must be a time like"),
        (("task", "list", "--timeout", "x"), "must be a time like"),
        (("task", "list", "--timeout", "2d"), "--timeout must be 1ms to 1d (SESSION_TIMEOUT_MS_MAX)"),
        (("task", "list", "--timeout", "0s"), "--timeout must be 1ms to 1d"),
        (("task", "list", "-s", "host"), 'address "host" must be host:port, as 127.0.0.1:7400'),
        (("task", "list", "-s", "h" * 300 + ":1"), "has more than 255 bytes (SERVER_NAME_BYTES)"),
        (("task", "list", "-s", ",".join(["h:1"] * 17)), "more than 16 addresses (SERVER_COUNT_MAX)"),
        (("queue", "create", "m"), "say where its tasks go: --target receiver://host:port or"),
        (("queue", "create", "m", "-t", "x" * 1024), "--target has more than 1023 bytes (TARGET_BYTES_MAX)"),
        (("queue", "create", "m", "-t", "x", "--failures-max", "0"), "a whole number from 1"),
        (("queue", "create", "m", "-t", "x", "--delivery", "once"), "at-least-once or at-most-once"),
        (("queue", "create", long, "-t", "x"), "the name of the queue has more than 63 bytes (NAME_BYTES_MAX)"),
        (("queue", "get"), "name the queue; foliot queue list shows those there are"),
        (("queue", "update", "m"), "say what changes, for example --target URL"),
        (("queue", "pause", "m", "--for", "1h", "--until", "2h"), "give --for or --until"),
        (("queue", "pause", "m", "--until", "now"), "--until now is over already"),
        (("dead", "list"), "name the queue: --queue NAME"),
        (("dead", "list", "-q", "m", "--error", "e" * 256), "DEAD_FILTER_BYTES_MAX"),
        (("dead", "list", "-q", "m", "--page-token", "x"), '--page-token "x" is none'),
        (("dead", "purge", "-q", "m", "x"), '"x" is no task id'),
        (("dead", "purge", "-q", "m"), "say which: ids, --error TEXT, or --all of the queue"),
        (("dead", "purge", "-q", "m", "--error", "", "--yes"), "say which: ids, --error TEXT, or --all"),
        (("dead", "redrive", "-q", "m", "--yes"), "say which: ids, --error TEXT, or --all"),
        (("dead", "redrive", "-q", "m", "--all", "--error", "x"), "or take --all, not both"),
        (("dead", "purge", "-q", "m", "--all", ID), "or take --all, not both"),
        (("dead", "redrive", "-q", "m", "--all", "--rate", "0"), '--rate "0" must be tasks a second, 0.001'),
        (("dead", "redrive", "-q", "m", "--all", "--rate", "1.x"), "must be tasks a second"),
        (("dead", "redrive", "-q", "m", "--all", "--rate", "1000001"), "to 1000000 (RATE_MAX)"),
        (("cluster", "plan"), "say who would come or go: --add NAME, --remove NAME"),
        (("cluster", "adopt", "--databases", "db0=" + "x" * 3000),
         "--databases is longer than 2048 bytes; name it in a file: --config FILE"),
        (("cluster", "drain"), 'name the broker; "foliot cluster status" lists them'),
        (("bench", "record"), "name the queue: --queue NAME"),
        (("bench", "record", "-q", "m", "--delay-min", "2s", "--delay-max", "1s"),
         "--delay-max must be at least --delay-min"),
        (("bench", "recordd"), 'no command "bench recordd"; did you mean "foliot bench record"?'),
        (("bench", "--rate", "5"), 'unknown option "--rate"'),
        (("bench", "create", "--rate", "x"), '--rate "x" must be a whole number'),
        (("bench", "create", "--keyed", "101"), "must be a whole number from 0 to 100"),
        (("bench", "create", "--outstanding", "0"), "must be a whole number from 1 to 4096"),
        (("bench", "create", "--delay", "1s..2"), '--delay "1s..2" is no delay; one looks like 5s'),
        (("bench", "create", "--delay", "2s..1s"), '--delay "2s..1s" is no delay'),
        (("bench", "create", "--delay", "exp:"), '--delay "exp:" is no delay'),
        (("bench", "create", "--delay", ",".join(["1s"] * 9)), "(DELAY_PART_COUNT_MAX)"),
        (("bench", "create", "--duration", "0s"), "--duration must be 1ms to 1d"),
        (("bench", "create", "--warmup", "2d"), "at most 1d (DURATION_MS_MAX)"),
        (("bench", "create-batch", "-b", "10000", "--payload-bytes", "1000"),
         "are more than a message may have, 4194304 bytes (RPC_MESSAGE_BYTES_MAX)"),
        (("bench", "mixed", "-b", "5"), "bench mixed makes single calls: leave out --batch"),
        (("bench", "drain", "-d", "5s"), "bench drain has all tasks due at one instant"),
        (("bench", "steady", "--lead", "5s"), "--lead is for bench drain; bench steady has --delay"),
        (("bench", "steady", "--columns", "x"), '"x"'),
        (("bench", "record", "-q", "m", "--out", "/nonexistent/x"), 'cannot write "/nonexistent/x"'),
        (("task", "create", "-q", "m", "--key", ""), "--key is empty, which would be no key"),
        (("task", "cancel", "-q", "m", "--key", ""), "--key is empty, which would be no key"),
        (("dev", "--db-file", ""), "--db-file needs the name of a file"),
        (("dev", "--log-level", "loud"), '--log-level "loud" must be debug, info, warn or error'),
        (("dev", "--brokers", "3", "--port", "65533"), "the last of 3 brokers would have a port above"),
        (("receive", "--fail-permille", "1001"), "must be a whole number from 0 to 1000"),
    ]
    for words, hint in rows:
        assert hint in refused(*words), (words, hint, SEEN[-1])
    line = refused("task", "create", "-q", "m", "-f", "-", stdin=b"x" * 65537)
    assert 'payload "-" has more than 65536 bytes (PAYLOAD_BYTES_MAX)' in line, line


def what_a_broker_says_becomes_an_exit_code(broker):
    codes = [("INVALID_ARGUMENT", 2), ("NOT_FOUND", 3), ("UNIMPLEMENTED", 3),
             ("PERMISSION_DENIED", 4), ("UNAUTHENTICATED", 4), ("ALREADY_EXISTS", 5),
             ("FAILED_PRECONDITION", 5), ("ABORTED", 5), ("UNAVAILABLE", 6),
             ("RESOURCE_EXHAUSTED", 6), ("DEADLINE_EXCEEDED", 7), ("INTERNAL", 1), ("UNKNOWN", 1)]
    for name, code in codes:
        broker.fail_next = [(name, "SOME_REASON", "as the test wants it")]
        out = ask(broker, "queue", "get", "mail", code=code)
        assert out == "" and f"get: {name} (SOME_REASON): as the test wants it" in ask.err, ask.err
        assert ("a broker older than this command" in ask.err) == (name == "UNIMPLEMENTED"), ask.err
    broker.fail_next = [("RESOURCE_EXHAUSTED", "FULL", "full")]
    ask(broker, "task", "run", ID, code=6)
    assert "try again in 1000 ms" in ask.err, ask.err
    out, err = run("cluster", "status", "-s", dead_address(), code=6)
    assert out == "" and "asked 1 server, the last one was" in err, err
    assert "no connection: nobody accepts it there" in err, err
    assert "name others with --address or FOLIOT_ADDRESS; foliot dev starts one to try" in err, err


def a_reason_names_the_command_that_comes_next(broker):
    rows = [("NOT_FOUND", "QUEUE_NOT_FOUND", "queue create NAME --target", 3),
            ("ALREADY_EXISTS", "QUEUE_EXISTS", "foliot queue update NAME", 5),
            ("FAILED_PRECONDITION", "QUEUE_DRAINING", "foliot queue resume NAME", 5),
            ("FAILED_PRECONDITION", "QUEUE_NOT_DRAINING", "foliot queue drain NAME", 5),
            ("FAILED_PRECONDITION", "QUEUE_NOT_EMPTY", "foliot task cancel --queue NAME --all", 5),
            ("NOT_FOUND", "TASK_GONE", "foliot dead list --queue NAME", 3),
            ("PERMISSION_DENIED", "TARGET_NOT_ALLOWED", "foliot dev --allow HOST:PORT", 4)]
    for status, reason, command, code in rows:
        broker.fail_next = [(status, reason, "as the test wants it")]
        ask(broker, "queue", "get", "mail", code=code)
        assert re.search(f"^foliot: next: .*{re.escape(command)}", ask.err, re.M), ask.err
    broker.fail_next = [("NOT_FOUND", "SOME_REASON", "as the test wants it")]
    ask(broker, "queue", "get", "mail", code=3)
    assert "next:" not in ask.err, ask.err


def what_others_wrote_does_not_reach_the_terminal_as_control(broker):
    broker.fail_next = [("INTERNAL", "BAD", "\x1b[2Jgone\n\u009b2J")]
    ask(broker, "queue", "get", "mail", code=1)
    assert "\x1b" not in ask.err and "\u009b" not in ask.err and "?[2Jgone" in ask.err, ask.err
    broker.error = "\x1b]0;owned\x07\u009b1m"
    for words in (("task", "get", ID), ("task", "watch", ID, "--interval", "100ms"),
                  ("dead", "list", "-q", "dead")):
        out = ask(broker, *words, code=1 if "watch" in words else 0)
        assert "owned" in out and not set(out) & {"\x1b", "\x07", "\u009b"}, (words, out)
    view = json.loads(ask(broker, "task", "get", ID, "-o", "json"))
    assert view["error"] == broker.error, "JSON has all of it, escaped"


def a_plan_names_moves_and_shares(broker):
    words = ("cluster", "plan", "--add", "b2", "--add", "b3", "--remove", "b1")
    assert ask(broker, *words).splitlines() == [
        "1 shard would move", "BROKER  SHARDS NOW  THEN  CHANGE", "b1      2           1     -1",
        "b2      0           1     +1"], ask(broker, *words)
    asked = broker.last["PlanMembers"]
    assert list(asked.add) == ["b2", "b3"] and list(asked.remove) == ["b1"], asked
    assert "0007   db0       b1    b2" in ask(broker, *words, "--moves")
    whole = json.loads(ask(broker, *words, "-o", "json"))
    assert whole["moves"] == [{"shard": 7, "database": "db0", "from": "b1", "to": "b2"}], whole
    assert whole["shares"][1] == {"broker": "b2", "before": 0, "after": 1}, whole
    assert json.loads(ask(broker, *words, "-o", "jsonl").splitlines()[0])["broker"] == "b1"


def a_broker_is_drained_by_its_name(broker):
    assert ask(broker, "cluster", "drain", "b2").splitlines() == [
        "broker  b2", "shards  3", "result  draining"]
    assert broker.last["DrainBroker"].broker == "b2"
    assert json.loads(ask(broker, "cluster", "drain", "b2", "-o", "json"))["shardCount"] == 3


def a_check_says_what_is_not_as_it_should_be(broker):
    assert "FAULT" not in ask(broker, "cluster", "check")
    broker.is_sick = True
    lines = ask(broker, "cluster", "check", code=1).splitlines()
    found = {line[:42].strip(): line[42:].split(None, 1) for line in lines[1:]}
    for check, what in (
            ("every shard has an owner", "shard 0000 in db0 has none; shard 0001 in db0 has none; "
                                         "shard 0002 in db0 has none"),
            ("every owner serves", "shard 0005: b1 does not serve it yet; shard 0006: b2 does not "
                                   "answer"),
            ("every due task is in somebody's hands", "shard 0005: 2, the log of b1 names them"),
            ("every broker can write to every database", "b2 cannot write to db1"),
            ("all brokers are of one version", "b2 is 0.2.0, b1 is 0.1.0"),
            ("all brokers know the same queues", "b2 has confirmed 3, b1 4")):
        assert found[check] == ["FAULT", what], (check, found)
    whole = json.loads(ask(broker, "cluster", "check", "-o", "json", code=1))
    assert whole["checks"][0]["faults"] == 5 and not whole["checks"][0]["passed"], whole


def a_broker_that_hangs_is_given_up_in_time(broker):
    start = time.monotonic()
    broker.hang_s = 3
    ask(broker, "queue", "get", "mail", "--timeout", "300ms", code=7)
    broker.hang_s = 0
    assert "get: DEADLINE_EXCEEDED" in ask.err and time.monotonic() - start < 3, ask.err


def an_answer_that_makes_no_sense_is_said_so(broker):
    broker.garble = True
    for words in (("task", "get", ID), ("task", "create", "-q", "m"), ("queue", "list"),
                  ("cluster", "shards"), ("task", "list"), ("dead", "groups", "-q", "m")):
        out = ask(broker, *words, code=1)
        assert out == "" and "the answer cannot be read: " in ask.err, (words, ask.err)
    broker.garble = False
    broker.bad_token = True
    ask(broker, "task", "list", "--limit", "0", code=1)
    assert "its next_page_token is none of ours" in ask.err, ask.err
    ask(broker, "dead", "list", "-q", "dead", "--limit", "0", code=1)
    assert "its next_page_token is none of ours" in ask.err, ask.err
    broker.bad_token = False


def output_that_cannot_be_written_is_an_error(broker):
    with open("/dev/full", "wb") as full:
        done = subprocess.run([FOLIOT, "queue", "list", "-s", broker.address], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT_S, check=False,
                              env=environment())
    SEEN.extend(done.stderr.splitlines())
    assert done.returncode == 1 and "could not write the output: No space left" in done.stderr, done
    with open("/dev/full", "wb") as full:
        done = subprocess.run([FOLIOT, "bench", "record", "-q", "m", "-c", "5", "-s",
                               broker.address], stdout=full, stderr=subprocess.PIPE, text=True,
                              timeout=LIMIT_S, check=False, env=environment())
    SEEN.extend(done.stderr.splitlines())
    assert done.returncode == 1 and "could not write the lines" in done.stderr, done


# ---- output ----

def a_list_has_all_forms(broker):
    table = ask(broker, "task", "list", "-q", "mail").splitlines()
    assert table[0].split() == ["ID", "QUEUE", "KEY", "STATE", "DUE", "ATTEMPT"], table
    assert len(table) == 8 and "\x1b" not in "".join(table), table
    wide = ask(broker, "task", "list", "-q", "mail", "-o", "wide").splitlines()
    assert "WHEN" in wide[0] and " ago" in wide[1] and "colour=red,size=9" in wide[1], wide[:2]
    names = ask(broker, "task", "list", "-q", "mail", "-o", "name").split()
    assert names == [line.split()[0] for line in table[1:]], names
    lines = [json.loads(line) for line
             in ask(broker, "task", "list", "-q", "mail", "-o", "jsonl").splitlines()]
    assert [line["id"] for line in lines] == names
    whole = json.loads(ask(broker, "task", "list", "-q", "mail", "-o", "json"))
    assert whole == {"tasks": lines, "nextPageToken": ""}, whole
    assert lines[0]["tags"] == {"colour": "red", "size": "9"}, lines[0]
    assert lines[0]["dueTime"] == "2026-01-02T03:04:05.678Z", lines[0]
    bare = ask(broker, "task", "list", "-q", "mail", "--columns", "state,id,when",
               "--no-headers").splitlines()
    assert len(bare) == 7 and bare[0].startswith("WAITING") and bare[0].endswith("ago"), bare


def an_empty_list_is_a_whole_document(broker):
    assert json.loads(ask(broker, "task", "list", "-q", "empty", "-o", "json")) == {
        "tasks": [], "nextPageToken": ""}
    assert ask(broker, "task", "list", "-q", "empty", "-o", "jsonl") == ""
    assert len(ask(broker, "task", "list", "-q", "empty").splitlines()) == 1
    assert ask(broker, "task", "list", "-q", "empty", "--no-headers") == ""


def a_list_is_cut_where_it_was_asked_to_be(broker):
    first = json.loads(ask(broker, "task", "list", "-q", "mail", "--limit", "3", "-o", "json"))
    assert len(first["tasks"]) == 3 and f"--page-token {first['nextPageToken']}" in ask.err, ask.err
    rest = json.loads(ask(broker, "task", "list", "-q", "mail", "-o", "json", "--page-token",
                          first["nextPageToken"]))
    assert len(rest["tasks"]) == 4 and ask.err == "", (rest, ask.err)
    everything = json.loads(ask(broker, "task", "list", "-q", "mail", "--limit", "0", "-o", "json"))
    assert first["tasks"] + rest["tasks"] == everything["tasks"]


def a_long_list_is_written_in_pieces_and_whole(broker):
    broker.extra = 9993
    whole = json.loads(ask(broker, "task", "list", "-q", "mail", "--limit", "0", "-o", "json"))
    assert len({task["id"] for task in whole["tasks"]}) == 10000
    table = ask(broker, "task", "list", "-q", "mail", "--limit", "0", "-o", "wide").splitlines()
    assert len(table) == 10001 and len({line.index("WAITING") for line in table[1:]}) <= 3
    cut = subprocess.run(f"{FOLIOT} task list --limit 0 -s {broker.address} | head -2", shell=True,
                         capture_output=True, text=True, timeout=LIMIT_S, check=False,
                         env=environment())
    assert cut.stderr == "" and len(cut.stdout.splitlines()) == 2, cut
    broker.extra = 0


def the_filter_goes_to_the_broker(broker):
    ask(broker, "task", "list", "-q", "mail", "-n", "shop", "--state", "WAITING,retrying", "--state",
        "ready", "--due-from", "2026-01-01T00:00:00Z", "--due-before", "2026-02-01 00:00", "--tag",
        "size=9", "--tag", "colour=red", "--with-payload")
    request = broker.last["List"]
    assert sorted(request.states) == [1, 2, 4], request
    assert (request.namespace, request.queue, request.with_payload) == ("shop", "mail", True)
    assert request.due_from.ToJsonString() == "2026-01-01T00:00:00Z", request
    assert request.due_before.ToJsonString() == "2026-02-01T00:00:00Z", request
    assert dict(request.tags) == {"size": "9", "colour": "red"}, request


def one_thing_is_a_line_for_each_column(broker):
    shown = record(ask(broker, "task", "get", ID))
    assert (shown["id"], shown["state"], shown["when"][-4:]) == (ID, "DEAD", " ago"), shown
    assert (shown["error"], shown["response"]) == ("no such user", "0 bytes"), shown
    assert ask(broker, "task", "get", ID, "--columns", "state,attempt") == "STATE  ATTEMPT\nDEAD   3\n"
    view = json.loads(ask(broker, "task", "get", ID, "-o", "json"))
    assert view["state"] == "TASK_STATE_DEAD" and view["error"] == "no such user", view
    assert ask(broker, "task", "get", ID, "-o", "name") == ID + "\n"


def answers_about_one_task_have_all_forms(broker):
    out = ask(broker, "task", "create", "-q", "mail", "--at", "1h")
    assert re.fullmatch(r"[0-9a-f]{3}-[0-9a-f]{16} created, due 2026-01-02T03:04:05.678Z\n", out), out
    assert re.search(r"\(\d+.* ago\)$", ask(broker, "task", "create", "-q", "m", "-o", "wide").strip())
    assert re.fullmatch(r"\S{20}\n", ask(broker, "task", "create", "-q", "mail", "-o", "name"))
    out = ask(broker, "task", "create", "-q", "mail", "--columns", "id,result", "--no-headers")
    assert re.fullmatch(r"\S{20}  created\n", out), out
    assert json.loads(ask(broker, "task", "run", ID, "-o", "json"))["mayBeRunningAttempt"] == 2
    out = ask(broker, "task", "run", ID)
    assert f"{ID} runs now, due " in out and "attempt 2 may be running: another one" in out, out
    out = ask(broker, "task", "update", ID, "--at", "1h")
    assert "attempt 2 may be running with the old payload" in out, out
    assert ask(broker, "task", "cancel", ID) == f"{ID} CANCELLED\n"


def headings_are_bold_for_eyes_that_want_it(broker):
    words = ("queue", "list", "-s", broker.address)
    assert "\x1b[1mNAMESPACE" in on_terminal(*words)[0]
    assert "\x1b" not in on_terminal(*words, env=environment(TERM="xterm", NO_COLOR="1"))[0]
    assert "\x1b" not in on_terminal(*words, env=environment(TERM="dumb"))[0]
    assert "\x1b[1m" in on_terminal(*words, env=environment(TERM="xterm", NO_COLOR=""))[0]


def times_are_shown_in_the_zone_that_was_asked_for(broker):
    words = ("task", "list", "-q", "mail", "--columns", "due", "--no-headers", "--limit", "1")
    assert ask(broker, *words) == "2026-01-02T03:04:05.678Z\n"
    assert ask(broker, *words, "--tz", "Europe/Paris") == "2026-01-02T04:04:05.678+01:00\n"
    tokyo = environment(TZ="Asia/Tokyo")
    assert ask(broker, *words, env=tokyo) == "2026-01-02T12:04:05.678+09:00\n"
    assert ask(broker, *words, "--utc", env=tokyo) == "2026-01-02T03:04:05.678Z\n"
    ask(broker, "task", "create", "-q", "m", "--at", "2026-07-01 09:00", "--tz", "Europe/Paris")
    assert broker.last["Create"].due_time.ToJsonString() == "2026-07-01T07:00:00Z"
    ask(broker, "task", "create", "-q", "m", "--at", "15m", "--expires", "2h", "--tag", "shop=7")
    request = broker.last["Create"]
    assert request.delay.seconds == 900 and dict(request.tags) == {"shop": "7"}, request
    assert abs(request.expire_time.seconds - time.time() - 7200) < 30, request
    out = json.loads(ask(broker, "task", "list", "-q", "mail", "-o", "json", env=tokyo))
    assert out["tasks"][0]["dueTime"] == "2026-01-02T03:04:05.678Z", "JSON has UTC"


# ---- watching ----

def watch_shows_it_again_and_again(broker):
    process = subprocess.Popen([FOLIOT, "queue", "list", "--watch", "--interval", "100ms", "-o",
                                "jsonl", "-s", broker.address], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env=environment())
    lines = [process.stdout.readline() for _ in range(3)]
    broker.fail_next = [("UNAVAILABLE", "AWAY", "away")] * 2
    while broker.fail_next:
        time.sleep(0.01)
    broker.fail_next = [("PERMISSION_DENIED", "NO", "no")]
    _, err = process.communicate(timeout=LIMIT_S)
    SEEN.extend(err.splitlines())
    assert len(set(lines)) == 1 and json.loads(lines[0])["name"] == "mail", lines
    assert err.count("UNAVAILABLE (AWAY): away") == 2 and process.returncode == 4, err


def watch_draws_over_on_a_terminal(broker):
    shown, code = on_terminal("queue", "list", "--watch", "--interval", "100ms", "-s", broker.address,
                              until=lambda text: text.count(b"\x1b[H") >= 4)
    assert code == -signal.SIGINT and shown.startswith("\x1b[2J\x1b[H"), (code, shown[:80])
    assert "mail" in shown and "\x1b[K\r\n" in shown and "\x1b[J" in shown, shown


def watch_of_a_task_follows_it_to_its_end(broker):
    broker.life = ["WAITING", "WAITING", "RUNNING", "RETRYING", "RUNNING", "DONE"]
    out = ask(broker, "task", "watch", ID, "--interval", "100ms", "--no-headers", "--columns", "state")
    assert out.split() == ["WAITING", "RUNNING", "RETRYING", "RUNNING", "DONE"], out
    broker.life = ["WAITING", "DEAD"]
    out = ask(broker, "task", "watch", ID, "--interval", "100ms", code=1)
    assert "no such user" in out and "DEAD" in out, out
    broker.life = ["RUNNING", "away", "away", "DONE"]
    lines = ask(broker, "task", "watch", ID, "--interval", "100ms", "-o", "json").splitlines()
    assert [json.loads(line)["state"][11:] for line in lines] == ["RUNNING", "DONE"], lines
    assert "watch: UNAVAILABLE" in ask.err, ask.err
    broker.life = ["RUNNING", "gone"]
    assert "GONE" in ask(broker, "task", "watch", ID, "--interval", "100ms")
    assert "it has ended; how is not kept: foliot queue update NAME --result-memory" in ask.err
    broker.life = ["gone"]
    ask(broker, "task", "watch", ID, code=3)
    assert "TASK_GONE" in ask.err, ask.err
    broker.life = []


def explain_says_what_a_task_waits_for(broker):
    shown = record(ask(broker, "task", "explain", ID))
    assert (shown["waits for"], shown["broker"]) == ("QUEUE_PAUSED", "b1"), shown
    assert shown["why"] == "the queue is paused; foliot queue resume ends it", shown
    whole = json.loads(ask(broker, "task", "explain", ID, "-o", "json"))
    assert whole["reason"] == "WAIT_REASON_QUEUE_PAUSED" and whole["task"]["id"] == ID, whole


# ---- queues and dead letters ----

def a_queue_is_paused_resumed_drained_and_deleted(broker):
    assert record(ask(broker, "queue", "pause", "mail", "--for", "1h"))["state"] == "PAUSED"
    assert broker.last["Pause"].duration.seconds == 3600
    ask(broker, "queue", "pause", "mail", "--until", "2026-01-02T03:04:05Z")
    assert broker.last["Pause"].until.ToJsonString() == "2026-01-02T03:04:05Z"
    assert broker.last["Pause"].name == "mail" and broker.last["Pause"].namespace == "default"
    ask(broker, "queue", "pause", "mail")
    assert broker.last["Pause"].WhichOneof("end") is None
    assert record(ask(broker, "queue", "drain", "mail"))["state"] == "DRAINING"
    assert record(ask(broker, "queue", "resume", "mail"))["state"] == "ACTIVE"
    out = ask(broker, "queue", "delete", "mail")
    assert out == "name    mail\nresult  deleted\nnot yet known to b2\n", out
    assert json.loads(ask(broker, "queue", "delete", "m", "-o", "json")) == {
        "unconfirmedBrokers": ["b2"]}


def a_queue_keeps_results_and_expires_its_tasks(broker):
    ask(broker, "queue", "create", "kept", "-t", "receiver://h:1", "--result-memory", "1h",
        "--expire-after", "5m")
    queue = broker.last["CreateQueue"].queue
    assert (queue.result_memory.seconds, queue.expire_after.seconds) == (3600, 300), queue
    shown = json.loads(ask(broker, "queue", "get", "mail", "-o", "json"))["queue"]
    assert shown["state"] == "QUEUE_STATE_ACTIVE" and shown["resultMemory"] == "0.000s", shown


def figures_of_a_queue_are_shown(broker):
    out = ask(broker, "queue", "stats", "mail")
    assert (record(out)["pending"], record(out)["dead"]) == ("7", "3"), out
    assert out.endswith("\nthere are more than were counted\n"
                        "2 shards did not answer: what is theirs is missing\n"), out
    whole = json.loads(ask(broker, "queue", "stats", "mail", "-o", "json"))
    assert whole["stats"]["pending"] == "7" and whole["stats"]["missingShards"] == [4, 9], whole
    assert whole["stats"]["isAtLeast"] is True, whole


def dead_letters_are_listed_and_grouped(broker):
    table = ask(broker, "dead", "list", "-q", "dead").splitlines()
    assert len(table) == 4 and table[1].endswith("no such user"), table
    ask(broker, "dead", "list", "-q", "dead", "--error", "user", "--with-payload", "-o", "name")
    request = broker.last["ListDead"]
    assert request.error_contains == "user" and request.with_payload, request
    first = json.loads(ask(broker, "dead", "list", "-q", "dead", "--limit", "2", "-o", "json"))
    assert f"there are more: --limit 0 shows all, --page-token {first['nextPageToken']}" in ask.err
    rest = json.loads(ask(broker, "dead", "list", "-q", "dead", "-o", "json", "--page-token",
                          first["nextPageToken"]))
    assert len(first["dead"]) == 2 and len(rest["dead"]) == 1 and rest["nextPageToken"] == "", rest
    whole = json.loads(ask(broker, "dead", "list", "-q", "dead", "-o", "json"))
    assert [letter["error"] for letter in whole["dead"]] == ["no such user"] * 3, whole
    out = ask(broker, "dead", "groups", "-q", "dead")
    assert re.search(r"^3 +no such user", out, re.M) and "counted 3, there are more" in ask.err, out
    whole = json.loads(ask(broker, "dead", "groups", "-q", "dead", "-o", "json"))
    assert whole["groups"][0]["count"] == "3" and whole["isPartial"] is True, whole


# ---- many at once ----

def a_dry_run_counts_and_changes_nothing(broker):
    broker.last.pop("BatchCancel", None)
    out = ask(broker, "task", "cancel", "-q", "mail", "--all", "--dry-run")
    assert "matched    7" in out and "cancelled  0" in out, out
    assert "BatchCancel" not in broker.last
    for verb in ("redrive", "purge"):
        out = ask(broker, "dead", verb, "-q", "dead", "--all", "--dry-run", "-o", "json")
        assert json.loads(out)["matched"] == "3", out
    assert "RedriveDead" not in broker.last and "PurgeDead" not in broker.last


def without_a_terminal_nothing_is_done_unasked(broker):
    ask(broker, "task", "cancel", "-q", "mail", "--state", "waiting", code=2)
    assert ("would cancel 7 tasks: namespace default, queue mail, state waiting; there is no terminal "
            "to ask on: add --yes to do it, or --dry-run to look") in ask.err, ask.err
    ask(broker, "dead", "purge", "-q", "dead", "--error", "user", code=2)
    assert 'would purge 3 dead letters: namespace default, queue dead, error with "user"' in ask.err
    ask(broker, "dead", "redrive", "-q", "dead", "--all", code=2)
    assert "would redrive all 3 dead letters: namespace default, queue dead; there is no" in ask.err
    for call in ("BatchCancel", "PurgeDead", "RedriveDead"):
        assert call not in broker.last, call


def whoever_means_it_types_the_count(broker):
    words = ("task", "cancel", "-q", "mail", "--tag", "size=9", "-s", broker.address)
    shown, code = on_terminal(*words, typed=b"y\n")
    assert "about to cancel 7 tasks: namespace default, queue mail, tag size=9" in shown, shown
    assert code == 1 and "that is not 7: nothing was changed" in shown, shown
    assert "BatchCancel" not in broker.last
    shown, code = on_terminal(*words, typed=b"7\n")
    assert code == 0 and "cancelled 7 of 7" in shown, (code, shown)
    assert len(broker.last["BatchCancel"].items) == 7
    shown, code = on_terminal("dead", "purge", "-q", "dead", "--all", "-s", broker.address, typed=b"3\n")
    assert code == 0 and "purged 3 of 3" in shown, (code, shown)


def scripts_say_yes(broker):
    out = json.loads(ask(broker, "task", "cancel", "-q", "mail", "--all", "--yes", "-o", "json"))
    assert out == {"matched": 7, "cancelled": 5, "stopped": 1, "gone": 1, "failed": 0}, out
    out = ask(broker, "task", "cancel", "-q", "empty", "--all", "--yes")
    assert "matched    0" in out, out
    out = ask(broker, "dead", "redrive", "-q", "dead", "--all", "--rate", "0.5", "--yes")
    assert out == "matched  3\nhandled  2\nskipped  1\n", out
    assert broker.last["RedriveDead"].rate_per_second == 0.5
    ask(broker, "dead", "purge", "-q", "dead", "--yes", ID)
    assert list(broker.last["PurgeDead"].ids) == [ID]


def what_could_not_be_done_is_said(broker):
    broker.item_fails = 2
    out = ask(broker, "task", "cancel", "-q", "mail", "--all", "--yes", code=1)
    broker.item_fails = 0
    assert "failed     2" in out, out
    assert "2 could not be cancelled, the first because: moving; try again" in ask.err, ask.err
    broker.fail_method = ("BatchCancel", "PERMISSION_DENIED")
    ask(broker, "task", "cancel", "-q", "mail", "--all", "--yes", code=4)
    assert "0 of 7 were cancelled before that; doing it again does no harm" in ask.err, ask.err
    broker.fail_method = ("PurgeDead", "PERMISSION_DENIED")
    ask(broker, "dead", "purge", "-q", "dead", "--all", "--yes", code=4)
    assert "0 of 3 were purged before that" in ask.err, ask.err
    broker.fail_method = None


def ten_thousand_are_cancelled_in_batches(broker):
    broker.extra = 10000
    out = json.loads(ask(broker, "task", "cancel", "-q", "mail", "--all", "--yes", "-o", "json"))
    broker.extra = 0
    assert out["matched"] == 10007 and out["cancelled"] > 9900, out
    assert max(broker.batches) <= 1000 and sum(broker.batches[-11:]) == 10007, broker.batches


# ---- contexts ----

def with_config():
    """A configuration folder of its own."""
    return tempfile.mkdtemp(prefix="config-", dir=HOME)


def contexts_are_kept_in_a_file_of_the_user(broker):
    folder = with_config()
    env = environment(XDG_CONFIG_HOME=folder)
    path = os.path.join(folder, "foliot", "contexts.yaml")
    out, err = run("context", "set", "prod", "-s", broker.address, "--namespace", "shop", env=env)
    assert out == "" and '"foliot context use prod" makes it the default' in err, err
    run("context", "set", "b-2", "--address", "h:1,[::1]:2", "--tz", "Europe/Paris", "--timeout", "3s",
        env=env)
    assert os.stat(path).st_mode & 0o777 == 0o600
    _, err = run("context", "use", "prod", env=env)
    assert 'context "prod" is in use' in err, err
    table = run("context", "list", env=env)[0].splitlines()
    assert re.fullmatch(r"- +b-2 +h:1,\[::1\]:2 +- +3s +Europe/Paris", table[1]), table
    assert re.fullmatch(r"\* +prod +127.0.0.1:\d+ +shop +- +-", table[2]), table
    whole = json.loads(run("context", "list", "-o", "json", env=env)[0])
    assert whole["contexts"][1] == {"name": "prod", "current": True, "address": broker.address,
                                    "namespace": "shop"}, whole
    run("task", "list", "-q", "mail", env=env)
    assert broker.last["List"].namespace == "shop"
    run("context", "set", "prod", "--namespace", "", env=env)
    run("task", "list", "-q", "mail", env=env)
    assert broker.last["List"].namespace == "default"
    _, err = run("context", "delete", "prod", env=env)
    assert 'context "prod" was in use; now none is' in err, err
    assert run("context", "list", "-o", "name", env=env)[0] == "b-2\n"
    home = environment(HOME=with_config())
    run("context", "set", "x", "-s", "h:1", env=home)
    assert os.path.exists(os.path.join(home["HOME"], ".config", "foliot", "contexts.yaml"))


def what_is_said_nearer_wins(broker):
    other = Broker()
    folder = with_config()
    env = environment(XDG_CONFIG_HOME=folder)
    run("context", "set", "here", "-s", broker.address, "--namespace", "ns-here", env=env)
    run("context", "set", "there", "-s", other.address, "--tz", "Asia/Tokyo", env=env)
    run("context", "use", "here", env=env)

    def asked(*words, **more):
        broker.last.clear()
        other.last.clear()
        out = run("task", "list", "-q", "mail", *words, env={**env, **more})[0]
        assert len(broker.last) + len(other.last) == 1, (broker.last, other.last)
        request = (broker.last or other.last)["List"]
        return ("here" if broker.last else "there"), request.namespace, "+09:00" in out

    assert asked() == ("here", "ns-here", False)
    assert asked(FOLIOT_CONTEXT="there") == ("there", "default", True)
    assert asked("--utc", FOLIOT_CONTEXT="there") == ("there", "default", False)
    assert asked(FOLIOT_ADDRESS=other.address) == ("there", "ns-here", False)
    assert asked(FOLIOT_SERVER=other.address) == ("there", "ns-here", False)
    assert asked(FOLIOT_ADDRESS=other.address, FOLIOT_SERVER=broker.address)[0] == "there"
    assert asked(FOLIOT_NAMESPACE="ns-env") == ("here", "ns-env", False)
    assert asked("--context", "there", FOLIOT_ADDRESS=broker.address)[0] == "there"
    assert asked("--context", "there", FOLIOT_CONTEXT="here")[0] == "there"
    assert asked("--context", "there", "-s", broker.address)[0] == "here"
    assert asked("-n", "ns-flag", FOLIOT_NAMESPACE="ns-env") == ("here", "ns-flag", False)
    other.stop()


def mistakes_about_contexts_are_said(_):
    folder = with_config()
    env = environment(XDG_CONFIG_HOME=folder)
    run("context", "set", "prod", "-s", "h:1", env=env)
    rows = [
        (("context", "set", "x"), "say what to set, for example --address HOST:PORT"),
        (("context", "set"), "name the context; foliot context list shows those there are"),
        (("context", "set", "X", "-s", "h:1"), "must be 1 to 63 of a-z 0-9 _ - (NAME_BYTES_MAX)"),
        (("context", "set", "x", "-s", "h"), '--address "h" must be host:port'),
        (("context", "set", "x", "-s", "h:1\n"), "--address has control characters in it"),
        (("context", "set", "x", "-s", "h:" + "1" * 1022), "CONTEXT_VALUE_BYTES_MAX"),
        (("context", "set", "x", "--timeout", "y"), '--timeout "y" must be a time like'),
        (("context", "set", "x", "--tz", "y"), '--tz "y" is no time zone'),
        (("context", "set", "prod", "-s", ""), 'nothing would be left of context "prod"'),
    ]
    for words, hint in rows:
        assert hint in refused(*words, env=env), (words, SEEN[-1])
    for words, hint in [
            (("context", "use", "prd"), 'there is no context "prd"; did you mean "prod"?'),
            (("context", "delete", "other"), "foliot context set other --address HOST:PORT makes"),
            (("task", "list", "--context", "x"), 'there is no context "x"; foliot context list')]:
        _, err = run(*words, env=env, code=3)
        assert hint in err, err
    _, err = run("task", "list", env={**env, "FOLIOT_CONTEXT": "y"}, code=3)
    assert 'there is no context "y" (FOLIOT_CONTEXT)' in err, err
    assert "set XDG_CONFIG_HOME or HOME" in refused("context", "set", "x", "-s", "h:1",
                                                    env=environment(HOME=""))


def a_broker_is_asked_by_tls(broker):
    authority, other = certs.Authority(), certs.Authority("other")
    secure = Broker(tls=authority.make("broker"))
    words = ("queue", "list", "-o", "name")
    trusting = ("--tls-ca", authority.ca)
    assert ask(secure, *words, *trusting) == "mail\n"
    assert ask(secure, *words, *trusting, "--tls", "on") == "mail\n"
    ask(secure, *words, code=6)
    for options in (("--tls", "on"), ("--tls-ca", other.ca),
                    (*trusting, "--tls-name", "elsewhere.example")):
        ask(secure, *words, *options, code=6)
        assert "list: UNAVAILABLE" in ask.err and "certificate" in ask.err, (options, ask.err)
    assert ask(secure, *words, *trusting, "--tls-name", "localhost") == "mail\n"
    ask(broker, *words, *trusting, code=6)
    env = environment(XDG_CONFIG_HOME=with_config())
    run("context", "set", "safe", "-s", secure.address, *trusting, env=env)
    run("context", "use", "safe", env=env)
    assert run(*words, env=env)[0] == "mail\n"
    run(*words, "--tls", "off", env=env, code=6)
    assert refused("context", "set", "x", "--tls-ca", "ca.pem").endswith(
        '--tls-ca "ca.pem" must begin with "/": a context is used in any folder')
    secure.stop()


def a_broker_that_wants_to_know_its_clients_is_shown_a_certificate(_):
    authority = certs.Authority()
    strict = Broker(tls=authority.make("broker"), clients_ca=authority.ca)
    words = ("queue", "list", "-o", "name", "--tls-ca", authority.ca)
    cert, key = authority.make("user")
    assert ask(strict, *words, "--tls-cert", cert, "--tls-key", key) == "mail\n"
    ask(strict, *words, code=6)
    address = ("--address", strict.address)
    for options, hint in [(("--tls-cert", cert), "key"), (("--tls-key", key), "cert"),
                          (("--tls-cert", "/nonexistent", "--tls-key", key), "/nonexistent"),
                          (("--tls-ca", "/nonexistent"), "/nonexistent")]:
        assert hint in refused(*words, *options, *address), (options, SEEN[-1])
    strict.stop()


def a_file_of_contexts_that_is_wrong_is_said_with_its_line(_):
    folder = with_config()
    env = environment(XDG_CONFIG_HOME=folder)
    path = os.path.join(folder, "foliot", "contexts.yaml")
    os.mkdir(os.path.dirname(path))

    def with_text(text):
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return refused("queue", "list", env=env)

    assert f"{path}:3: contexts.a.place: not known here; contexts.NAME has address" in with_text(
        "contexts:\n  a:\n    place: h:1\n"), SEEN[-1]
    assert f"{path}:1: colour: not known here" in with_text("colour: red\n"), SEEN[-1]
    assert f"{path}:" in with_text("contexts: [\n"), SEEN[-1]
    assert 'context "A" must be 1 to 63' in with_text("contexts: {A: {address: h:1}}\n"), SEEN[-1]
    assert "CONTEXT_FILE_BYTES_MAX" in with_text("#" * 65537), SEEN[-1]
    many = "contexts:\n" + "".join(f"  c{number}: {{address: h:1}}\n" for number in range(64))
    with open(path, "w", encoding="utf-8") as file:
        file.write(many)
    assert "there are 64 contexts, as many as there may be (CONTEXT_COUNT_MAX)" in refused(
        "context", "set", "one-more", "-s", "h:1", env=env)
    big = "contexts:\n" + "".join(f"  c{n}: {{address: 'h:{'1' * 1000}'}}\n" for n in range(63))
    with open(path, "w", encoding="utf-8") as file:
        file.write(big)
    assert "the contexts need more than 65536 bytes" in refused(
        "context", "set", "more", "-s", "h:" + "1" * 1000, "-n", "1" * 1000, env=env)
    os.unlink(path)
    os.mkdir(path)
    assert f'cannot read "{path}"' in refused("queue", "list", env=env), SEEN[-1]
    os.rmdir(path)
    os.symlink(path, path)
    assert f'cannot read "{path}": Too many levels' in refused("queue", "list", env=env), SEEN[-1]
    os.unlink(path)
    os.mkdir(path + ".new")
    _, err = run("context", "set", "x", "-s", "h:1", env=env, code=1)
    assert f'cannot write "{path}.new": Is a directory' in err, err
    os.rmdir(path + ".new")
    os.makedirs(os.path.join(path, "x"))
    # The folder stands where the file belongs: it can be neither read nor replaced.
    assert f'cannot read "{path}"' in refused("context", "list", env=env), SEEN[-1]


def commands_that_ask_no_broker_do_not_mind_a_bad_file(_):
    folder = with_config()
    os.mkdir(os.path.join(folder, "foliot"))
    with open(os.path.join(folder, "foliot", "contexts.yaml"), "w", encoding="utf-8") as file:
        file.write("]")
    env = environment(XDG_CONFIG_HOME=folder)
    assert run("version", env=env)[0].startswith("foliot ")
    assert run("help", env=env)[0] and run("completion", "bash", env=env)[0]


# ---- completion, version, receive, bench ----

def complete(*words, env=None):
    return set(run("__complete", *words, env=env)[0].split())


def the_shell_is_told_what_may_come_next(broker):
    assert {"task", "queue", "dead", "context", "help"} <= complete("")
    assert complete("task", "") >= {"create", "list", "watch"}
    assert "--key-policy" in complete("task", "create", "--") and "--server" not in complete(
        "task", "create", "-")
    assert complete("task", "create", "--key-policy", "") == {"keep", "reject", "replace"}
    assert complete("queue", "list", "-o", "") == {"table", "wide", "json", "jsonl", "name"}
    assert complete("completion", "") == {"bash", "zsh"}
    assert complete("help", "t") >= {"task"} and "list" in complete("help", "task", "")
    assert complete("task", "create", "--payload-file", "") == set(), "files are the shell's business"
    assert complete("bench", "") >= {"steady", "create-batch", "record"} and "" not in complete("bench", "")
    assert "--duration" in complete("bench", "--") and "--rate" not in complete("bench", "--")
    assert complete("nothing", "x", "") == set() and complete() == set()
    folder = with_config()
    env = environment(XDG_CONFIG_HOME=folder)
    run("context", "set", "prod", "-s", broker.address, env=env)
    assert complete("context", "use", "", env=env) == {"prod"}
    assert complete("task", "list", "--context", "", env=env) == {"prod"}
    assert "mail" in complete("queue", "get", "--context", "prod", "", env=env)
    assert "mail" in complete("task", "list", "-s", broker.address, "--queue", "", env=env)


def bash_completes_with_the_script(broker):
    script = (f"PATH={os.path.dirname(FOLIOT)}:$PATH; eval \"$(foliot completion bash)\"; "
              "complete -p foliot; COMP_WORDS=(foliot task wa); COMP_CWORD=2; _foliot; "
              "echo \"=${COMPREPLY[*]}\"; "
              f"COMP_WORDS=(foliot queue get -s {broker.address} ma); COMP_CWORD=5; _foliot; "
              "echo \"=${COMPREPLY[*]}\"")
    done = subprocess.run(["bash", "--norc", "-c", script], capture_output=True, text=True,
                          timeout=LIMIT_S, check=False, env=environment())
    assert "\n=watch\n=mail\n" in done.stdout and done.stderr == "", done
    out = run("completion", "zsh")[0]
    assert out.startswith("#compdef foliot\n"), out
    if shutil.which("zsh"):
        subprocess.run(["zsh", "-n"], input=out, text=True, check=True)


def the_version_has_all_forms(_):
    version = run("version")[0].split()[1]
    assert run("--version")[0] == f"foliot {version}\n"
    assert json.loads(run("version", "-o", "json")[0]) == {"version": version, "api": "foliot.v1"}
    assert run("version", "-o", "name")[0] == version + "\n"


def receive_says_why_it_cannot_listen(_):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        _, err = run("receive", "--port", port, code=5)
        assert f"cannot listen on 127.0.0.1 port {port}: the port is taken; choose another" in err
    _, err = run("receive", "--port", "0", "--address", "192.0.2.1", code=1)
    assert "cannot listen on 192.0.2.1 port 0" in err, err


def bench_says_what_failed(broker):
    broker.fail_always = "PERMISSION_DENIED"
    _, err = run("bench", "record", "-q", "m", "-c", "3", "-s", broker.address, code=1)
    broker.fail_always = None
    assert "create: PERMISSION_DENIED (SOME_REASON): as the test wants it" in err, err


def bench_needs_a_place_to_receive(broker):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ask(broker, "bench", "create", "--receiver-port", port, code=5)
        assert f"cannot listen on 127.0.0.1 port {port}: the port is taken" in ask.err, ask.err
    ask(broker, "bench", "create", "--receiver", "localhost", code=2)
    assert "cannot listen on localhost port 0: not a numeric address" in ask.err, ask.err
    run("bench", "create", "-s", dead_address(), "--timeout", "1s", code=6)


def bench_counts_what_failed_and_says_what_it_left(broker):
    few = ("bench", "create", "-c", "5", "--warmup", "0s", "-o", "json")
    broker.fail_method = ("Create", "PERMISSION_DENIED")
    result = json.loads(ask(broker, *few, code=1))["runs"][0]
    assert result["calls"][0]["failed"] == 5 and result["awaited"] == 0, result
    broker.fail_method = ("Drain", "PERMISSION_DENIED")
    ask(broker, *few, code=4)
    assert "drain the queue of the benchmark: PERMISSION_DENIED" in ask.err, ask.err
    broker.fail_method = ("Delete", "PERMISSION_DENIED")
    ask(broker, *few, code=4)
    assert "left behind: queue bench-" in ask.err, ask.err
    broker.fail_method = None
    ask(broker, "bench", "cancel", "-c", "5", "-d", "1s", code=1)
    assert "--delay must be above --await (default 1h, PLAN_AWAIT_MS)" in ask.err, ask.err
    # This broker says that all were due long ago, and sends none of them.
    result = json.loads(ask(broker, *few, code=1))["runs"][0]
    assert result["missing"] == 5 and result["received"] == 0, result


def bench_counts_an_answer_from_its_planned_moment(broker):
    """A schedule does not wait for answers: one that could not be sent in time is as late as that."""
    broker.hang_s = 0.1
    path = os.path.join(HOME, "lines")
    words = ("bench", "record", "-q", "m", "-c", "10", "--outstanding", "1", "--out", path, "-o", "json")
    planned = json.loads(ask(broker, *words, "--rate", "100"))
    closed = json.loads(ask(broker, *words))
    broker.hang_s = 0
    # Of ten calls of 0.1 s one after the other, the last was planned at 0.09 s and ends after 1 s.
    assert planned["answerMaxUs"] > 850_000, planned
    assert closed["answerMaxUs"] < planned["answerMaxUs"], (planned, closed)
    assert planned["answerP50Us"] > 2 * closed["answerP50Us"], (planned, closed)


# ---- the source ----

TEXT = r'"(?:[^"\\]|\\.)*"'
# What no test can bring about from outside: memory and descriptors run out, the kernel refuses.
UNREACHABLE = [
    "out of memory", "no event loop: out of memory or descriptors",
    "no resolver: out of memory or descriptors", "cannot watch signals", "cannot serve: %s",
    "out of memory for %d ids; nothing was changed", "the load: %s", 'could not write "%s"',
    "no memory for a payload of %lld bytes", "no memory for a queue", "the receiver cannot serve: %s",
    "no event loop for the receiver: out of memory or descriptors",
    "out of memory for the ids of tasks: some are left in queue %s",
    "the name of the task is too long",  # its parts have limits that are checked before
    "%s: the request has more than %d bytes (RPC_MESSAGE_BYTES_MAX)",  # and so have those of these
    'address "%s": %s', "more than %d options (ARGS_ITEM_COUNT_MAX)",
    "more than %d tasks match (BULK_COUNT_MAX); nothing was changed: narrow the filter, for example "
    "by --due-before",  # a million tasks; BULK_COUNT_MAX is seen in the source
]


def messages():
    """(file, format) of each complaint in the source of the command."""
    for path in sorted(glob.glob(os.path.join(SOURCE, "client", "cli", "*.c"))):
        with open(path, encoding="utf-8") as source:
            text = source.read()
        for found in re.finditer(r"cli_(?:usage|say)\(\s*((?:" + TEXT + r"|\s|PRI\w+)+)", text):
            parts = re.findall(TEXT + r"|PRI\w+", found.group(1))
            form = "".join(part[1:-1] if part[0] == '"' else "d" for part in parts)
            yield os.path.basename(path), form.replace('\\"', '"')


def pattern_of(form):
    parts = re.split(r"%[-+ 0-9.*l]*(?:z?u|d|s)", form)
    return re.compile("(?:foliot: )?" + ".*".join(re.escape(part) for part in parts), re.S)


def every_message_of_the_source_was_met(_):
    found = list(messages())
    assert len(found) > 90, len(found)
    missing = [(path, form) for path, form in found
               if form not in UNREACHABLE and form not in ("%s", "%.*s")
               and not any(pattern_of(form).fullmatch(line.rstrip()) for line in SEEN)]
    assert not missing, "no case has met: " + "; ".join(f"{path}: {form}" for path, form in missing)


CASES = [value for value in list(globals().values())
         if callable(value) and getattr(value, "__module__", "") == "__main__"
         and value.__code__.co_argcount == 1 and value.__code__.co_varnames[0] in ("broker", "_")
         and not value.__code__.co_flags & 4]  # no *words


def main():
    broker = Broker()
    wanted = sys.argv[1:]
    passed = failed = 0
    for case in CASES:
        if wanted and case.__name__ not in wanted:
            continue
        try:
            broker.reset()
            case(broker)
            passed += 1
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {error}")
    broker.stop()
    shutil.rmtree(HOME, ignore_errors=True)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
