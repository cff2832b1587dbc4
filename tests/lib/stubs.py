# SPDX-License-Identifier: Apache-2.0
"""Python stubs of our API, generated when a test starts, into a folder of its own: what a user of
another language does with our .proto files."""
import atexit
import os
import shutil
import subprocess
import sys
import tempfile


def generate():
    """Make the stubs importable: from foliot.v1 import task_pb2, task_pb2_grpc, …"""
    source = os.environ.get("FOLIOT_SOURCE_DIR") or os.path.abspath(
        os.path.join(os.path.dirname(__file__), "..", ".."))
    root = os.path.join(source, "proto")
    scratch = tempfile.mkdtemp(prefix="foliot-stubs-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    files = [f"{folder}/{name}" for folder in ("foliot/v1", "google/rpc")
             for name in sorted(os.listdir(os.path.join(root, folder))) if name.endswith(".proto")]
    subprocess.run(["protoc", "-I", root, f"--python_out={scratch}", f"--grpc_out={scratch}",
                    f"--plugin=protoc-gen-grpc={shutil.which('grpc_python_plugin')}", *files],
                   check=True)
    sys.path.insert(0, scratch)


def generate_from(root, *files):
    """Make the messages of other files importable."""
    scratch = tempfile.mkdtemp(prefix="foliot-stubs-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    subprocess.run(["protoc", "-I", root, f"--python_out={scratch}", *files], check=True)
    sys.path.insert(0, scratch)


def details_of(error):
    """(reason, field, retry_s) of a grpc.RpcError, from its google.rpc.Status."""
    from google.rpc import error_details_pb2, status_pb2
    reason, field, retry_s = "", "", 0.0
    for name, value in error.trailing_metadata() or ():
        if name != "grpc-status-details-bin":
            continue
        for any_detail in status_pb2.Status.FromString(value).details:
            info = error_details_pb2.ErrorInfo()
            bad = error_details_pb2.BadRequest()
            retry = error_details_pb2.RetryInfo()
            if any_detail.Unpack(info):
                assert info.domain == "foliot", info
                reason = info.reason
            elif any_detail.Unpack(bad):
                field = bad.field_violations[0].field
            elif any_detail.Unpack(retry):
                retry_s = retry.retry_delay.ToTimedelta().total_seconds()
    return reason, field, retry_s
