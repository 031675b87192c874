"""The LiteLLM proxy from PyPI, with a mock response, as the model provider.

What it speaks is what hosted models speak through it: FastAPI's chunked event stream, its headers,
its usage at the end.
"""

import contextlib
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

from terret import PATIENCE_S, Server, checks, hello, send, until

ANSWER = "The quick brown fox jumps over the lazy dog. Grüße, 漢字 😀."

CONFIG = f"""
model_list:
  - model_name: mock
    litellm_params:
      model: openai/mock
      api_key: unused
      mock_response: "{ANSWER}"
  - model_name: broken
    litellm_params:
      model: openai/mock
      api_key: unused
      mock_response: "litellm.RateLimitError"
"""


@contextlib.contextmanager
def proxy():
    """The proxy on a free port; yields its base URL."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        config = pathlib.Path(folder) / "litellm.yaml"
        config.write_text(CONFIG)
        log = open(pathlib.Path(folder) / "log", "w")
        process = subprocess.Popen(
            [pathlib.Path(sys.executable).parent / "litellm",
             "--config", config, "--host", "127.0.0.1", "--port", str(port)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env=os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        )
        try:
            wait_until_alive(process, f"http://127.0.0.1:{port}/health/liveliness")
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            process.kill()
            process.wait()
            log.close()


def wait_until_alive(process, url):
    deadline = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline:
        assert process.poll() is None, f"the proxy exited with {process.returncode}"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=PATIENCE_S).close()
            return
        time.sleep(0.1)
    raise AssertionError("the proxy did not come up")


def turn(base_url, model, **definition):
    """One turn with `model` of the proxy."""
    provider = {"kind": "openai", "base_url": base_url} | definition
    config = {"providers": {"litellm": provider}, "roles": {"main": f"litellm/{model}"}}
    with Server(config) as server, server.connect() as ws:
        hello(ws)
        send(ws, type="subscribe", from_seq=0)
        send(ws, type="inject", text="Say something", wake=True)
        return until(ws, "turn/end")


def an_answer_is_streamed_whole_with_its_usage():
    events = turn(BASE_URL, "mock")
    chunks = [e["payload"]["text"] for e in events if e["type"] == "assistant/chunk"]
    assert "".join(chunks) == ANSWER, chunks
    message = next(e for e in events if e["type"] == "assistant/message")
    assert message["payload"]["parts"] == [{"type": "text", "text": ANSWER}], message
    usage = next(e for e in events if e["type"] == "step/end")["payload"]["usage"]
    assert usage["prompt_tokens"] > 0 and usage["completion_tokens"] > 0, usage
    assert events[-1]["payload"] == {"status": "completed"}, events[-1]


def an_error_of_the_proxy_fails_the_turn_and_is_quoted():
    for model in ["broken", "no-such-model"]:
        end = turn(BASE_URL, model, max_attempts=1)[-1]["payload"]
        assert end["status"] == "failed" and end["reason"], end
        print(f"      {model}: {end['reason']}")


with proxy() as BASE_URL:
    checks(
        an_answer_is_streamed_whole_with_its_usage,
        an_error_of_the_proxy_fails_the_turn_and_is_quoted,
    )
