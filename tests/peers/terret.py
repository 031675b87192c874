"""What the Python peers share: a server process and the few frames they send it.

Every wait has a limit that only turns a hang into a failure.
"""

import json
import os
import pathlib
import subprocess
import tempfile

from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PATIENCE_S = 60


class Server:
    """A running server; leaving the `with` block kills exactly this process."""

    def __init__(self, config):
        self.folder = tempfile.TemporaryDirectory()
        path = pathlib.Path(self.folder.name) / "config.json"
        path.write_text(json.dumps({"listen": "127.0.0.1:0", "tokens": {"s1": "secret"}} | config))
        self.process = subprocess.Popen(
            [os.environ["TERRET_WS"], "serve", "--config", str(path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=open(pathlib.Path(self.folder.name) / "log", "w"),
            text=True,
        )
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), f"unexpected: {line!r}"
        self.address = line.removeprefix("listening on ").strip()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        self.process.kill()
        self.process.wait()
        if failure:
            print(self.log())
        self.folder.cleanup()

    def log(self):
        """What the server has logged so far."""
        return (pathlib.Path(self.folder.name) / "log").read_text()

    def connect(self, token="secret", session="s1"):
        return connect(
            f"ws://{self.address}/agents/{session}/ws",
            additional_headers={"Authorization": f"Bearer {token}"},
            max_size=None,
        )

    def terminate(self):
        """SIGTERM, and the exit status."""
        self.process.terminate()
        return self.process.wait(PATIENCE_S)


def send(ws, **frame):
    ws.send(json.dumps(frame))


def receive(ws):
    return json.loads(ws.recv(timeout=PATIENCE_S))


def hello(ws):
    """Takes the `hello` and returns its `last_seq`."""
    frame = receive(ws)
    last_seq = frame["last_seq"]
    expected = {"type": "hello", "proto": 1, "session_id": "s1", "last_seq": last_seq}
    assert frame == expected, frame
    return last_seq


def until(ws, kind):
    """Events up to and including the first of `kind`."""
    events = []
    while not events or events[-1]["type"] != kind:
        events.append(receive(ws))
        assert "seq" in events[-1], events[-1]
    return events


def error(ws):
    frame = receive(ws)
    assert frame["type"] == "error" and "seq" not in frame, frame
    return frame["code"]


def close_code(ws):
    """The code the server closes with; nothing may come before it."""
    try:
        frame = ws.recv(timeout=PATIENCE_S)
    except ConnectionClosed as closed:
        return closed.rcvd.code if closed.rcvd else None
    raise AssertionError(f"expected the close, not {frame}")


def checks(*functions):
    """Runs each check under its name."""
    for function in functions:
        print(f"   {function.__name__}", flush=True)
        function()
