#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Two real brokers that speak nothing but mutual TLS, with clients, targets and files of all kinds.
Ends with "N passed, N failed"."""
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from concurrent import futures

import grpc

import cases
import certs
import two_brokers
from two_brokers import LIMIT_S, harness

from foliot.v1 import receiver_pb2_grpc, task_pb2  # noqa: E402

OURS = certs.Authority("our")
THEIRS = certs.Authority("their")
FILES = OURS.folder / "live"
CLIENT = OURS.make("client")
TARGET = OURS.make("target")
STRANGER = THEIRS.make("stranger")
FIRST = OURS.make("first")
SECOND = OURS.make("second")
CERT, KEY = str(FILES / "cert.pem"), str(FILES / "key.pem")


def read(path):
    with open(path, "rb") as file:
        return file.read()


def put(pair):
    """Give the brokers another certificate, as a mounted secret changes."""
    FILES.mkdir(exist_ok=True)
    for source, place in zip(pair, (CERT, KEY)):
        shutil.copy(source, place + ".new")
        os.rename(place + ".new", place)


def secure_channel(address, cert=CLIENT):
    return grpc.secure_channel(address, grpc.ssl_channel_credentials(
        read(OURS.ca), read(cert[1]) if cert else None, read(cert[0]) if cert else None),
        options=[("grpc.use_local_subchannel_pool", 1)])


def serial_at(address):
    """Number of the certificate that a broker shows now."""
    context = ssl.create_default_context(cafile=OURS.ca)
    context.load_cert_chain(*CLIENT)
    context.set_alpn_protocols(["h2"])
    host, port = address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as plain, \
            context.wrap_socket(plain, server_hostname="localhost") as client:
        return client.getpeercert()["serialNumber"]


def serial_of(cert):
    out = subprocess.run(["openssl", "x509", "-serial", "-noout", "-in", cert], check=True,
                         capture_output=True, text=True).stdout
    return out.strip().split("=")[1]


class World(two_brokers.World):
    """Stubs over TLS, and targets that speak it too."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.target = two_brokers.Target()
        self.secure_server = server = grpc.server(futures.ThreadPoolExecutor(8))
        receiver_pb2_grpc.add_ReceiverServicer_to_server(self.target, server)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("shop.Mail", {
            "Send": grpc.unary_unary_rpc_method_handler(self.target.send)}),))
        self.secure = "localhost:" + str(server.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials(
                [(read(TARGET[1]), read(TARGET[0]))], read(OURS.ca), True)))
        self.strange = "localhost:" + str(server.add_secure_port(
            "127.0.0.1:0", grpc.ssl_server_credentials([(read(STRANGER[1]), read(STRANGER[0]))])))
        server.start()
        self.channels = [secure_channel(address) for address in cluster.addresses()]
        self.tasks = [two_brokers.task_pb2_grpc.TaskServiceStub(one) for one in self.channels]
        self.queues = [two_brokers.queue_pb2_grpc.QueueServiceStub(one) for one in self.channels]
        self.turn = 0
        for name, where in (("plain", f"receiver://{self.target.address}"),
                            ("mail", f"receivers://{self.secure}"),
                            ("send", f"grpcs://{self.secure}/shop.Mail/Send"),
                            ("strange", f"receivers://{self.strange}"),
                            ("naked", f"receiver://{self.secure}"),
                            ("dressed", f"receivers://{self.target.address}")):
            self.queue(name, where)


    def close(self):
        self.secure_server.stop(0).wait()
        super().close()


def any_broker_takes_any_call_over_tls(world):
    before = sum(broker.metric("foliot_calls_forwarded_total")
                 for broker in world.cluster.brokers.values())
    made = [world.create("plain", key=f"k{i}", delay={"seconds": 3600}) for i in range(60)]
    assert all(one.created for one in made)
    for i in range(60):
        assert world.stub().Get(task_pb2.GetTaskRequest(queue="plain", key=f"k{i}"),
                                timeout=LIMIT_S).task.id == made[i].id
    harness.until("calls to be passed on", lambda: sum(
        broker.metric("foliot_calls_forwarded_total")
        for broker in world.cluster.brokers.values()) > before)


def tasks_fire_at_targets_with_and_without_tls(world):
    for queue in ("plain", "mail"):
        task = world.create(queue, payload=b"x")
        world.target.wait(lambda one=task: world.target.of(one.id), queue)
    world.create("send", payload=b"over tls")
    world.target.wait(lambda: [one for one in world.target.sends if one[1] == b"over tls"], "send")


def a_target_that_cannot_be_trusted_gets_nothing_and_says_why(world):
    for queue, words in (("strange", "certificate is refused"), ("naked", "does it want TLS?"),
                         ("dressed", "does not speak TLS")):
        task = world.create(queue, payload=b"secret")

        def is_said(name=queue, why=words):
            return any(f'"queue":"{name}"' in line and why in line
                       for broker in world.cluster.brokers.values()
                       for line in broker.err.read_text().splitlines())
        harness.until(f"the log to say why of {queue}", is_said)
        assert not world.target.of(task.id)


def clients_without_a_certificate_of_ours_are_turned_away(world):
    address = world.cluster.addresses()[0]
    for channel in (secure_channel(address, None), secure_channel(address, STRANGER),
                    grpc.insecure_channel(address)):
        with channel:
            try:
                two_brokers.task_pb2_grpc.TaskServiceStub(channel).Get(
                    task_pb2.GetTaskRequest(id="000-0000000000000001"), timeout=3)
                raise AssertionError("it was served")
            except grpc.RpcError as error:
                assert error.code() in (grpc.StatusCode.UNAVAILABLE,
                                        grpc.StatusCode.DEADLINE_EXCEEDED), error
    broker = world.cluster.brokers["a"]
    log = broker.err.read_text()
    assert '"nghttp2":"1.' in log and '"libpq":1' in log, log
    harness.until("the log to say why", lambda: "a client's TLS handshake failed" in
                  broker.err.read_text())
    harness.until("the count", lambda: broker.metric("foliot_grpc_server_handshakes_failed_total") >= 2)


