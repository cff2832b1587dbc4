#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The JSON codec of python3-protobuf as judge of ours: thousands of random messages of every type of
the API and of one that has every kind of field, both ways. Ends with "N passed, N failed"."""
import json
import math
import os
import random
import subprocess
import sys

from google.protobuf import json_format
from google.protobuf.descriptor import FieldDescriptor as Field

import stubs
from peer import case, main

stubs.generate()
stubs.generate_from(os.path.join(os.environ["FOLIOT_SOURCE_DIR"], "tests/lib"), "proto/kinds.proto")
from foliot.v1 import cluster_pb2, queue_pb2, task_pb2  # noqa: E402,F401  pylint: disable=W0611
from proto import kinds_pb2  # noqa: E402
from google.protobuf import descriptor_pool, message_factory  # noqa: E402

SEED = 20260102
ROUNDS = int(os.environ.get("JSON_ROUNDS", "40"))
TIME_MIN, TIME_MAX, SPAN_MAX = -62135596800, 253402300799, 315576000000
WORDS = ["", "a", "\u00e4", "\u4e2d\u6587", "\U0001f600", "quote\" back\\slash", "tab\tline\nnul-free\x01",
         "</script>", "\u2028", "x" * 300, "\x7f", "0", "true"]
FLOATS = [0.0, 1.0, -1.5, 0.1, 1e-30, 3.4028232e38, math.inf, -math.inf, math.nan, 16777217.0]

random_ = random.Random(SEED)


class Codec:
    """json_peer as a child."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["FOLIOT_PROGRAM_JSON_PEER"]],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def line(self, text):
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"json_peer has died of {text[:200]}"
        return answer.strip()

    def ask(self, verb, name, data):
        """The bytes, or the words of a refusal."""
        answer = self.line(f"{verb} {name} {data.hex()}").split(" ")
        return bytes.fromhex(answer[1] if len(answer) > 1 else "") if answer[0] == "ok" else answer

    def read(self, message_type, text):
        answer = self.ask("read", message_type.DESCRIPTOR.full_name, text.encode())
        assert isinstance(answer, bytes), f"{answer}: {text}"
        return message_type.FromString(answer)

    def write(self, message):
        answer = self.ask("write", message.DESCRIPTOR.full_name, message.SerializeToString())
        assert isinstance(answer, bytes), f"{answer}: {message}"
        return answer.decode()

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(20) == 0, "json_peer leaks or has failed"


def types():
    """The message classes that json_peer knows."""
    codec = Codec()
    names = sorted(set(codec.line("types").split(" ")))
    codec.end()
    pool = descriptor_pool.Default()
    factory = message_factory.MessageFactory(pool)
    return [factory.GetPrototype(pool.FindMessageTypeByName(name)) for name in names]


def whole(bits, is_signed):
    low = -(1 << bits - 1) if is_signed else 0
    high = (1 << bits - (1 if is_signed else 0)) - 1
    return random_.choice([low, high, 0, 1, min(2**53 + 1, high), random_.randint(low, high)])


MAKE = {
    Field.TYPE_INT32: lambda field: whole(32, True), Field.TYPE_SINT32: lambda field: whole(32, True),
    Field.TYPE_SFIXED32: lambda field: whole(32, True),
    Field.TYPE_INT64: lambda field: whole(64, True), Field.TYPE_SINT64: lambda field: whole(64, True),
    Field.TYPE_SFIXED64: lambda field: whole(64, True),
    Field.TYPE_UINT32: lambda field: whole(32, False),
    Field.TYPE_FIXED32: lambda field: whole(32, False),
    Field.TYPE_UINT64: lambda field: whole(64, False),
    Field.TYPE_FIXED64: lambda field: whole(64, False),
    Field.TYPE_BOOL: lambda field: random_.random() < 0.5,
    Field.TYPE_STRING: lambda field: random_.choice(WORDS),
    Field.TYPE_BYTES: lambda field: random_.randbytes(random_.choice([0, 1, 2, 3, 4, 50])),
    Field.TYPE_FLOAT: lambda field: random_.choice(FLOATS),
    Field.TYPE_DOUBLE: lambda field: random_.choice(FLOATS + [
        random_.uniform(-1e300, 1e300), 5e-324, 1.7976931348623157e308, random_.random()]),
    # An open enum holds numbers without a name too.
    Field.TYPE_ENUM: lambda field: random_.choice(
        [value.number for value in field.enum_type.values] + [77]),
}


def fill(message, depth=0):
    """Give most fields of a message random values."""
    name = message.DESCRIPTOR.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = random_.choice([0, TIME_MIN, TIME_MAX, random_.randint(TIME_MIN, TIME_MAX)])
        message.nanos = random_.choice([0, 500000000, 1000, 1, 999999999])
        return
    if name == "google.protobuf.Duration":
        message.seconds = random_.choice([0, SPAN_MAX, random_.randint(0, SPAN_MAX)])
        message.nanos = random_.choice([0, 500000000, 1000, 1, 999999999])
        if random_.random() < 0.3:
            message.seconds, message.nanos = -message.seconds, -message.nanos
        return
    for field in message.DESCRIPTOR.fields:
        if random_.random() < 0.7:
            fill_field(message, field, depth)


