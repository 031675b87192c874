"""aimock from npm as the model provider: one server that speaks as OpenAI, Azure and OpenRouter do.

Its first argument is the program to run.
"""

import json
import os
import sys

from provider import completed, payloads, results, running, said, talk, turn, usage
from terret import checks

ANSWER = "Sunny in both. Grüße, 漢字 😀."
ROME, KOELN = '{"city":"Rome"}', '{"city": "Köln"}'


def call(arguments):
    return {"name": "get_weather", "arguments": arguments}


def fails(status, message, kind, code=None):
    return {"status": status, "error": {"message": message, "type": kind, "code": code}}


FIXTURES = [
    {"match": {"userMessage": "weather", "hasToolResult": False},
     "response": {"content": "A moment. ", "toolCalls": [call(ROME), call(KOELN)]}},
    {"match": {"userMessage": "weather", "hasToolResult": True}, "response": {"content": ANSWER}},
    {"match": {"userMessage": "think"}, "response": {"content": "42", "reasoning": "Six by nine?"}},
    {"match": {"userMessage": "rate", "sequenceIndex": 0},
     "response": fails(429, "slow down", "rate_limit_error")},
    {"match": {"userMessage": "rate"}, "response": {"content": "At last."}},
    {"match": {"userMessage": "cut"}, "response": {"content": ANSWER * 9},
     "truncateAfterChunks": 3, "latency": 20},
    {"match": {"userMessage": "long"},
     "response": fails(400, "This model's maximum context length is 8192 tokens.",
                       "invalid_request_error", "context_length_exceeded")},
]

# Where each dialect is asked.
PATHS = {
    "openai": "/v1",
    "azure": "/openai/deployments/gpt-4o?api-version=2024-10-21",
    "openrouter": "/api/v1",
}


def command(port):
    return ["node", sys.argv[1], "--strict", "--fixtures", "fixtures.json", "--port", port]


def ask(dialect, text, **definition):
    """One turn, and what the server has logged by its end."""
    definition = {"base_url": URL + PATHS[dialect]} | definition
    with talk({"aimock": definition}, "aimock/gpt-4o") as (server, ws):
        return turn(ws, text), server.log()


def calls_come_through_and_their_results_go_back_in_every_dialect():
    for dialect in PATHS:
        events = completed(ask(dialect, "the weather")[0])
        expected = [({"city": "Rome"}, ROME), ({"city": "Köln"}, KOELN)]
        assert results(events) == expected, events
        assert said(events) == "A moment. " + ANSWER, said(events)
        usage(events)


def a_thought_is_no_answer():
    events = completed(ask("openrouter", "think")[0])
    assert said(events) == "42", said(events)


def a_rate_is_waited_for_as_long_as_the_server_asks():
    events, log = ask("openai", "rate")
    assert said(completed(events)) == "At last.", events
    retried = [line for line in log.splitlines() if "asked again" in line]
    assert len(retried) == 1 and "slow down" in retried[0], log
    assert "attempt=1 wait_ms=1000" in retried[0], log


def a_cut_answer_fails_the_turn():
    events, _ = ask("openai", "cut", max_attempts=1)
    end = events[-1]["payload"]
    assert end["status"] == "failed" and not payloads(events, "assistant/message"), events
    print(f"      {end['reason']}")


def a_context_that_is_too_small_is_tried_with_half_the_history():
    events, log = ask("azure", "long")
    end = events[-1]["payload"]
    assert end["status"] == "failed" and "maximum context length" in end["reason"], end
    assert log.count("asked again with half the history") == 1, log


with running({"fixtures.json": json.dumps({"fixtures": FIXTURES})}, command, "/health",
             dict(os.environ)) as URL:
    checks(
        calls_come_through_and_their_results_go_back_in_every_dialect,
        a_thought_is_no_answer,
        a_rate_is_waited_for_as_long_as_the_server_asks,
        a_cut_answer_fails_the_turn,
        a_context_that_is_too_small_is_tried_with_half_the_history,
    )
