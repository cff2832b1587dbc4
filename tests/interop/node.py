# SPDX-License-Identifier: Apache-2.0
"""Programs from npm that the tests use: tests/interop/package.json, installed when first needed."""
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).resolve().parent


def install():
    """The folder of installed packages."""
    subprocess.run([str(HERE.parent.parent / "tools" / "npm"), "tests/interop"], check=True)
    return HERE / "node_modules"


def buf(*arguments, **options):
    """Run buf to its end. It keeps its cache to itself and says nothing to the world."""
    environment = dict(os.environ, BUF_CACHE_DIR=str(HERE / "node_modules" / ".buf-cache"))
    return subprocess.run([str(install() / ".bin" / "buf"), *arguments], text=True, timeout=60,
                          capture_output=True, env=environment, check=False, **options)
