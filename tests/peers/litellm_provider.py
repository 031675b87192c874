"""The LiteLLM proxy from PyPI as the model provider, with mock responses.

What it speaks is what hosted models speak through it: FastAPI's chunked event stream, its headers,
its usage at the end, in an event that has a choice as well. Its own mock streams no tool calls, so
these come from a custom handler, which is LiteLLM's way to plug in a model; they pass through the
same code as those of any provider behind it.
"""

import os
import pathlib
import sys

from provider import completed, payloads, results, running, said, talk, turn, usage
from terret import checks

ANSWER = "The quick brown fox jumps over the lazy dog. Grüße, 漢字 😀."

CONFIG = f"""
model_list:
  - model_name: mock
    litellm_params: {{model: openai/mock, api_key: unused, mock_response: "{ANSWER}"}}
  - model_name: broken
    litellm_params: {{model: openai/mock, api_key: unused, mock_response: litellm.RateLimitError}}
  - model_name: broken-midway
    litellm_params:
      {{model: openai/mock, api_key: unused, mock_response: "Exception: mock_streaming_error"}}
  - model_name: nobody
    litellm_params: {{model: openai/mock, api_key: unused, api_base: "http://127.0.0.1:1/v1"}}
  - model_name: caller
    litellm_params: {{model: handmade/caller, api_key: unused}}
litellm_settings:
  num_retries: 0
  custom_provider_map:
    - {{provider: handmade, custom_handler: handler.caller}}
"""

HANDLER = '''
from litellm import CustomLLM


def piece(text="", call=None, finish=""):
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12} if finish else None
    return {"text": text, "tool_use": call, "is_finished": bool(finish), "finish_reason": finish,
            "usage": usage, "index": 0}


class Caller(CustomLLM):
    async def astreaming(self, *_, messages, **__):
        if messages[-1]["role"] == "tool":
            yield piece("They say: ")
            yield piece(messages[-1]["content"])
            yield piece(finish="stop")
            return
        for index, city in enumerate(["Rome", "Köln"]):
            for first, arguments in [(True, '{"city": '), (False, f'"{city}"}}')]:
                function = {"name": "get_weather" if first else None, "arguments": arguments}
                call_id = f"call_{index}" if first else None
                yield piece(call={"id": call_id, "type": "function", "index": index,
                                  "function": function})
        yield piece(finish="tool_calls")


caller = Caller()
'''


def command(port):
    litellm = pathlib.Path(sys.executable).parent / "litellm"
    return [litellm, "--config", "litellm.yaml", "--host", "127.0.0.1", "--port", port]


def ask(model, text="Say something", **definition):
    definition = {"base_url": f"{URL}/v1"} | definition
    with talk({"litellm": definition}, f"litellm/{model}") as (_, ws):
        return turn(ws, text)


def an_answer_is_streamed_whole_with_its_usage():
    events = completed(ask("mock"))
    assert said(events) == ANSWER, said(events)
    usage(events)


def calls_come_through_and_their_results_go_back():
    events = completed(ask("caller"))
    rome, koeln = {"city": "Rome"}, {"city": "Köln"}
    assert results(events) == [(rome, '{"city": "Rome"}'), (koeln, '{"city": "Köln"}')], events
    assert said(events) == 'They say: {"city": "Köln"}', said(events)
    usage(events)


def an_error_fails_the_turn_and_is_quoted():
    for model, words in [
        ("broken", "RateLimitError"),
        ("broken-midway", "raised mid-stream"),
        ("nobody", "Connection error"),
        ("no-such-model", "no-such-model"),
    ]:
        events = ask(model, max_attempts=1)
        end = events[-1]["payload"]
        assert end["status"] == "failed" and words in end["reason"], end
        assert not payloads(events, "assistant/message"), events
        print(f"      {model}: {end['reason']}")


with running(
    {"litellm.yaml": CONFIG, "handler.py": HANDLER}, command, "/health/liveliness",
    os.environ | {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
) as URL:
    checks(
        an_answer_is_streamed_whole_with_its_usage,
        calls_come_through_and_their_results_go_back,
        an_error_fails_the_turn_and_is_quoted,
    )
