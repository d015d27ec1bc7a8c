"""A real language model with sortie: SmolLM2-135M on llama.cpp's own server, over Chat Completions and over Messages.

usage: small_model.py SORTIE PYTHON MODEL.gguf     PYTHON is the one that has xllamacpp

A `minimal` subagent with `tool_mode = "json-schema"` must end within a minute, cleanly, whatever the model says. Over
Chat Completions the schema goes with the request. llama.cpp's Messages knows no formats: there the server itself is
started with the schema that was sent before, as `llama-server --json-schema` is.
"""

import json
import pathlib
import sys
import tempfile
import time
import urllib.request

from kit import Run, check, free_port, server, workspace

HERE = pathlib.Path(__file__).parent
LIMIT = 60
PLAN = """
version = 1
name = "small"
[[node]]
id = "a"
role = "minimal"
turns = 3
prompt = "Read notes.txt, then report what it says."
"""
CONFIG = """
[providers.small]
protocol = "{protocol}"
base_url = "{url}/v1"
tool_mode = "json-schema"
[models."small/smollm2"]
context_window = 4096
max_output = 120
"""


def ready(url):
    """The server listens before it has read its model."""
    for _ in range(300):
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5):
                return
        except OSError:
            time.sleep(0.1)
    raise SystemExit("FAILED: the model is not loaded after 30 s")


def play(sortie, url, protocol):
    """One run; returns it with the bodies that were sent."""
    with workspace() as tree:
        place = tree.parent
        (place / "config" / "sortie").mkdir(parents=True)
        (place / "config" / "sortie" / "config.toml").write_text(CONFIG.format(protocol=protocol, url=url))
        (place / "plan.toml").write_text(PLAN)
        args = ["--plan", str(place / "plan.toml"), "--model", "small/smollm2", "--trace-http"]
        args += ["--node-timeout", f"{LIMIT - 10}s"]
        done = Run(sortie, tree, args, {"XDG_CONFIG_HOME": str(place / "config")})
        trace = next(tree.glob(".sortie/runs/*/http.jsonl"))
        lines = [json.loads(line) for line in trace.read_text().splitlines()]
        return done, lines


def bodies(lines):
    """Bodies of requests, wherever the trace has them."""
    for line in lines:
        body = line.get("body")
        if isinstance(body, dict) and "messages" in body:
            yield body


def report(name, done, asked):
    node = done.node("a")
    done.ended_cleanly()
    check(done.seconds < LIMIT, f"{name}: {done.seconds:.0f} s, at most {LIMIT}")
    check(asked > 0 and node["usage"]["output"] > 0, f"{name}: the model was not heard: {done.stderr[-2000:]}")
    print(f"   {name}: {node['outcome']} after {asked} requests, {node['usage']['output']} tokens, {done.seconds:.1f} s")


def main(sortie, python, gguf):
    llama = [python, str(HERE / "llama.py"), gguf]
    port = free_port()
    with server([*llama, str(port)], port) as url:
        ready(url)
        done, lines = play(sortie, url, "openai-chat")
        sent = list(bodies(lines))
        report("Chat Completions, schema with the request", done, len(sent))
        check(done.node("a")["outcome"] in ("succeeded", "partial"), f"every answer was valid JSON, and yet: {done.stdout}")
        check(not any("tools" in body for body in sent), "tools are offered by schema alone")
        schema = sent[0]["response_format"]["json_schema"]["schema"]
        # Free text, tools by the protocol's own means or none: nothing to hold on to.
        done, lines = play(sortie, url, "anthropic")
        report("Messages, free text", done, len(list(bodies(lines))))
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(schema, file)
        file.flush()
        port = free_port()
        with server([*llama, str(port), file.name], port) as url:
            ready(url)
            done, lines = play(sortie, url, "anthropic")
            report("Messages, schema with the server", done, len(list(bodies(lines))))
            check(done.node("a")["outcome"] in ("succeeded", "partial"), f"every answer was valid JSON, and yet: {done.stdout}")


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
