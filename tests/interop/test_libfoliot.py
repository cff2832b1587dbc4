#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""libfoliot as its users meet it: installed, moved, found by pkg-config and by CMake, compiled as C
and as C++, and run against a real broker from outside of our tree. Ends with "N passed, N failed".
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["FOLIOT_BUILD_DIR"])
sys.path.insert(0, str(ROOT / "tools"))
import cases  # noqa: E402
import cluster as harness  # noqa: E402

STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wstrict-prototypes", "-Werror"]


def run(command, **options):
    """Output of a program; AssertionError with what it said if it fails."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **options)
    assert done.returncode == 0, f"{command}: exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def cached(name):
    """A value of the build folder's cache."""
    text = (BUILD / "CMakeCache.txt").read_text(encoding="utf-8")
    return re.search(rf"^{name}:[A-Z]+=(.*)$", text, re.M).group(1)


class World:
    """An installation that has been moved since, a copy of the example, and a broker."""

    def __init__(self, folder, broker):
        self.folder = folder
        self.broker = broker
        self.compiler = cached("CMAKE_C_COMPILER")
        sanitize = cached("FOLIOT_SANITIZE")
        self.flags = [f"-fsanitize={sanitize}"] if sanitize else []
        first = folder / "first"
        for component in ("client", "client-dev"):
            run(["cmake", "--install", BUILD, "--component", component, "--prefix", first])
        self.prefix = folder / "moved"
        first.rename(self.prefix)
        self.lib = next(self.prefix.glob("**/libfoliot.so.0")).parent
        self.include = self.prefix / "include"
        self.example = folder / "example"
        shutil.copytree(ROOT / "docs/examples/c", self.example)
        self.env = dict(os.environ, PKG_CONFIG_PATH=str(self.lib / "pkgconfig"),
                        LD_LIBRARY_PATH=str(self.lib))
        self.runs = 0

    def pkg_config(self, *options):
        return shlex.split(run(["pkg-config", *options, "foliot"], env=self.env))

    def check_example(self, program):
        """The example does all that it says, each time with a key of its own."""
        self.runs += 1
        key = f"milk{self.runs}"
        said = run([program, self.broker.grpc, key], env=self.env).splitlines()
        if self.runs == 1:
            assert said.pop(0).startswith("queue reminders goes to "), said
        assert re.fullmatch(r"[0-9a-f]{3}-[0-9a-f]{16} is new", said[0]), said
        assert said[1] == said[0].replace("is new", "was there already"), said
        assert said[2].startswith(f"{key} is due at ") and said[2].endswith(": buy milk"), said
        assert said[3].startswith("moved to ") and said[4] == "cancelled", said
        assert said[5:] == ["100 more"], said


def exported(world):
    lines = run(["nm", "-D", "--defined-only", world.lib / "libfoliot.so.0"]).splitlines()
    names = {line.split()[-1].split("@")[0] for line in lines}
    return names - {"FOLIOT_0"}


def only_what_the_headers_declare_is_exported(world):
    text = "".join(path.read_text(encoding="utf-8") for path in world.include.glob("**/*.h"))
    declared = set(re.findall(r"FOLIOT_API [^;(]*?\b(foliot_\w+)\(", text))
    assert len(declared) > 20, declared
    assert exported(world) == declared, exported(world) ^ declared


def the_static_library_keeps_its_inside_to_itself(world):
    lines = run(["nm", "-g", "--defined-only", world.lib / "libfoliot.a"]).splitlines()
    names = {line.split()[-1] for line in lines if len(line.split()) == 3}
    assert names == exported(world), names ^ exported(world)


def the_soname_is_that_of_its_interface(world):
    said = run(["readelf", "-d", world.lib / "libfoliot.so.0"])
    assert "soname: [libfoliot.so.0]" in said, said
    needed = re.findall(r"NEEDED.*\[(.+)\]", said)
    assert not [name for name in needed if re.search("foliot|pq|jansson|zookeeper", name)], needed


def each_header_compiles_alone_as_c_and_as_cpp(world):
    headers = [path.relative_to(world.include) for path in world.include.glob("**/*.h")]
    assert pathlib.Path("foliot.h") in headers and len(headers) >= 5, headers
    for header in headers:
        source = world.folder / "alone.c"
        source.write_text(f"#include <{header}>\n", encoding="utf-8")
        for language in (["gcc", "-std=c11"], ["clang", "-std=c99"],
                         ["clang", "-x", "c++", "-std=c++11", "-Wno-strict-prototypes"]):
            strict = [flag for flag in STRICT if "c++" not in language or flag != "-Wstrict-prototypes"]
            run([*language, *strict, "-fsyntax-only", f"-I{world.include}", source])


def the_example_builds_by_pkg_config(world):
    program = world.folder / "by_pkg_config"
    run([world.compiler, "-std=c11", *STRICT, *world.flags, world.example / "reminder.c",
         *world.pkg_config("--cflags", "--libs"), "-o", program])
    world.check_example(program)


def the_example_builds_with_the_static_library(world):
    program = world.folder / "static"
    words = [word if word != "-lfoliot" else "-l:libfoliot.a"
             for word in world.pkg_config("--static", "--cflags", "--libs")]
    run([world.compiler, *world.flags, world.example / "reminder.c", *words, "-o", program])
    assert "libfoliot" not in run(["ldd", program])
    world.check_example(program)


def build_by_cmake(world, name):
    build = world.folder / name
    run(["cmake", "-S", world.example, "-B", build, f"-DCMAKE_PREFIX_PATH={world.prefix}",
         f"-DCMAKE_C_COMPILER={world.compiler}", f"-DCMAKE_C_FLAGS={' '.join(world.flags)}"])
    run(["cmake", "--build", build])
    world.check_example(build / "reminder")
    return build / "reminder"


def the_example_builds_by_cmake(world):
    assert "libfoliot.so.0" in run(["ldd", build_by_cmake(world, "by_cmake")])


def the_example_builds_by_cmake_with_the_static_library(world):
    file = world.example / "CMakeLists.txt"
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("PRIVATE foliot::foliot", "PRIVATE foliot::static"),
                    encoding="utf-8")
    assert "libfoliot" not in run(["ldd", build_by_cmake(world, "by_cmake_static")])


def the_versions_agree(world):
    text = (world.include / "foliot/client.h").read_text(encoding="utf-8")
    numbers = re.findall(r"#define FOLIOT_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)", text)
    assert world.pkg_config("--modversion") == [".".join(numbers)], numbers


CASES = [
    only_what_the_headers_declare_is_exported, the_static_library_keeps_its_inside_to_itself,
    the_soname_is_that_of_its_interface, each_header_compiles_alone_as_c_and_as_cpp,
    the_versions_agree, the_example_builds_by_pkg_config,
    the_example_builds_with_the_static_library, the_example_builds_by_cmake,
    the_example_builds_by_cmake_with_the_static_library,
]


def main():
    with tempfile.TemporaryDirectory(prefix="foliot-installed-", dir="/tmp") as folder, \
            harness.Cluster(str(BUILD), 8) as cluster:
        broker = cluster.start_broker("a")
        cluster.wait_ready()
        world = World(pathlib.Path(folder), broker)
        passed, failed = cases.run(CASES, world)
    return cases.finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
