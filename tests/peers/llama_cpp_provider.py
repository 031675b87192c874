"""llama-cpp-python's server from PyPI as the model provider, with a real model of random weights.

The model is made on the spot: two layers over a vocabulary of bytes, so it says anything at all,
control characters and halves of characters included. A call it is made to make keeps to the
grammar of the tool's parameters.
"""

import os
import pathlib
import sys

import gguf
import numpy

from provider import TOOL, completed, payloads, results, running, said, talk, turn
from terret import checks, send, until

CONTEXT = 2048
EMBEDDING, HEADS, FEED_FORWARD, LAYERS = 64, 4, 128, 2


def make_model(path):
    random = numpy.random.default_rng(1)
    kind = gguf.TokenType
    vocabulary = [("<unk>", kind.UNKNOWN), ("<s>", kind.CONTROL), ("</s>", kind.CONTROL)]
    vocabulary += [(f"<0x{byte:02X}>", kind.BYTE) for byte in range(256)]
    vocabulary += [(chr(code), kind.NORMAL) for code in [0x2581, *range(0x21, 0x7F)]]
    model = gguf.GGUFWriter(path, "llama")
    model.add_context_length(CONTEXT)
    model.add_embedding_length(EMBEDDING)
    model.add_block_count(LAYERS)
    model.add_feed_forward_length(FEED_FORWARD)
    model.add_head_count(HEADS)
    model.add_head_count_kv(HEADS)
    model.add_layer_norm_rms_eps(1e-5)
    model.add_rope_dimension_count(EMBEDDING // HEADS)
    model.add_vocab_size(len(vocabulary))
    model.add_tokenizer_model("llama")
    model.add_token_list([text.encode() for text, _ in vocabulary])
    model.add_token_scores([0.0] * len(vocabulary))
    model.add_token_types([int(kind) for _, kind in vocabulary])
    model.add_unk_token_id(0)
    model.add_bos_token_id(1)
    model.add_eos_token_id(2)

    def weights(name, *shape):
        values = random.standard_normal(shape) * 0.05 if len(shape) > 1 else numpy.ones(shape)
        model.add_tensor(f"{name}.weight", values.astype(numpy.float32))

    weights("token_embd", len(vocabulary), EMBEDDING)
    weights("output_norm", EMBEDDING)
    weights("output", len(vocabulary), EMBEDDING)
    for layer in range(LAYERS):
        weights(f"blk.{layer}.attn_norm", EMBEDDING)
        weights(f"blk.{layer}.ffn_norm", EMBEDDING)
        for part in ["q", "k", "v", "output"]:
            weights(f"blk.{layer}.attn_{part}", EMBEDDING, EMBEDDING)
        weights(f"blk.{layer}.ffn_gate", FEED_FORWARD, EMBEDDING)
        weights(f"blk.{layer}.ffn_up", FEED_FORWARD, EMBEDDING)
        weights(f"blk.{layer}.ffn_down", EMBEDDING, FEED_FORWARD)
    model.write_header_to_file()
    model.write_kv_data_to_file()
    model.write_tensors_to_file()
    model.close()


def command(port):
    return [sys.executable, "-m", "llama_cpp.server", "--model", str(MODEL),
            "--chat_format", "chatml-function-calling", "--n_ctx", str(CONTEXT),
            "--host", "127.0.0.1", "--port", port]


def providers():
    """The same server twice: one that must call the tool, and one that must not."""
    sure = {"temperature": 0.7, "seed": 1, "max_tokens": 64}
    choice = {"type": "function", "function": {"name": "get_weather"}}
    one = {"base_url": f"{URL}/v1", "max_concurrent_requests": 1}
    return {
        "calls": one | {"extra_body": sure | {"tool_choice": choice}},
        "talks": one | {"extra_body": sure | {"tool_choice": "none"}},
    }


def what_a_model_says_by_chance_is_streamed_and_logged():
    with talk(providers(), "talks/tiny") as (_, ws):
        for text in ["Say something", "And again"]:
            events = completed(turn(ws, text))
            assert said(events), events


def a_call_it_makes_runs_and_its_result_goes_back():
    tools = [TOOL | {"approval": "always"}]
    with talk(providers(), "calls/tiny", tools=tools, approvals=True) as (_, ws):
        send(ws, type="inject", text="What is the weather?", wake=True)
        events = until(ws, "approval/requested")
        # From the next step on it may talk, or it would call for ever.
        send(ws, type="set_model", role="main", model="talks/tiny")
        send(ws, type="approve", call_id=events[-1]["payload"]["call_id"])
        events = completed(events + until(ws, "turn/end"))
    [(args, _)] = results(events)
    assert args["city"] in ["Rome", "Köln"], args
    assert len(payloads(events, "step/start")) == 2 and said(events), events
    print(f"      {args}")


def a_history_over_its_context_is_an_answer_without_a_word():
    with talk(providers(), "talks/tiny") as (server, ws):
        end = turn(ws, "x" * (CONTEXT + 1))[-1]["payload"]
        assert end["status"] == "failed", end
        assert end["reason"] == "the provider's answer was empty (attempt 4)", end
        assert server.log().count("asked again") == 3, server.log()


MODEL = pathlib.Path(sys.argv[1])
make_model(MODEL)
with running({}, command, "/v1/models", dict(os.environ)) as URL:
    checks(
        what_a_model_says_by_chance_is_streamed_and_logged,
        a_call_it_makes_runs_and_its_result_goes_back,
        a_history_over_its_context_is_an_answer_without_a_word,
    )
