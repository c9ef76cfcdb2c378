"""How `search` spends its time: moves, encoder, candidates to start from, and the bookkeeping of the search itself.

    python benchmarks/search.py RUN [--limit N] [--split NAME] [--output FILE]

Decodes held-out inputs of RUN with `search`, with the run's own options if that is its decoder. Methods of the space
and the surrogate are timed; the rest is bookkeeping: finding new structures, sorting, and keeping the beam. Loading,
regression and metrics are not timed.
"""

import functools
import time
from collections import Counter

import torch
from common import machine, parser_of, show, today

from ele_core.components.decoders.search import SearchDecoder
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.runtime.device import pick_device
from ele_core.runtime.monitor import ConsoleMonitor
from ele_core.types import Problem

BOOKKEEPING, START, MOVES, IDENTITIES, ENCODER = "bookkeeping", "start", "moves", "identities", "encoder"


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("run", help="a finished run")
    parser.add_argument("--limit", type=int, help="only the first N inputs")
    parser.add_argument("--split", choices=["test", "validation"], default="test", help="which inputs (default test)")
    parser.add_argument("--moves", type=int, help="the most neighbours to score (default: as configured)")
    options = parser.parse_args()
    result = measured(Run(options.run), options.split, options.limit, options.moves)
    show(result, options.output)


def measured(run: Run, split: str, limit: int | None, moves: int | None = None) -> dict[str, object]:
    """Decode once, and return how the time was spent."""
    model = run.model(["decoder=search", *([] if moves is None else [f"decoder.moves={moves}"])])
    context = Context(run.config.seed, pick_device(model.config.device), ConsoleMonitor())
    data = run.data(context).data
    queries = model.queries(data.inputs_at(getattr(data, split)[:limit]))
    decoder = SearchDecoder(SearchDecoder.Config(**model.config.decoder.options))
    problem = Problem(model.space, model.candidates)
    decoder.decode(model.regressor.energy(queries[:1]), problem, context=context)  # so that compilation is not timed
    clock = Clock()
    clock.around(decoder, START, "_start")
    kind_of_moves = type(model.space.moves)
    for method in ("list", "neighbours", "best"):
        if hasattr(kind_of_moves, method):
            clock.around(kind_of_moves, MOVES, method)
    clock.around(model.space, IDENTITIES, "keys")
    energy = model.regressor.energy(queries)
    kind = clock.around(clock.around(type(energy), ENCODER, "of"), ENCODER, "at")
    counted = count_rows(kind)
    clock.start()
    found = decoder.decode(energy, problem, context=context)
    seconds = clock.stop()
    truth = data.outputs[getattr(data, split)[:limit]]
    exact = (model.space.keys(found.best) == model.space.keys(truth)).all(dim=1).float().mean().item()
    wall = sum(seconds.values())
    return {
        "command": f"python benchmarks/search.py {run.folder}{f' --limit {limit}' if limit else ''} --split {split}"
        + (f" --moves {moves}" if moves else ""),
        "date": today(),
        "task": run.config.task.name if run.config.task else None,
        "seed": run.config.seed,
        "split": split,
        "decoder": model.config.decoder.model_dump(mode="json"),
        "candidates": len(model.candidates),
        "inputs": len(queries),
        "exact": round(exact, 4),
        "evaluations": counted["evaluations"],
        "seconds": round(wall, 3),
        "evaluations_per_second": round(counted["evaluations"] / wall),
        "inputs_per_second": round(len(queries) / wall, 2),
        "seconds_of": {name: round(value, 3) for name, value in seconds.items()},
        "share_of": {name: round(value / wall, 4) for name, value in seconds.items()},
        "machine": machine(torch.get_num_threads()),
    }


class Clock:
    """Wall time by activity; only the innermost activity is counted at any moment."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((START, MOVES, ENCODER, IDENTITIES, BOOKKEEPING), 0.0)
        self.current = BOOKKEEPING
        self.since = 0.0

    def start(self) -> None:
        """Start the clock; the first activity is bookkeeping."""
        self.since = time.perf_counter()

    def stop(self) -> dict[str, float]:
        """Stop the clock and return the seconds of each activity."""
        self.turn_to(BOOKKEEPING)
        return self.seconds

    def around(self, owner, name, method):
        """Count the time inside `method` of `owner` as `name`, or as START within the start; return `owner`."""
        function = getattr(owner, method)

        @functools.wraps(function)
        def call(*arguments, **keywords):
            outer = self.turn_to(name if self.current != START else START)
            try:
                return function(*arguments, **keywords)
            finally:
                self.turn_to(outer)

        setattr(owner, method, call)
        return owner

    def turn_to(self, name):
        """Switch to the activity `name`, and return the previous one, whose time is counted."""
        now = time.perf_counter()
        self.seconds[self.current] += now - self.since
        outer, self.current, self.since = self.current, name, now
        return outer


def count_rows(kind) -> Counter[str]:
    """Count, under `evaluations`, the structures that energies of a class score after this call."""
    counted = Counter(evaluations=0)
    scored = kind.of

    def count(energy, batch, owner=None):
        counted["evaluations"] += len(batch)
        return scored(energy, batch, owner)

    kind.of = count
    return counted


if __name__ == "__main__":
    main()
