"""The parser of Prometheus's own Python client reads what `/metrics` says."""

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from terret import Server, checks, hello, send, until


def every_family_parses():
    with Server({}) as server, server.connect() as ws:
        hello(ws)
        send(ws, type="subscribe", from_seq=0)
        send(ws, type="inject", text="one two three", wake=True)
        events = until(ws, "turn/end")
        with urllib.request.urlopen(f"http://{server.address}/metrics") as answer:
            page = answer.read().decode()
        families = {family.name: family for family in text_string_to_metric_families(page)}
        assert families["terret_append_seconds"].type == "histogram"
        assert families["terret_agents"].type == "gauge"
        appended = families["terret_events_appended"]
        assert appended.type == "counter" and appended.samples[0].value == len(events), appended
        assert all(family.documentation for family in families.values())
        assert not any(family.type == "unknown" for family in families.values())


checks(every_family_parses)
