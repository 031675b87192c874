"""Runs the suite's cases against the echo server and compares what came out with expected.json.

The suite's own verdict "OK" does not say that a close code was sent, so the code it received is
compared too.
"""

import json
import pathlib
import subprocess
import sys

LIMIT_S = 900


def main(echo, wstest, report, cases):
    expected = json.loads((pathlib.Path(__file__).parent / "expected.json").read_text())
    report = pathlib.Path(report)
    report.mkdir(parents=True, exist_ok=True)
    server = subprocess.Popen([echo], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        spec = {
            "outdir": str(report),
            "servers": [{"agent": "echo", "url": "ws://" + server.stdout.readline().strip()}],
            "cases": cases,
            "exclude-cases": ["12.*", "13.*"],
            "exclude-agent-cases": {},
        }
        (report / "spec.json").write_text(json.dumps(spec))
        (report / "index.json").unlink(missing_ok=True)
        command = [wstest, "-m", "fuzzingclient", "-s", str(report / "spec.json")]
        with open(report / "log", "w") as log:
            subprocess.run(command, timeout=LIMIT_S, stdout=log, stderr=log, check=True)
    finally:
        server.stdin.close()
        server.wait(60)
    found = json.loads((report / "index.json").read_text())["echo"]
    wrong = 0
    for case, outcome in found.items():
        got = [outcome["behavior"], outcome["remoteCloseCode"]]
        if got != expected.get(case):
            wrong += 1
            print(f"case {case}: {got}, expected {expected.get(case)}: see {report}/{outcome['reportfile']}")
    print(f"autobahn: {len(found)} cases, {wrong} not as expected")
    return 1 if wrong or not found else 0


sys.exit(main(*sys.argv[1:4], sys.argv[4:]))
