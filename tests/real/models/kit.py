"""What the checks against real servers share: a server that is always ended, a run of sortie, a check."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

# No healthy run here takes a third of it.
PATIENCE = 90


def check(held, message):
    """Ends this check with the message unless it held."""
    if not held:
        raise SystemExit(f"FAILED: {message}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextlib.contextmanager
def server(command, port, patience=30, env=None):
    """Starts a server and waits until it listens; ends it and all that it started, whatever happens."""
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, start_new_session=True,
            env={**os.environ, **(env or {})},
        )
        try:
            end = time.monotonic() + patience
            while True:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
                    break
                if process.poll() is not None or time.monotonic() > end:
                    log.seek(0)
                    raise SystemExit(f"FAILED: `{' '.join(command)}` does not listen:\n{log.read()[-2000:]}")
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@contextlib.contextmanager
def workspace():
    """A small tree to work in, with room for state beside it."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="sortie-real-"))
    try:
        tree = place / "tree"
        tree.mkdir()
        (tree / "a.rs").write_text("/// Adds.\npub fn add(a: i64, b: i64) -> i64 {\n    a + b\n}\n")
        (tree / "b.rs").write_text("use crate::a::add;\n\npub fn sum(all: &[i64]) -> i64 {\n    all.iter().fold(0, |a, b| add(a, *b))\n}\n")
        (tree / "notes.txt").write_text("The answer is forty-two.\n")
        yield tree
    finally:
        shutil.rmtree(place, ignore_errors=True)


class Run:
    """A run that has ended: its exit code, the object that it printed, and how long it took."""

    def __init__(self, sortie, tree, args, env):
        clean = {key: os.environ[key] for key in ("PATH", "HOME", "LANG") if key in os.environ}
        state = str(tree.parent / "state")
        begun = time.monotonic()
        try:
            done = subprocess.run(
                [sortie, "run", "-C", str(tree), "--output", "json", *args], stdin=subprocess.DEVNULL, text=True,
                capture_output=True, timeout=PATIENCE, env={**clean, "SORTIE_STATE_DIR": state, **env},
            )
        except subprocess.TimeoutExpired:
            raise SystemExit(f"FAILED: `sortie run {' '.join(args)}` had not ended after {PATIENCE} s")
        self.seconds = time.monotonic() - begun
        self.code, self.stdout, self.stderr = done.returncode, done.stdout, done.stderr
        try:
            self.result = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise SystemExit(f"FAILED: no result object (exit {self.code}):\n{self.stdout[-1000:]}\n{self.stderr[-3000:]}")
        check(self.result["exit_code"] == self.code, f"exit code {self.code} is not the {self.result['exit_code']} told")

    def node(self, name):
        return next(node for node in self.result["nodes"] if node["id"] == name)

    def ended_cleanly(self):
        """Every node has an outcome, and the exit code is one of a run that ended by itself."""
        check(self.code in (0, 1, 4), f"exit code {self.code}:\n{self.stderr[-3000:]}")
        outcomes = {"succeeded", "partial", "failed", "skipped", "timed_out"}
        for node in self.result["nodes"]:
            check(node["outcome"] in outcomes, f"node {node['id']} ended as {node['outcome']}")
        check("panicked" not in self.stdout + self.stderr, f"something panicked:\n{self.stderr[-3000:]}")
