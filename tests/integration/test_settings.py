#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Settings of foliotd that are wrong: each mistake is one line that says where it is, what is wrong,
and what would be right; exit status 2 and nothing on standard output. The last case reads the
messages from the source and fails for one that no case has met. Ends with "N passed, N failed"."""
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLIOTD = os.environ["FOLIOT_PROGRAM_FOLIOTD"]
SOURCE = os.environ["FOLIOT_SOURCE_DIR"]
FOLDER = tempfile.mkdtemp(prefix="foliot-settings-")
GOOD = ("--databases", "db0=dbname=foliot")
SEEN = []  # all that went to standard error


def check(*flags, code=2, **variables):
    """foliotd --check-config; its lines."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("FOLIOT_")}
    done = subprocess.run([FOLIOTD, "--check-config", *flags], capture_output=True, timeout=20,
                          check=False, env={**env, **variables})
    lines = done.stderr.decode(errors="replace").splitlines()
    SEEN.extend(lines)
    assert done.returncode == code and done.stdout == b"", (flags, done)
    return lines


def wrong(hint, *flags, **variables):
    """One mistake: its line, and the last one that says what to do."""
    lines = check(*flags, **variables)
    assert len(lines) == 2 and hint in lines[0], (flags, hint, lines)
    assert lines[1] == "foliotd: the settings cannot be used; see foliotd --help", lines
    return lines[0]


def file_of(text, name="foliotd.yaml"):
    path = os.path.join(FOLDER, name)
    with open(path, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())
    return path


def yaml(hint, text):
    """A mistake in a file, beside settings that are good."""
    path = file_of(text)
    line = wrong(hint, *GOOD, "--config", path)
    assert line.startswith(f"{path}:"), line
    return line


def good_settings_are_said_to_be_good():
    assert check(*GOOD, code=0) == ["foliotd: the settings are good"]
    path = file_of("databases: [db0=dbname=foliot]\nlog:\n  level: warn\n")
    assert check("--config", path, code=0)[-1] == "foliotd: the settings are good"
    assert check(code=0, FOLIOT_CONFIG=path)[-1] == "foliotd: the settings are good"


def flags_that_are_wrong_are_said():
    rows = [
        ("--log-levl: unknown flag; did you mean --log-level?", ("--log-levl", "info")),
        ("--frobnicate: unknown flag", ("--frobnicate=1",)),
        ("-x: unknown flag", ("-x",)),
        ("--name: needs a value: --name NAME", ("--name",)),
        ("--log-level: log.level must be one of debug|info|warn|error", ("--log-level", "loud")),
        ("--limits-streams: limits.streams must be a whole number from 1 to 10000",
         ("--limits-streams", "many")),
        ("from 1 to 10000", ("--limits-streams", "10001")),
        ("drain.timeout must be a time with its unit (ms, s, m, h, d) from 100ms to 1h",
         ("--drain-timeout", "25")),
        ("from 100ms to 1h", ("--drain-timeout=99999999999999999999d",)),
        ("name must have 0 to 255 bytes", ("--name", "n" * 256)),
        ("name must be printable ASCII", ("--name", "\u00e4")),
        ("targets.allow must have items of 1 to 4096 bytes", ("--targets-allow", "a" * 4097)),
        ("targets.allow must have at most 256 items", ("--targets-allow", ",".join("a" * 257))),
        ("databases must have at most ", ("--databases", ";".join(f"d{n}=dbname=x"
                                                                  for n in range(100)))),
        ("listen must be a numeric address with its port, as 127.0.0.1:7400 or [::1]:7400",
         ("--listen", "localhost:7400")),
        ("admin.listen must be a numeric address", ("--admin-listen", "7401")),
        ("advertise must be host:port with a port above 0", ("--advertise", "host:0")),
        ("advertise must be set when listen is a wildcard", ("--listen", "0.0.0.0:7400")),
        ("advertise must be set when listen is a wildcard", ("--listen", "[::]:7400")),
        ("name must be of letters, digits and . _ : - [ ]", ("--name", "a b")),
        ("cluster.name must be of a-z, 0-9 and . _ -, and begin with", ("--cluster-name", "-a")),
        ("zookeeper.root must be a path as /foliot, without a slash at its end",
         ("--zookeeper-root", "/foliot/")),
        ("zookeeper.auth must be USER:PASSWORD", ("--zookeeper-auth", "nobody")),
        ("zookeeper.auth must be USER:PASSWORD", ("--zookeeper-auth", ":secret")),
        ("zookeeper.hosts must be host:port, several parted by commas",
         ("--zookeeper-hosts", "a:1, b:2")),
        ("databases must be name=conninfo each, as db0=host=127.0.0.1",
         ("--databases", "db1=nothing")),
        ("databases must not use a name twice", ("--databases", "db0=dbname=other")),
        ("tls.client_certificates needs tls.cert, tls.key and, to check them by, tls.ca",
         ("--tls-client-certificates", "required")),
        ("tls.key must be set together with tls.cert", ("--tls-cert", "/x")),
        ("targets.tls_key must be set together with targets.tls_cert", ("--targets-tls-key", "/x")),
        ("targets.keepalive must be 0 for never, or at least 10s", ("--targets-keepalive", "1s")),
        ("targets.allow must be patterns of host:port, as *.example.com:443",
         ("--targets-allow", "a b")),
        ("targets.allow must be patterns of host:port, as *.example.com:443",
         ("--targets-allow", "10.0.0.1")),
    ]
    for hint, flags in rows:
        wrong(hint, *GOOD, *flags)
    wrong("databases must name at least one, as db0=host=127.0.0.1 dbname=foliot")


