#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The .proto files are in order, and nothing that was released has changed its meaning: `buf lint`,
`buf breaking` against proto/released.binpb, and our own rules (proto/README.md). With --release the
image is written anew: that is done once for a release, and only then. Ends with "N passed, N failed"."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from google.protobuf import descriptor_pb2

import node
from peer import case, main

PROTO = pathlib.Path(__file__).resolve().parent.parent.parent / "proto"
RELEASED = PROTO / "released.binpb"
# protoc-c makes functions of methods and members of fields.
KEYWORDS = set("""auto break case char const continue default do double else enum extern float for goto
if inline int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while""".split())
ON_OUTPUT_ONLY = {"google.protobuf.Any"}


def image(folder=PROTO):
    """buf's image of a folder, with all that it imports."""
    with tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "image.binpb")
        done = node.buf("build", str(folder), "-o", path, "--exclude-source-info")
        assert done.returncode == 0, done.stderr
        return pathlib.Path(path).read_bytes()


def files(data):
    return descriptor_pb2.FileDescriptorSet.FromString(data).file


def messages(file):
    """Every message of a file with its full name, nested ones too."""
    pairs = [(f"{file.package}.{one.name}", one) for one in file.message_type]
    while pairs:
        name, message = pairs.pop()
        yield name, message
        pairs += [(f"{name}.{one.name}", one) for one in message.nested_type]


def broken(change):
    """What `buf breaking` says of a copy of the protos in which `change` has rewritten a file."""
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch) / "proto"
        shutil.copytree(PROTO, folder)
        path, pattern, text = change
        old = (folder / path).read_text()
        new, count = re.subn(pattern, text, old, count=1)
        assert count == 1, f"{pattern} is not in {path}"
        (folder / path).write_text(new)
        return node.buf("breaking", str(folder), "--against", str(RELEASED))


@case
def buf_finds_nothing_to_complain_about():
    done = node.buf("lint", str(PROTO))
    assert done.returncode == 0, done.stdout + done.stderr


@case
def nothing_released_has_changed():
    done = node.buf("breaking", str(PROTO), "--against", str(RELEASED))
    assert done.returncode == 0, done.stdout + done.stderr


@case
def a_change_of_what_was_released_is_found():
    for change in (("foliot/v1/task.proto", r"string key = 6;", "string key = 66;"),
                   ("foliot/v1/task.proto", r"bytes payload = 5;", "string payload = 5;"),
                   ("foliot/v1/task.proto", r"string id = 1;  .*\n", "string task_id = 1;\n"),
                   ("foliot/v1/task.proto", r"  rpc Update\(.*\n", ""),
                   ("foliot/v1/task.proto", r"KEY_POLICY_REJECT = 2;", "KEY_POLICY_REJECT = 9;"),
                   ("foliot/v1/queue.proto", r"string target = 3;", ""),
                   ("foliot/v1/receiver.proto", r"repeated AttemptResult results", "AttemptResult results")):
        done = broken(change)
        assert done.returncode == 100, f"not found: {change}: {done.stderr}"


@case
def an_addition_is_no_break():
    done = broken(("foliot/v1/task.proto", r"message CreateTaskResponse \{", "\\g<0>\n  string more = 99;"))
    assert done.returncode == 0, done.stdout


@case
def protobuf_c_can_take_them():
    """No `optional`, no recursion, no dynamic types in requests, no method called like a C keyword."""
    for file in files(image()):
        if not file.name.startswith("foliot/"):
            continue
        for service in file.service:
            for method in service.method:
                assert method.name.lower() not in KEYWORDS, (file.name, method.name)
        for name, message in messages(file):
            for field in message.field:
                assert not field.proto3_optional, f"{name}.{field.name}: no `optional`"
                assert field.type_name.lstrip(".") not in ON_OUTPUT_ONLY, f"{name}.{field.name}"
                assert field.type_name != "." + name, f"{name}.{field.name} is recursive"
                assert not field.type_name.startswith((".google.protobuf.Struct",
                                                       ".google.protobuf.Value")), field


@case
def enums_begin_with_unspecified_and_values_with_the_enum():
    for file in files(image()):
        if not file.name.startswith("foliot/"):
            continue
        for enum in file.enum_type:
            prefix = re.sub(r"(?<!^)(?=[A-Z])", "_", enum.name).upper() + "_"
            assert (enum.value[0].name, enum.value[0].number) == (prefix + "UNSPECIFIED", 0), enum
            assert all(value.name.startswith(prefix) for value in enum.value), enum


# ---- the pages say what there is ----

DOCS = PROTO.parent / "docs"
# The words that are given as the reason of a fault.
REASON = re.compile(r'(?:fault_set|refuse\w*|complain\w*)\s*\([^;"]*"([A-Z]+(?:_[A-Z]+)+)"|'
                    r'#define REASON_\w+\s+"(\w+)"')
# Of answers that brokers cannot read, in the command and in libfoliot.
NOT_ON_THE_WIRE = {"REPLY_INVALID"}


@case
def the_protocol_page_names_every_method():
    page = (DOCS / "PROTOCOL.md").read_text()
    for file in files(image()):
        if file.package != "foliot.v1":
            continue
        for service in file.service:
            if not service.name.endswith("Service"):
                continue  # What users implement: docs/TARGETS.md.
            section = page.split(f"### {service.name}\n")[1].split("\n##")[0]
            for method in service.method:
                assert re.search(rf"^\|[^|]*\b{method.name}\b", section, re.M), (
                    f"docs/PROTOCOL.md: {service.name} has no row for {method.name}")


@case
def every_reason_is_explained():
    pages = "".join((PROTO.parent / name).read_text() for name in (
        "docs/ERRORS.md", "proto/README.md", "docs/TARGETS.md"))
    count = 0
    for folder in ("broker", "proto"):
        for path in sorted((PROTO.parent / folder).rglob("*.[ch]")):
            for one, other in REASON.findall(path.read_text()):
                reason = one or other
                count += 1
                assert reason in pages or reason in NOT_ON_THE_WIRE, f"{path}: {reason}"
    assert count > 40, count


@case
def the_protocol_page_names_tests_that_exist():
    page = (DOCS / "PROTOCOL.md").read_text()
    rows = [row for row in page.splitlines() if row.startswith("| ") and not row.startswith("|--")]
    names = {name for row in rows for name in re.findall(r"`((?:test|interop|race|chaos)\w*)", row.split("|")[-2])}
    known = "".join(path.read_text() for path in (PROTO.parent / "tests").rglob("CMakeLists.txt"))
    assert len(names) > 8, names
    for name in names:
        assert re.search(rf"NAME {name}", known), f"docs/PROTOCOL.md names {name}"


def write_release():
    RELEASED.write_bytes(image())
    print(f"{RELEASED}: {len(files(RELEASED.read_bytes()))} files")


if __name__ == "__main__":
    if sys.argv[1:] == ["--release"]:
        write_release()
    else:
        main(sys.argv[1:])