def fill_field(message, field, depth):
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        fill_map(getattr(message, field.name), entry, depth)
    elif field.label == Field.LABEL_REPEATED:
        for _ in range(random_.choice([0, 1, 3])):
            if field.type == Field.TYPE_MESSAGE:
                fill(getattr(message, field.name).add(), depth + 1)
            else:
                getattr(message, field.name).append(MAKE[field.type](field))
    elif field.type == Field.TYPE_MESSAGE:
        getattr(message, field.name).SetInParent()
        fill(getattr(message, field.name), depth + 1)
    else:
        setattr(message, field.name, MAKE[field.type](field))


def fill_map(entries, entry, depth):
    key, value = entry.fields_by_name["key"], entry.fields_by_name["value"]
    for _ in range(random_.choice([0, 1, 3])):
        if value.type == Field.TYPE_MESSAGE:
            fill(entries[MAKE[key.type](key)], depth + 1)
        else:
            entries[MAKE[key.type](key)] = MAKE[value.type](value)


def same(one, other):
    """Equal, where NaN is NaN, as the deterministic bytes have it."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)


def each(check):
    """Judge random messages of every type."""
    codec = Codec()
    for message_type in types():
        rounds = 10 * ROUNDS if message_type is kinds_pb2.Kinds else ROUNDS
        for _ in range(rounds):
            message = message_type()
            fill(message)
            check(codec, message)
    codec.end()


@case
def python_reads_what_we_write():
    def check(codec, message):
        text = codec.write(message)
        assert same(json_format.Parse(text, type(message)()), message), text
    each(check)


@case
def we_write_the_same_values_as_python():
    def check(codec, message):
        ours = json.loads(codec.write(message))
        theirs = json.loads(json_format.MessageToJson(message))
        assert repr(ours) == repr(theirs) or ours == theirs, f"{ours}\n{theirs}"
    each(check)


@case
def we_read_what_python_writes():
    def check(codec, message):
        for options in ({}, {"preserving_proto_field_name": True}, {"use_integers_for_enums": True},
                        {"including_default_value_fields": True}, {"indent": None}):
            text = json_format.MessageToJson(message, **options)
            assert same(codec.read(type(message), text), message), text
    each(check)


MUTANTS = [None, True, -1, 1.5, 2**40, "", "x", "5", "1.5s", [], {}, [1], {"x": 1}, [None], [{}]]


def mutate(value, mutant):
    """Put a mutant in the place of some value of a tree, or give one value a second name."""
    if isinstance(value, dict) and value and random_.random() < 0.8:
        key = random_.choice(list(value))
        if random_.random() < 0.1:
            return {**value, key + "x": value[key]}
        return {**value, key: mutate(value[key], mutant)}
    if isinstance(value, list) and value and random_.random() < 0.8:
        index = random_.randrange(len(value))
        return value[:index] + [mutate(value[index], mutant)] + value[index + 1:]
    return mutant


def python_says(message_type, text):
    try:
        return json_format.Parse(text, message_type())
    except Exception:  # pylint: disable=W0718  # some mistakes it does not catch itself
        return None


# What python3-protobuf takes and the form of proto3 does not have: "" and [] for an object, bytes with
# letters that are no base64, true for a number, and almost anything for the number of an enum.
SLOPPY = {"JSON_MALFORMED": ["", []], "VALUE_INVALID": ["", [], "1.5s", True],
          "ENUM_UNKNOWN": [True, 2**40, 1.5, "5"]}


def is_sloppy(ours, mutant):
    return isinstance(ours, list) and any(
        mutant == one and type(mutant) is type(one) for one in SLOPPY.get(ours[1], ()))


@case
def broken_values_are_judged_as_python_judges_them():
    codec = Codec()
    differing = []
    count = 0
    for message_type in types():
        for _ in range(5 * ROUNDS):
            message = message_type()
            fill(message)
            mutant = random_.choice(MUTANTS)
            text = json.dumps(mutate(json.loads(json_format.MessageToJson(message)), mutant))
            ours = codec.ask("read", message_type.DESCRIPTOR.full_name, text.encode())
            theirs = python_says(message_type, text)
            count += 1
            if isinstance(ours, bytes) and theirs is not None:
                assert same(message_type.FromString(ours), theirs), (text, ours, theirs)
            elif (isinstance(ours, bytes) or theirs is not None) and not is_sloppy(ours, mutant):
                differing.append((message_type.DESCRIPTOR.full_name, ours, theirs, text))
    codec.end()
    for row in differing[:10]:
        print(row[0], row[1] if isinstance(row[1], list) else "READ", row[3][:300])
    assert not differing, f"{len(differing)} of {count} differ"


if __name__ == "__main__":
    main(sys.argv[1:])