def all_mistakes_are_said_at_once():
    path = file_of("log: {level: loud}\ncolour: red\n")
    lines = check("--config", path, "--limits-streams", "0", FOLIOT_LIMITS_CALLS="none")
    assert len(lines) == 5, lines
    for line, where in zip(lines, (f"{path}:1: log.level", f"{path}:2: unknown key",
                                   "FOLIOT_LIMITS_CALLS: limits.calls", "--limits-streams: ")):
        assert line.startswith(where), lines


def variables_that_are_wrong_are_said():
    wrong("FOLIOT_LOG_LEVEL: log.level must be one of", *GOOD, FOLIOT_LOG_LEVEL="loud")
    lines = check(*GOOD, code=0, FOLIOT_LOG_LEVL="warn", FOLIOT_PORT="tcp://1.2.3.4:1")
    assert ("FOLIOT_LOG_LEVL: not a setting of ours, ignored; did you mean the variable of log.level?"
            in lines), lines
    assert "FOLIOT_PORT: not a setting of ours, ignored" in lines, lines
    wrong("FOLIOT_DATABASES: also given by FOLIOT_DATABASES_FILE; keep one of them",
          FOLIOT_DATABASES="db0=dbname=x", FOLIOT_DATABASES_FILE="/x")
    wrong("/nonexistent: cannot be opened: No such file", FOLIOT_DATABASES_FILE="/nonexistent")
    secret = file_of("db0=dbname=foliot password=x\n", "secret")
    assert check(code=0, FOLIOT_DATABASES_FILE=secret)[-1].endswith("are good")
    wrong("cannot be read, or is longer than 262144 bytes",
          FOLIOT_DATABASES_FILE=file_of("x" * 262145, "long"))


