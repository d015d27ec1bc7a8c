"""Whole runs against aimock, a third party's server of model APIs: a task that becomes a plan of parallel nodes with
parallel tool calls and reports, over all three protocols; the same with requests that fail, and with chaos.

usage: aimock.py SORTIE CLI     CLI is aimock's dist/cli.js
"""

import json
import pathlib
import sys
import tempfile
import urllib.request

from kit import Run, check, free_port, server, workspace

MODELS = ["anthropic/claude-sonnet-4-5", "openai/gpt-4o", "openai-responses/gpt-4o"]
QUESTION = "What does the code add up?"


def call(tool, **args):
    return {"name": tool, "arguments": args}


def fixture(reply, **match):
    return {"match": match, "response": reply}


def script():
    """By what was said last: aimock counts a parallel call of Responses as a turn of its own."""
    nodes = [{"id": part, "prompt": f"PART-{part}: read it."} for part in "abc"]
    nodes.append({"id": "sum", "prompt": "PART-sum: put it together.", "needs": ["a", "b", "c"]})
    fixtures = []
    for node in nodes:
        mine = f"PART-{node['id']}"
        report = call("report", status="done", summary=f"{node['id']} adds.")
        fixtures.append(fixture({"toolCalls": [report]}, userMessage=mine, hasToolResult=True))
        reads = [call("read_file", file_path="a.rs"), call("read_file", file_path="b.rs"), call("list_files")]
        fixtures.append(fixture({"content": "Reading all of it.", "toolCalls": reads}, userMessage=mine))
    fixtures += [
        fixture({"content": "It adds numbers: a.rs:2."}, userMessage=QUESTION, toolResultContains="sum adds."),
        fixture({"toolCalls": [call("submit_plan", name="look", node=nodes)]}, userMessage=QUESTION, hasToolResult=True),
        fixture({"content": "First a look.", "toolCalls": [call("list_files"), call("search_code", pattern="fn")]},
                userMessage=QUESTION),
    ]
    return {"fixtures": fixtures}


def post(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.read()


def journal(url):
    with urllib.request.urlopen(f"{url}/__aimock/journal", timeout=10) as reply:
        return json.load(reply)


def run(sortie, url, tree, model, *args):
    env = {"ANTHROPIC_API_KEY": "key-1", "ANTHROPIC_BASE_URL": url, "OPENAI_API_KEY": "key-2", "OPENAI_BASE_URL": f"{url}/v1"}
    done = Run(sortie, tree, ["--model", model, *args, QUESTION], env)
    for secret in ("key-1", "key-2"):
        check(secret not in done.stdout + done.stderr, "a key is in the output")
    return done


def whole(sortie, cli, fixtures):
    port = free_port()
    with server(["node", cli, "-p", str(port), "-f", fixtures, "-c", "7", "--strict"], port) as url:
        for model in MODELS:
            for failing in (None, {"status": 500}, {"status": 429, "retry_after": 1}, {"status": 529}):
                if failing:
                    error = {"message": "not now", "type": "overloaded_error"}
                    post(f"{url}/__aimock/error", {"status": failing["status"], "body": error})
                before = len(journal(url))
                with workspace() as tree:
                    done = run(sortie, url, tree, model)
                requests = journal(url)[before:]
                statuses = [entry["response"]["status"] for entry in requests]
                name = f"{model}, {'first ' + str(failing['status']) if failing else 'all well'}"
                check(done.code == 0, f"{name}: exit {done.code}, {statuses}\n{done.stderr[-3000:]}")
                check(done.result["answer"] == "It adds numbers: a.rs:2.", f"{name}: {done.result['answer']}")
                outcomes = {node["id"]: node["outcome"] for node in done.result["nodes"]}
                check(outcomes == dict.fromkeys(("a", "b", "c", "sum"), "succeeded"), f"{name}: {outcomes}")
                # Three turns of the coordinator and two of each node; what failed was sent again, once.
                check(statuses.count(200) == 11 and len(statuses) == 11 + bool(failing), f"{name}: {statuses}")
                print(f"   {name}: {len(statuses)} requests, {done.seconds:.1f} s")


def chaos(sortie, cli, fixtures):
    rates = {"drop": "0.25", "malformed": "0.25", "disconnect": "0.25", "ratelimit": "0.1"}
    for flag, rate in rates.items():
        port = free_port()
        command = ["node", cli, "-p", str(port), "-f", fixtures, "-c", "7", f"--chaos-{flag}", rate]
        with server(command, port) as url:
            for model in MODELS:
                with workspace() as tree:
                    done = run(sortie, url, tree, model, "--deadline", "60s")
                done.ended_cleanly()
                outcomes = [node["outcome"] for node in done.result["nodes"]]
                print(f"   {model}, chaos {flag} {rate}: exit {done.code}, {outcomes}, {done.seconds:.1f} s")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        file = pathlib.Path(place, "script.json")
        file.write_text(json.dumps(script()))
        whole(sys.argv[1], sys.argv[2], str(file))
        chaos(sys.argv[1], sys.argv[2], str(file))
