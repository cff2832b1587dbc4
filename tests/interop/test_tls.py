#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""TLS and mutual TLS, with grpcio, buf curl, openssl and raw sockets on the other side of our server
and our client: test_tls.py RPC_PEER RPC_ASK [case …]"""
import concurrent.futures
import os
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time

import grpc

import certs
import node
from peer import Peer, case, eventually, main

PEER, ASK = sys.argv[1:3]
ECHO = "/foliot.test.Peer/Echo"
OURS = certs.Authority("our")
THEIRS = certs.Authority("their")
CERT, KEY = OURS.make("server")
CLIENT_CERT, CLIENT_KEY = OURS.make("client")
STRANGER_CERT, STRANGER_KEY = THEIRS.make("stranger")
KNOWN, CHECKED = 2, 1


def read(path):
    with open(path, "rb") as file:
        return file.read()


class TlsPeer(Peer):
    """Our server with TLS; its lines are gathered."""

    def __init__(self, **options):
        super().__init__(PEER, **{"tls_cert": CERT, "tls_key": KEY, **options})
        self.lines = []
        self.final = None
        self.reader = threading.Thread(target=self.gather, daemon=True)
        self.reader.start()

    def gather(self):
        for line in self.process.stdout:
            self.lines.append(line.strip())

    def said(self, word):
        return [line for line in self.lines if word in line]

    def read_stats(self):
        before = len(self.said("stats"))
        eventually(lambda: len(self.said("stats")) > before or self.process.poll() is not None, 20)
        return {name: int(value) for name, value in
                (pair.split("=") for pair in self.said("stats")[-1].split()[1:])}

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None:
                self.drain()
                assert self.process.wait(timeout=20) == 0, "rpc_peer left memory or failed"
        finally:
            self.process.kill()
            self.process.wait()


def channel_to(peer, ca=OURS.ca, cert=None, key=None, host="localhost"):
    credentials = grpc.ssl_channel_credentials(
        read(ca), read(key) if key else None, read(cert) if cert else None)
    return grpc.secure_channel(f"{host}:{peer.port}", credentials,
                               options=[("grpc.use_local_subchannel_pool", 1)])


def echo(peer, message=b"hi", **options):
    with channel_to(peer, **options) as channel:
        return channel.unary_unary(ECHO)(message, timeout=10)


def is_refused(peer, **options):
    try:
        echo(peer, **options)
    except grpc.RpcError as error:
        return error.code() == grpc.StatusCode.UNAVAILABLE
    return False


def ask(port, payload="hello", host="localhost", **options):
    """Our client; its calls, each as a dictionary."""
    done = subprocess.run([ASK, f"{host}:{port}", ECHO, payload] +
                          [f"{name}={value}" for name, value in options.items()],
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    return [dict(pair.split("=", 1) for pair in line.split(" "))
            for line in done.stdout.splitlines()]


def raw_context(ca=OURS.ca, alpn=("h2",)):
    context = ssl.create_default_context(cafile=ca)
    if alpn:
        context.set_alpn_protocols(list(alpn))
    return context


def handshake(peer, context, host="localhost"):
    plain = socket.create_connection(("127.0.0.1", peer.port), timeout=10)
    try:
        return context.wrap_socket(plain, server_hostname=host)
    except Exception:
        plain.close()
        raise


# ---- our server ----

@case
def grpcio_calls_over_tls_with_small_large_and_many_messages():
    with TlsPeer() as peer:
        for host in ("localhost", "127.0.0.1"):
            assert echo(peer, host=host) == b"hi"
        with channel_to(peer) as channel:
            call = channel.unary_unary(ECHO)
            for message in (b"", bytes(range(256)) * 15000):
                assert call(message, timeout=20) == message
            calls = [call.future(b"%d" % i * 3000, timeout=30) for i in range(500)]
            assert [one.result() for one in calls] == [b"%d" % i * 3000 for i in range(500)]


@case
def tls_of_every_key_kind_and_version_works():
    rsa = OURS.make("rsa", key=("rsa:2048",))
    with TlsPeer(tls_cert=rsa[0], tls_key=rsa[1]) as peer:
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            context = raw_context()
            context.minimum_version = context.maximum_version = version
            with handshake(peer, context) as client:
                assert client.selected_alpn_protocol() == "h2"
                name = client.cipher()[0]
                assert "GCM" in name or "CHACHA20" in name, name
        assert echo(peer) == b"hi"


@case
def old_versions_and_weak_ciphers_are_refused():
    with TlsPeer() as peer:
        weak = raw_context()
        weak.maximum_version = ssl.TLSVersion.TLSv1_2
        weak.set_ciphers("ECDHE-ECDSA-AES128-SHA:@SECLEVEL=0")
        old = raw_context()
        old.set_ciphers("ALL:@SECLEVEL=0")
        old.minimum_version = ssl.TLSVersion.TLSv1
        old.maximum_version = ssl.TLSVersion.TLSv1_1
        for context in (weak, old):
            try:
                handshake(peer, context).close()
                raise AssertionError("the handshake went well")
            except ssl.SSLError:
                pass
        eventually(lambda: len(peer.said("refused")) == 2)
        assert echo(peer) == b"hi"


@case
def a_client_without_h2_in_its_alpn_is_refused():
    with TlsPeer() as peer:
        try:
            handshake(peer, raw_context(alpn=("http/1.1",))).close()
            raise AssertionError("the handshake went well")
        except ssl.SSLError as error:
            assert "no application protocol" in str(error).lower(), error
        with handshake(peer, raw_context(alpn=None)) as client:
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            assert client.recv(100) == b"", "it was served without ALPN"
        eventually(lambda: peer.said("ALPN"))


@case
def cleartext_and_garbage_at_a_tls_port_are_hung_up_on():
    with TlsPeer() as peer:
        for raw in (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03" * 500,
                    bytes(range(256)) * 16):  # Not random: that can be the head of more to come.
            with socket.create_connection(("127.0.0.1", peer.port), timeout=10) as client:
                client.sendall(raw)
                try:
                    while client.recv(4096):
                        pass
                except ConnectionResetError:
                    pass
        eventually(lambda: any("does not speak TLS" in line for line in peer.said("refused")))
        assert echo(peer) == b"hi"


@case
def handshakes_that_do_not_go_on_end_and_hold_up_nobody():
    with TlsPeer(handshake_ms=4000) as peer:
        silent = [socket.create_connection(("127.0.0.1", peer.port)) for _ in range(300)]
        for one in silent[::2]:
            one.sendall(b"\x16\x03\x01\x02")
        started = time.monotonic()
        assert echo(peer) == b"hi"
        assert time.monotonic() - started < 4, "it waited until the silent ones were sent away"
        for one in silent:
            one.settimeout(10)
            try:
                while one.recv(4096):
                    pass
            except ConnectionResetError:
                pass
            one.close()


@case
def a_crowd_of_handshakes_is_served():
    with TlsPeer() as peer:
        context = raw_context()

        def shake(_):
            with handshake(peer, context) as client:
                return client.selected_alpn_protocol()
        with concurrent.futures.ThreadPoolExecutor(100) as pool:
            assert set(pool.map(shake, range(400))) == {"h2"}


@case
def half_a_record_at_a_time_is_read():
    """Bytes of TLS one by one, and a peer that reads slowly: what is inside must not get stuck."""
    with TlsPeer() as peer:
        relay = socket.create_server(("127.0.0.1", 0))

        def pump(source, sink, size):
            try:
                while got := source.recv(size):
                    sink.sendall(got)
                sink.shutdown(socket.SHUT_WR)
            except OSError:
                pass

        def serve():
            front, _ = relay.accept()
            back = socket.create_connection(("127.0.0.1", peer.port))
            for one in (front, back):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=pump, args=(back, front, 1000), daemon=True).start()
            pump(front, back, 7)
        threading.Thread(target=serve, daemon=True).start()
        credentials = grpc.ssl_channel_credentials(read(OURS.ca))
        with grpc.secure_channel(f"localhost:{relay.getsockname()[1]}", credentials) as channel:
            for size in (1, 20000, 200000):
                assert channel.unary_unary(ECHO)(b"r" * size, timeout=30) == b"r" * size


@case
def clients_show_certificates_when_they_must_and_may():
    with TlsPeer(tls_ca=OURS.ca, tls_clients=KNOWN) as peer:
        assert echo(peer, cert=CLIENT_CERT, key=CLIENT_KEY) == b"hi"
        assert is_refused(peer)
        assert is_refused(peer, cert=STRANGER_CERT, key=STRANGER_KEY)
        eventually(lambda: any("did not return a certificate" in line
                               for line in peer.said("refused")))
    with TlsPeer(tls_ca=OURS.ca, tls_clients=CHECKED) as peer:
        assert echo(peer, cert=CLIENT_CERT, key=CLIENT_KEY) == b"hi"
        assert echo(peer) == b"hi"
        assert is_refused(peer, cert=STRANGER_CERT, key=STRANGER_KEY)
        eventually(lambda: any("certificate is refused" in line for line in peer.said("refused")))


@case
def files_are_read_again_and_bad_ones_change_nothing():
    cert, key = str(OURS.folder / "live.pem"), str(OURS.folder / "live.key")

    def put(pair):
        for source, place in zip(pair, (cert, key)):
            shutil.copy(source, place + ".new")
            os.rename(place + ".new", place)
    put((CERT, KEY))
    with TlsPeer(tls_cert=cert, tls_key=key) as peer:
        with channel_to(peer) as old:
            assert old.unary_unary(ECHO)(b"1", timeout=10) == b"1"

            def reload():
                before = len(peer.said("reload"))
                peer.process.send_signal(signal.SIGHUP)
                eventually(lambda: len(peer.said("reload")) > before)
                return peer.said("reload")[-1]
            assert reload() == "reload changed=0 err=0 fine"
            put((STRANGER_CERT, STRANGER_KEY))
            assert reload() == "reload changed=1 err=0 fine"
            assert is_refused(peer) and echo(peer, ca=THEIRS.ca) == b"hi"
            put((CERT, STRANGER_KEY))
            line = reload()
            assert "changed=1 err=-1" in line and "does not belong to the certificate" in line, line
            assert echo(peer, ca=THEIRS.ca) == b"hi"
            os.unlink(cert)
            assert "No such file" in reload()
            put((CERT, KEY))
            assert reload() == "reload changed=1 err=0 fine"
            assert echo(peer) == b"hi"
            assert old.unary_unary(ECHO)(b"2", timeout=10) == b"2", "an open connection was cut"


@case
def every_bad_file_is_named_with_what_is_wrong():
    folder = OURS.folder
    (folder / "empty").write_text("")
    (folder / "text").write_text("no certificate at all\n")
    expired = OURS.make("expired", days="-1")
    early = OURS.make_early("early")
    locked = str(folder / "locked.key")
    certs.openssl("ec", "-in", KEY, "-out", locked, "-aes256", "-passout", "pass:secret")
    for options, words in (
            ({"tls_cert": "/no/such.pem"}, ("/no/such.pem", "No such file")),
            ({"tls_cert": str(folder)}, ("folder",)),
            ({"tls_key": "/no/such.key"}, ("key file", "/no/such.key", "No such file")),
            ({"tls_cert": str(folder / "empty")}, ("no usable PEM certificate",)),
            ({"tls_cert": str(folder / "text")}, ("no usable PEM certificate",)),
            ({"tls_cert": KEY}, ("no usable PEM certificate",)),
            ({"tls_key": CERT}, ("no usable PEM key",)),
            ({"tls_key": CLIENT_KEY}, ("does not belong to the certificate", CERT)),
            ({"tls_key": locked}, ("pass phrase",)),
            ({"tls_cert": expired[0], "tls_key": expired[1]}, ("expired at", "2020")),
            ({"tls_cert": early[0], "tls_key": early[1]}, ("valid from", "2100", "clock")),
            ({"tls_ca": str(folder / "text"), "tls_clients": KNOWN}, ("authorities file",)),
            ({"tls_ca": "/no/ca.pem", "tls_clients": KNOWN}, ("/no/ca.pem", "No such file")),
            ({"tls_clients": KNOWN}, ("file of authorities is needed",)),
            ({"tls_key": ""}, ("the key is missing",))):
        pairs = {"tls_cert": CERT, "tls_key": KEY, **options}
        done = subprocess.run([PEER] + [f"{name}={value}" for name, value in pairs.items()],
                              capture_output=True, text=True, timeout=20, check=False,
                              stdin=subprocess.DEVNULL)
        assert done.returncode == 1, (options, done)
        assert all(word in done.stderr for word in words), (options, done.stderr)
        assert len(done.stderr.splitlines()) == 1, done.stderr


@case
def buf_curl_and_openssl_agree():
    with TlsPeer(tls_ca=OURS.ca, tls_clients=KNOWN) as peer:
        called = node.buf("curl", "--protocol", "grpc", "--cacert", OURS.ca, "--cert", CLIENT_CERT,
                          "--key", CLIENT_KEY, "--data", "{}",
                          f"https://localhost:{peer.port}/grpc.health.v1.Health/Check")
        assert called.returncode == 0 and "SERVING" in called.stdout, called
        shown = subprocess.run(
            ["openssl", "s_client", "-connect", f"127.0.0.1:{peer.port}", "-alpn", "h2", "-CAfile",
             OURS.ca, "-cert", CLIENT_CERT, "-key", CLIENT_KEY], input="", capture_output=True,
            text=True, errors="replace", timeout=20, check=False).stdout
        assert "ALPN protocol: h2" in shown and "Verify return code: 0" in shown, shown
        assert "our authority" in shown.split("Acceptable client certificate CA names")[1], shown


# ---- our client ----

class GrpcServer:
    """grpcio with TLS."""

    def __init__(self, cert=CERT, key=KEY, ca=None):
        def echo_back(request, _context):
            return request
        handler = grpc.method_handlers_generic_handler("foliot.test.Peer", {
            "Echo": grpc.unary_unary_rpc_method_handler(echo_back)})
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(8), handlers=[handler])
        credentials = grpc.ssl_server_credentials(
            [(read(key), read(cert))], read(ca) if ca else None, ca is not None)
        self.port = self.server.add_secure_port("127.0.0.1:0", credentials)
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


def words(call):
    return call["message"].replace("\\x20", " ")


@case
def our_client_calls_grpcio_over_tls():
    with GrpcServer() as server:
        for host in ("localhost", "127.0.0.1"):
            call = ask(server.port, host=host, tls_ca=OURS.ca)[0]
            assert call["status"] == "0" and call["payload"] == "hello", call
        assert ask(server.port, payload="@3000000", tls_ca=OURS.ca)[0]["len"] == "3000000"
        calls = ask(server.port, count=1000, deadline_ms=20000, tls_ca=OURS.ca)
        assert len(calls) == 1000 and all(call["status"] == "0" for call in calls)


@case
def our_client_shows_its_certificate():
    with GrpcServer(ca=OURS.ca) as server:
        call = ask(server.port, tls_ca=OURS.ca, tls_cert=CLIENT_CERT, tls_key=CLIENT_KEY)[0]
        assert call["status"] == "0", call
        for more in ({}, {"tls_cert": STRANGER_CERT, "tls_key": STRANGER_KEY}):
            call = ask(server.port, tls_ca=OURS.ca, **more)[0]
            assert call["status"] == "14" and call["unprocessed"] == "1", call
    with TlsPeer(tls_ca=OURS.ca, tls_clients=KNOWN) as peer:
        call = ask(peer.port, tls_ca=OURS.ca, tls_cert=CLIENT_CERT, tls_key=CLIENT_KEY)[0]
        assert call["status"] == "0", call
        call = ask(peer.port, tls_ca=OURS.ca)[0]
        assert call["status"] == "14" and call["unprocessed"] == "1", call
        assert "certificate required" in words(call), call


@case
def our_client_trusts_only_whom_it_should():
    expired, elsewhere = OURS.make("late", days="-1"), OURS.make("elsewhere", "DNS:other.test")
    with GrpcServer() as server:
        call = ask(server.port, tls_ca=THEIRS.ca)[0]
        assert call["status"] == "14" and call["unprocessed"] == "1", call
        assert "certificate is refused" in words(call) and "issuer" in words(call), call
        call = ask(server.port, tls=1)[0]  # the system's authorities
        assert call["status"] == "14" and "certificate is refused" in words(call), call
    with GrpcServer(*expired) as server:
        call = ask(server.port, tls_ca=OURS.ca)[0]
        assert call["status"] == "14" and "expired" in words(call), call
    with GrpcServer(*elsewhere) as server:
        call = ask(server.port, tls_ca=OURS.ca)[0]
        assert call["status"] == "14" and "hostname mismatch" in words(call), call
        call = ask(server.port, host="127.0.0.1", tls_ca=OURS.ca)[0]
        assert call["status"] == "14" and "IP address mismatch" in words(call), call
        assert ask(server.port, tls_ca=OURS.ca, tls_host="other.test")[0]["status"] == "0"


class RawTls:
    """Accepts TLS with an ALPN list of its own, or nothing but TCP."""

    def __init__(self, alpn=None, says=None):
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.load_cert_chain(CERT, KEY)
        if alpn:
            self.context.set_alpn_protocols(alpn)
        self.says = says
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.one, args=(one,), daemon=True).start()

    def one(self, plain):
        try:
            if self.says is not None:
                plain.sendall(self.says)
                while plain.recv(4096):
                    pass
                return
            with self.context.wrap_socket(plain, server_side=True) as client:
                while client.recv(4096):
                    pass
        except OSError:
            pass
        finally:
            plain.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


@case
def a_server_that_does_not_choose_h2_gets_no_call():
    for alpn in (None, ["http/1.1"]):
        with RawTls(alpn) as server:
            call = ask(server.port, tls_ca=OURS.ca)[0]
            assert call["status"] == "14" and call["unprocessed"] == "1", call
            assert "ALPN" in words(call) or "application protocol" in words(call), call


@case
def a_server_that_speaks_no_tls_or_nothing_gets_no_call():
    with RawTls(says=b"\0\0\0\4\0\0\0\0\0") as server:
        call = ask(server.port, tls_ca=OURS.ca)[0]
        assert call["status"] == "14" and call["unprocessed"] == "1", call
        assert "does not speak TLS" in words(call), call
    with RawTls(says=b"") as server:
        call = ask(server.port, tls_ca=OURS.ca, deadline_ms=500)[0]
        assert call["status"] == "4" and call["unprocessed"] == "1", call
    with TlsPeer() as peer:
        call = ask(peer.port)[0]  # in cleartext
        assert call["status"] == "14" and "does it want TLS?" in words(call), call


if __name__ == "__main__":
    main(sys.argv[3:])