def files_that_are_wrong_are_said_with_the_line():
    wrong("/nonexistent: cannot be opened: No such file or directory", *GOOD, "--config",
          "/nonexistent")
    wrong("/: cannot be read, or is longer than", *GOOD, "--config", "/")
    rows = [
        (':2: unknown key "log.levels"; did you mean log.level?', "log:\n  levels: info\n"),
        (':1: unknown key "frobnicate"', "frobnicate: 1\n"),
        (':1: unknown key "log"; did you mean log.level?', "log: debug\n"),
        (":1: log.level must be one value, not a list", "log.level: [info]\n"),
        (':3: key "log.level" is given twice', "log:\n  level: info\nlog.level: warn\n"),
        (':1: "name" has no value; write "" for an empty one', "name:\n"),
        (':1: "name" has no value', "name: ~\n"),
        (":1: a key is empty or has a NUL byte", '"": 1\n'),
        (":1: a key is longer than 128 bytes", "k" * 129 + ": 1\n"),
        (':1: the value of "name" has a NUL byte', 'name: "a\\0b"\n'),
        (':1: "targets.allow" has more than 256 items',
         "targets.allow: [" + ",".join("a" * 257) + "]\n"),
        (':1: the value of "name" is too long', "name: " + "n" * 70000 + "\n"),
        (":1: anchors and tags are not supported", "name: &a b\n"),
        (":1: anchors and tags are not supported", "log: &a {level: info}\n"),
        (":1: anchors and tags are not supported", "targets.allow: !x [a]\n"),
        (":1: aliases are not supported", "name: *a\n"),
        (':1: expected "key: value" lines', "just text\n"),
        (':1: expected "key: value" lines', "- a\n"),
        (':1: "targets.allow" takes plain texts as items', "targets.allow: [{a: b}]\n"),
        (':1: "targets.allow" takes plain texts as items', "targets.allow: [[a]]\n"),
        (":1: a key cannot be a mapping", "? {a: b}\n: c\n"),
        (":1: a key cannot be a list", "? [a]\n: c\n"),
        (':1: "a.b.c.d" is nested deeper than 4 levels', "a: {b: {c: {d: {e: f}}}}\n"),
        (":2: more than one document", "name: a\n---\nname: b\n"),
        (":1: longer than 262144 bytes", "#" * 262144 + "\n"),
    ]
    for hint, text in rows:
        if hint == ":1: longer than 262144 bytes":
            wrong("cannot be read, or is longer than 262144 bytes", *GOOD, "--config", file_of(text))
        else:
            yaml(hint, text)
    yaml(":2: did not find expected node content", "name: [\n")
    many = check(*GOOD, "--config", file_of("".join(f"k{n}: 1\n" for n in range(257))))
    assert any(":257: more than 256 keys" in line for line in many), many[-2:]


# ---- the source ----

TEXT = r'"(?:[^"\\]|\\.)*"'
CALLS = re.compile(r"(?:errmsg, errmsg_size|why, sizeof\(why\)|errors|refuse\(f, [^\"]*?|wrong\([^\"]*\"[a-z._]+\"|"
                   r"warnings),\s*((?:" + TEXT + r"|\s|PRI\w+)+)")
# Read by nobody: the file is refused before by its size; what libyaml says is its own.
UNREACHABLE = ["longer than %d bytes", "%s", "\\n", "%s:%zu: %s\\n", "%s: %s %s\\n"]


def messages():
    """(file, format) of each complaint in the source."""
    paths = glob.glob(os.path.join(SOURCE, "broker", "config*.c"))
    for path in sorted(paths) + sorted(glob.glob(os.path.join(SOURCE, "lib", "yaml", "*.c"))):
        if path.endswith(("config_manual.c", "config_table.c")):
            continue
        with open(path, encoding="utf-8") as source:
            text = source.read()
        for found in CALLS.finditer(text):
            parts = re.findall(TEXT + r"|PRI\w+", found.group(1))
            form = "".join(part[1:-1] if part[0] == '"' else "d" for part in parts)
            if " " in form or form == "\\n":  # one word is the name of a setting, not a message
                yield os.path.basename(path), form.replace('\\"', '"')


def pattern_of(form):
    parts = re.split(r"%[-+ 0-9.*l]*(?:z?u|d|s)", form.removesuffix("\\n"))
    return re.compile(".*".join(re.escape(part) for part in parts))


def every_message_of_the_source_was_met():
    found = sorted(set(messages()))
    assert len(found) > 35, found
    missing = [(path, form) for path, form in found
               if form not in UNREACHABLE and not any(pattern_of(form).search(line)
                                                      for line in SEEN)]
    assert not missing, f"no case has met: {missing}"


CASES = [good_settings_are_said_to_be_good, flags_that_are_wrong_are_said,
         all_mistakes_are_said_at_once, variables_that_are_wrong_are_said,
         files_that_are_wrong_are_said_with_the_line, every_message_of_the_source_was_met]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {error}")
    shutil.rmtree(FOLDER, ignore_errors=True)
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
