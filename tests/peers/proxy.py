"""nginx and HAProxy in front of the server, configured as the README says.

The configuration is taken out of the README; only addresses, files and the idle time-out are replaced.
"""

import contextlib
import json
import pathlib
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from terret import PATIENCE_S, Server, checks, close_code, error, hello, receive, send, until

KIND, PROGRAM, OPENSSL = sys.argv[1:]
README = pathlib.Path(__file__).parents[2] / "README.md"
IDLE_S = 2
ORIGIN = "https://app.example"
CLIENT = "127.0.0.2"


def shown_in_readme(first_line):
    """The indented block of the README that begins with this line."""
    lines = README.read_text().splitlines()
    start = lines.index("    " + first_line)
    block = []
    for line in lines[start:]:
        if line and not line.startswith("    "):
            break
        block.append(line[4:])
    return "\n".join(block).strip() + "\n"


def with_changes(text, changes):
    for old, new in changes:
        assert old in text, f"the README no longer says {old!r}"
        text = text.replace(old, new)
    return text


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Proxy:
    """A running proxy; leaving the `with` block kills exactly this process."""

    def __init__(self, server):
        self.folder = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self.folder.name)
        self.log_path = folder / "access.log"
        self.port = free_port()
        certificate, key = folder / "cert.pem", folder / "key.pem"
        subprocess.run(
            [OPENSSL, "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
             "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost",
             "-keyout", key, "-out", certificate],
            check=True, stderr=subprocess.DEVNULL,
        )
        self.trust = ssl.create_default_context(cafile=certificate)
        config = folder / "config"
        backend = ("127.0.0.1:7700", server.address)
        idle = (" 60s", f" {IDLE_S}s")
        if KIND == "nginx":
            paths = "".join(f"    {kind}_temp_path {folder}/{kind};\n"
                            for kind in ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"])
            config.write_text(
                f"daemon off;\nmaster_process off;\npid {folder}/pid;\nevents {{}}\n"
                + with_changes(shown_in_readme("http {"), [
                    ("http {\n", f"http {{\n    access_log {self.log_path};\n{paths}"),
                    ("listen 443", f"listen 127.0.0.1:{self.port}"),
                    ("/etc/ssl/agents.pem", str(certificate)),
                    ("/etc/ssl/agents.key", str(key)),
                    backend, idle,
                ]))
            command = [PROGRAM, "-e", "stderr", "-p", folder, "-c", config]
        else:
            both = folder / "both.pem"
            both.write_text(certificate.read_text() + key.read_text())
            config.write_text(with_changes(shown_in_readme("defaults"), [
                ("bind :443", f"bind 127.0.0.1:{self.port}"),
                ("/etc/ssl/agents-with-key.pem", str(both)),
                backend, idle,
            ]))
            command = [PROGRAM, "-db", "-f", config]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL,
            stdout=open(self.log_path if KIND == "haproxy" else folder / "output", "w"),
            stderr=open(folder / "errors", "w"),
        )
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                break
            except ConnectionRefusedError:
                errors = (folder / "errors").read_text()
                assert self.process.poll() is None, f"{KIND} has ended: {errors}"
                assert time.monotonic() < deadline, f"{KIND} does not listen: {errors}"
                time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    def connect(self, token="secret", **more):
        return connect(
            f"wss://localhost:{self.port}/agents/s1/ws",
            ssl=self.trust,
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=None,
            source_address=(CLIENT, 0),
            **more,
        )

    def get(self, path):
        request = urllib.request.Request(
            f"https://localhost:{self.port}{path}", headers={"Authorization": "Bearer secret"})
        try:
            with urllib.request.urlopen(request, context=self.trust, timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refused:
            return refused.code, ""


@contextlib.contextmanager
def proxied(config):
    with Server(config) as server, Proxy(server) as proxy:
        yield proxy


def a_whole_turn_a_mebibyte_and_the_close_codes():
    with proxied({}) as proxy:
        with proxy.connect() as ws:
            assert hello(ws) == 0
            send(ws, type="subscribe", from_seq=0)
            frame = json.dumps({"type": "inject", "text": ""})
            exact = json.dumps({"type": "inject", "text": "x" * ((1 << 20) - len(frame))})
            ws.send(exact)
            send(ws, type="inject", text="now", wake=True)
            events = until(ws, "turn/end")
            assert [event["seq"] for event in events] == list(range(len(events)))
            assert max(len(event["payload"].get("text", "")) for event in events) > 1_000_000
            with proxy.connect() as newer:
                hello(newer)
                assert error(ws) == "superseded"
                assert close_code(ws) == 4409
        with proxy.connect(token="wrong") as ws:
            assert error(ws) == "unauthorized"
            assert close_code(ws) == 4401
        status, body = proxy.get("/agents/s1/events?from_seq=0")
        assert (status, len(body.splitlines())) == (200, len(events))


def the_heartbeat_keeps_a_quiet_connection_and_nothing_else_does():
    with proxied({"heartbeat_s": 1}) as kept, proxied({}) as left:
        with kept.connect() as quiet, left.connect() as silent:
            hello(quiet)
            hello(silent)
            # The time-out is the proxy's, and it is in force: without pings in time it cuts.
            try:
                silent.recv(timeout=PATIENCE_S)
                raise AssertionError("nothing was asked for")
            except ConnectionClosed as closed:
                assert closed.rcvd is None, closed
            try:
                quiet.recv(timeout=2 * IDLE_S)
                raise AssertionError("nothing was asked for")
            except TimeoutError:
                pass
            send(quiet, type="subscribe", from_seq=0)
            assert receive(quiet)["seq"] == 0


def the_origin_rule_and_the_paths():
    with proxied({"allowed_origins": [ORIGIN]}) as proxy:
        with proxy.connect(origin=ORIGIN) as ws:
            hello(ws)
        try:
            proxy.connect(origin="https://evil.example")
            raise AssertionError("a page from elsewhere was let in")
        except InvalidStatus as refused:
            assert refused.response.status_code == 403
        for path in ["/metrics", "/healthz"]:
            assert proxy.get(path)[0] in (403, 404), path


def its_log_has_the_address_and_not_the_token():
    with proxied({}) as proxy:
        with proxy.connect() as ws:
            hello(ws)
        deadline = time.monotonic() + PATIENCE_S
        while "/agents/s1/ws" not in (log := proxy.log_path.read_text()):
            assert time.monotonic() < deadline, log
            time.sleep(0.05)
        assert CLIENT in log, log
        assert "secret" not in log, log


checks(
    a_whole_turn_a_mebibyte_and_the_close_codes,
    the_heartbeat_keeps_a_quiet_connection_and_nothing_else_does,
    the_origin_rule_and_the_paths,
    its_log_has_the_address_and_not_the_token,
)
