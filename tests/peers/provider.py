"""What the peers that play a model provider share: their process, and turns that ask them.

The tool of these turns answers with its arguments, so what a peer is told of its own call can be
held against what it said.
"""

import contextlib
import pathlib
import socket
import subprocess
import tempfile
import time
import urllib.request

from terret import PATIENCE_S, Server, hello, send, until

TOOL = {
    "name": "get_weather",
    "description": "Tells the weather of a city.",
    "params": {
        "type": "object",
        "properties": {"city": {"enum": ["Rome", "Köln"]}},
        "required": ["city"],
    },
    "command": ["cat"],
}


@contextlib.contextmanager
def running(files, command, alive, env):
    """A peer on a free port; yields its URL.

    `files` lie in its working directory, `command` is made from the port, and `alive` is a path
    that answers once it is ready.
    """
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        for name, text in files.items():
            (pathlib.Path(folder) / name).write_text(text)
        log = pathlib.Path(folder) / "log"
        with log.open("w") as sink:
            process = subprocess.Popen(
                command(str(port)), cwd=folder, env=env,
                stdin=subprocess.DEVNULL, stdout=sink, stderr=sink,
            )
        url = f"http://127.0.0.1:{port}"
        try:
            wait_until_alive(process, url + alive)
            yield url
        except BaseException:
            print(log.read_text()[-4000:])
            raise
        finally:
            process.kill()
            process.wait()


def wait_until_alive(process, url):
    deadline = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the peer exited with {process.returncode}"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=PATIENCE_S).close()
            return
        time.sleep(0.1)
    raise AssertionError("the peer did not come up")


@contextlib.contextmanager
def talk(definitions, model, **config):
    """A server with these providers and one client of its; yields both."""
    providers = {name: {"kind": "openai"} | more for name, more in definitions.items()}
    config = {"providers": providers, "roles": {"main": model},
              "tools": [TOOL], "policy": ["*"]} | config
    with Server(config) as server, server.connect() as ws:
        hello(ws)
        send(ws, type="subscribe", from_seq=0)
        yield server, ws


def turn(ws, text):
    """One turn, to its end."""
    send(ws, type="inject", text=text, wake=True)
    return until(ws, "turn/end")


def completed(events):
    assert events[-1]["payload"] == {"status": "completed"}, events[-1]
    return events


def payloads(events, kind):
    return [event["payload"] for event in events if event["type"] == kind]


def said(events):
    """The text of the chunks, which the messages must repeat."""
    text = "".join(chunk["text"] for chunk in payloads(events, "assistant/chunk"))
    parts = [part for message in payloads(events, "assistant/message") for part in message["parts"]]
    assert "".join(part["text"] for part in parts if part["type"] == "text") == text, parts
    return text


def results(events):
    """The arguments of each call and what its tool answered, in order; none may have failed."""
    calls = {call["id"]: call["args"] for call in payloads(events, "tool/call")}
    found = payloads(events, "tool/result")
    assert len(calls) == len(found), found
    assert all(result["error"] is None for result in found), found
    return [(calls[result["id"]], result["content"]) for result in found]


def usage(events):
    """The usage of each step; a peer that counts has counted something."""
    counts = [step["usage"] for step in payloads(events, "step/end")]
    assert all(count["prompt_tokens"] > 0 for count in counts), counts
    assert all(count["completion_tokens"] > 0 for count in counts), counts
    return counts