def the_admin_port_is_no_way_around_the_certificate(world):
    """The API in JSON asks for nothing, so it is not there unless it is asked for."""
    for broker in world.cluster.brokers.values():
        request = urllib.request.Request(
            f"http://{broker.admin}/foliot.v1.ClusterService/GetTopology", b"{}",
            {"Content-Type": "application/json"})
        try:
            urllib.request.urlopen(request, timeout=10)
            raise AssertionError("it was served")
        except urllib.error.HTTPError as error:
            assert error.code == 503 and b"admin.json" in error.read(), error


def changed_files_are_used_without_a_restart(world):
    address = world.cluster.addresses()[0]
    broker = world.cluster.brokers["a"]
    assert serial_at(address) == serial_of(FIRST[0])
    put(SECOND)
    harness.until("the new certificate", lambda: serial_at(address) == serial_of(SECOND[0]))
    world.create("plain", delay={"seconds": 3600})  # an open channel goes on
    put((SECOND[0], CLIENT[1]))
    harness.until("the complaint", lambda: "does not belong to the certificate" in
                  broker.err.read_text())
    assert serial_at(address) == serial_of(SECOND[0])
    put(SECOND)
    before = broker.err.read_text().count("have been read again")
    broker.signal(signal.SIGHUP)
    harness.until("the signal to be heeded", lambda:
                  broker.err.read_text().count("have been read again") >= before + 3)
    assert broker.alive()
    expiry = broker.metric("foliot_tls_certificate_expiry_seconds")
    assert 20 * 86400 < expiry - time.time() < 40 * 86400, expiry


def the_command_speaks_tls(world):
    foliot = str(world.cluster.bin / "foliot")
    address = world.cluster.addresses()[0]

    def run(*options, **env):
        return subprocess.run([foliot, "cluster", "status", "--address", address, *options],
                              capture_output=True, text=True, timeout=30, check=False,
                              env={**os.environ, "HOME": str(OURS.folder), **env})
    full = ("--tls-ca", OURS.ca, "--tls-cert", CLIENT[0], "--tls-key", CLIENT[1])
    done = run(*full)
    assert done.returncode == 0 and "2 brokers" in done.stdout, done
    for options, words in (
            ((), "does it want TLS?"), (("--tls", "on"), "certificate is refused"),
            (("--tls-ca", OURS.ca), "certificate required"),
            (("--tls-ca", THEIRS.ca), "certificate is refused"),
            (("--tls-ca", "/no/such.pem"), "No such file"),
            (("--tls-ca", OURS.ca, "--tls-cert", CLIENT[0]), "the key is missing")):
        done = run("--timeout", "2s", *options)
        assert done.returncode != 0 and words in done.stderr, (options, done)


def bad_settings_are_said_in_one_line(world):
    foliotd = str(world.cluster.bin / "foliotd")
    for options, words in (
            (("--tls-cert", CERT), "tls.key must be set together with tls.cert"),
            (("--targets-tls-key", KEY), "targets.tls_key must be set together"),
            (("--tls-client-certificates", "required"), "tls.client_certificates needs tls.cert"),
            (("--targets-keepalive", "5s"), "targets.keepalive must be 0 for never, or at least"),
            (("--tls-cert", "/no/such.pem", "--tls-key", KEY), "\"/no/such.pem\" cannot be read"),
            (("--tls-cert", CERT, "--tls-key", STRANGER[1]), "does not belong to the certificate"),
            (("--targets-tls-ca", KEY), "targets.tls_*: the authorities file")):
        done = subprocess.run([foliotd, "--databases", "a=dbname=x", *options, "--check-config"],
                              capture_output=True, text=True, timeout=20, check=False)
        assert done.returncode == 2 and words in done.stderr, (options, done)
        assert len(done.stderr.splitlines()) == 2, done.stderr
    done = subprocess.run([foliotd, "--databases", "a=dbname=x", "--tls-cert", CERT, "--tls-key",
                           KEY, "--check-config"], capture_output=True, text=True, timeout=20,
                          check=False)
    assert done.returncode == 0, done


CASES = [any_broker_takes_any_call_over_tls, tasks_fire_at_targets_with_and_without_tls,
         a_target_that_cannot_be_trusted_gets_nothing_and_says_why,
         clients_without_a_certificate_of_ours_are_turned_away,
         the_admin_port_is_no_way_around_the_certificate,
         changed_files_are_used_without_a_restart, the_command_speaks_tls,
         bad_settings_are_said_in_one_line]


def main():
    put(FIRST)
    options = ["--tls-cert", CERT, "--tls-key", KEY, "--tls-ca", OURS.ca,
               "--tls-client-certificates", "required", "--tls-reload", "100ms",
               "--targets-tls-ca", OURS.ca, "--targets-tls-cert", CLIENT[0],
               "--targets-tls-key", CLIENT[1]]
    build = os.path.basename(os.environ["FOLIOT_BUILD_DIR"])
    with harness.Cluster(build, 16, broker_options=options) as cluster:
        for name in ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.wait_shared()
        world = World(cluster)
        passed, failed = cases.run(CASES, world)
        world.close()
    return cases.finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
