"""llama.cpp's own server with a small model, on loopback.

usage: llama.py MODEL.gguf PORT [SCHEMA.json]     with a schema, every answer fits it
"""

import pathlib
import signal
import sys

import xllamacpp

SLOTS, CONTEXT, THREADS = 2, 4096, 2

params = xllamacpp.CommonParams()
params.model.path = sys.argv[1]
params.hostnames = ["127.0.0.1"] if isinstance(params.hostnames, list) else "127.0.0.1"
params.port = int(sys.argv[2])
params.n_parallel = SLOTS
params.n_ctx = CONTEXT * SLOTS
params.cpuparams.n_threads = THREADS
params.cpuparams_batch.n_threads = THREADS
params.use_jinja = True
# Else what requests say of formats is ignored.
params.force_pure_content_parser = False
params.warmup = False
params.verbosity = 1
if len(sys.argv) > 3:
    grammar = xllamacpp.CommonGrammar()
    grammar.type = xllamacpp.common_grammar_type.COMMON_GRAMMAR_TYPE_USER
    grammar.grammar = xllamacpp.json_schema_to_grammar(pathlib.Path(sys.argv[3]).read_text())
    params.sampling.grammar = grammar
server = xllamacpp.Server(params)
print(f"listening at {server.listening_address}", flush=True)
signal.pause()
