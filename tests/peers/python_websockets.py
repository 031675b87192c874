"""The `websockets` library from PyPI as a client."""

import json

from terret import PATIENCE_S, Server, checks, close_code, error, hello, receive, send, until

GOLDEN = ["turn/start", "step/start", "user/message"]


def a_whole_turn():
    with Server({}) as server, server.connect() as ws:
        assert hello(ws) == 0
        send(ws, type="subscribe", from_seq=0)
        send(ws, type="inject", text="one two three", wake=True)
        events = until(ws, "turn/end")
        kinds = [event["type"] for event in events]
        assert kinds[:4] == ["session/created", *GOLDEN], kinds
        assert kinds[-3:] == ["assistant/message", "step/end", "turn/end"], kinds
        assert set(kinds[4:-3]) == {"assistant/chunk"}, kinds
        assert [event["seq"] for event in events] == list(range(len(events)))
        said = "".join(e["payload"]["text"] for e in events if e["type"] == "assistant/chunk")
        assert "one two three" in said, said
        assert events[-1]["payload"] == {"status": "completed"}


def reconnecting_from_every_seq():
    with Server({}) as server:
        with server.connect() as ws:
            hello(ws)
            send(ws, type="subscribe", from_seq=0)
            send(ws, type="inject", text="words " * 20, wake=True)
            log = until(ws, "turn/end")
        for seq in range(len(log)):
            with server.connect() as ws:
                assert hello(ws) == len(log) - 1
                send(ws, type="subscribe", from_seq=seq)
                assert [receive(ws) for _ in log[seq:]] == log[seq:], seq


def dropping_in_the_middle_of_a_stream():
    script = {"kind": "scripted", "steps": [{"chunks": [f"{n} " for n in range(60)],
                                             "chunk_delay_ms": 5}]}
    config = {"providers": {"script": script}, "roles": {"main": "script/m"}}
    with Server(config) as server:
        seen = []
        while not seen or seen[-1]["type"] != "turn/end":
            with server.connect() as ws:
                hello(ws)
                send(ws, type="subscribe", from_seq=len(seen))
                if not seen:
                    send(ws, type="inject", text="go", wake=True)
                for _ in range(7):
                    seen.append(receive(ws))
                    if seen[-1]["type"] == "turn/end":
                        break
        assert [event["seq"] for event in seen] == list(range(len(seen)))
        assert [e["payload"]["text"] for e in seen if e["type"] == "assistant/chunk"] == [
            f"{n} " for n in range(60)
        ]


def close_codes():
    with Server({}) as server:
        with server.connect(token="wrong") as ws:
            assert error(ws) == "unauthorized"
            assert close_code(ws) == 4401
        with server.connect() as older:
            hello(older)
            with server.connect() as newer:
                hello(newer)
                assert error(older) == "superseded"
                assert close_code(older) == 4409
                assert server.terminate() == 0
                assert close_code(newer) == 1001


def what_is_wrong_is_answered_and_the_connection_stays():
    with Server({}) as server, server.connect() as ws:
        hello(ws)
        for wrong in ["nonsense", "{}", b"binary", '{"type":"subscribe","from_seq":1.0}']:
            ws.send(wrong)
            assert error(ws) == "bad_frame", wrong
        send(ws, type="cancel")
        assert error(ws) == "not_running"
        send(ws, type="approve", call_id="c1")
        assert error(ws) == "unsupported"


def fragments_pings_and_large_messages():
    with Server({}) as server, server.connect() as ws:
        hello(ws)
        assert ws.ping(b"payload").wait(PATIENCE_S)
        # An iterable is sent as one message in fragments.
        ws.send(iter(['{"type":"sub', 'scribe","from', '_seq":0}']))
        assert receive(ws)["seq"] == 0
        frame = json.dumps({"type": "inject", "text": ""})
        exact = json.dumps({"type": "inject", "text": "x" * ((1 << 20) - len(frame))})
        assert len(exact) == 1 << 20
        ws.send(exact)
        ws.send(exact + " ")
        assert error(ws) == "bad_frame"
        send(ws, type="inject", text="now", wake=True)
        events = until(ws, "turn/end")
        injected = [e["payload"]["text"] for e in events if e["type"] == "context/injected"]
        assert [len(text) for text in injected] == [(1 << 20) - len(frame)]


def heartbeats():
    with Server({"heartbeat_s": 1}) as server, server.connect() as ws:
        hello(ws)
        # The library answers the pings; a client that did not would be dropped within these.
        try:
            ws.recv(timeout=5)
            raise AssertionError("nothing was asked for")
        except TimeoutError:
            pass
        send(ws, type="subscribe", from_seq=0)
        assert receive(ws)["seq"] == 0


checks(
    a_whole_turn,
    reconnecting_from_every_seq,
    dropping_in_the_middle_of_a_stream,
    close_codes,
    what_is_wrong_is_answered_and_the_connection_stays,
    fragments_pings_and_large_messages,
    heartbeats,
)
