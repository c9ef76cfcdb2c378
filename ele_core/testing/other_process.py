"""The same questions to a component in this process and in others, where Python hashes texts differently.

The other processes are started once, at the first question, and end with this one.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import importlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch

from ele_core.interfaces import Component, InputSpace, OutputSpace
from ele_core.numerics.sparse import SparseRows
from ele_core.numerics.tensors import Tensors
from ele_core.testing.results import Broken, NotApplicable

SEEDS = ("1", "2", "3")
"""Values of PYTHONHASHSEED: two that differ from this process's are used."""
PROGRAM = "from ele_core.testing.other_process import serve; serve()"


def require_same_elsewhere(component: OutputSpace[Any, Any] | InputSpace[Any], texts: Sequence[str]) -> None:
    """Raise `Broken` if a component answers differently in another process. `texts`: its objects or inputs."""
    cls = type(component)
    question = {
        "path": sys.path,
        "module": cls.__module__,
        "name": cls.__qualname__,
        "config": component.config.model_dump_json(),
        "texts": list(texts),
    }
    here = dict(answers(cls, question["config"], texts))
    for worker in workers():
        there = asked(worker, question)
        different = next((name for name, answer in here.items() if there.get(name) != answer), None)
        if different is not None:
            raise Broken(
                f"{different} is different in another process, as Python's `hash` of texts and the order of a set are: "
                "sort what comes from a set, and hash numbers with `ele_core.mix`, texts with hashlib"
            )


def answers(cls: type[Any], config: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What a component of `cls` makes of texts, by operation, as digests."""
    component: Component = cls(cls.Config.model_validate_json(config))
    if isinstance(component, OutputSpace):
        yield from output_answers(component, texts)
    else:
        assert isinstance(component, InputSpace)
        values = [component.parse(text) for text in texts]
        component.fit(values)
        batch = component.pack(values)
        yield "`pack` after `fit`", digest(batch)
        yield "`features`", digest(component.features(batch))


def output_answers(space: OutputSpace[Any, Any], texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What an output space makes of texts."""
    objects = [space.parse(text) for text in texts]
    batch = space.pack(objects)
    yield "`pack`", digest(batch)
    yield "`unpack`", digest([space.format(obj) for obj in space.unpack(batch)])
    yield "`keys`", digest(space.keys(batch))
    yield "`features`", digest(space.features(batch))
    yield "`infer`", digest(space.infer(objects, {}).model_dump_json())


def digest(value: Any) -> str:
    """A hash of tensors, sparse rows or texts that is the same in every process."""
    if isinstance(value, SparseRows):
        rows = (value.between(row, row + 1) for row in range(len(value)))
        value = [sorted(zip(row.keys.tolist(), row.values.tolist(), strict=True)) for row in rows]
    if isinstance(value, Tensors):
        value = [(name, tensor.tolist()) for name, tensor in value.named_tensors()]
    if isinstance(value, torch.Tensor):
        value = value.tolist()
    return hashlib.sha256(repr(value).encode()).hexdigest()


@functools.cache
def workers() -> list[subprocess.Popen[str]]:
    """Two processes with other seeds of Python's hash."""
    own = os.environ.get("PYTHONHASHSEED", "")
    found = [started(seed) for seed in [each for each in SEEDS if each != own][:2]]
    for worker in found:
        atexit.register(ended, worker)
    return found


def started(seed: str) -> subprocess.Popen[str]:
    """A process that answers questions, one a line."""
    environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )


def asked(worker: subprocess.Popen[str], question: Mapping[str, Any]) -> dict[str, str]:
    """The answers of another process; raise `NotApplicable` if it cannot build the component."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    try:
        worker.stdin.write(json.dumps(question) + "\n")
        worker.stdin.flush()
        line = worker.stdout.readline()
    except OSError:
        line = ""
    reply: dict[str, Any] = json.loads(line) if line else {"error": "it ended"}
    if "error" in reply:
        raise NotApplicable(f"another process cannot build the component: {reply['error']}")
    found: dict[str, str] = reply["answers"]
    return found


def ended(worker: subprocess.Popen[str]) -> None:
    """End a process by closing its input."""
    for stream in (worker.stdin, worker.stdout):
        assert stream is not None
        stream.close()
    try:
        worker.wait(timeout=10)
    except subprocess.TimeoutExpired:
        worker.kill()
        worker.wait()


def serve() -> None:
    """Answer the questions of standard input on standard output; what plugins print goes to standard error."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        question = json.loads(line)
        sys.path[:] = question["path"]
        reply: dict[str, Any]
        try:
            cls: Any = importlib.import_module(question["module"])
            for part in question["name"].split("."):
                cls = getattr(cls, part)
            reply = {"answers": dict(answers(cls, question["config"], question["texts"]))}
        except Exception as error:  # the plugin may raise anything
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()
