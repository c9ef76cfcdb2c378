"""The task `number-words`: "three hundred and five" → "305", with no test number seen in training."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from pydantic import Field

from ele_core import ComponentConfig, Context, DataSet, OutputSpace, Task, pack_all, split
from ele_core.experiments.ranges import Range

LARGEST = 999_999
SMALL = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


RANGES = {
    "surrogate.loss.temperature": Range(low=0.03, high=0.3, log=True),
    "regressor.backbone.width": Range(choices=(32, 64, 128, 256)),
    "regressor.training.learning_rate": Range(low=1e-3, high=1e-2, log=True),
}
"""The ranges that `ele tune` searches by default."""


class NumberWords(Task):
    """Distinct numbers of one to six digits: no test output is among the candidates."""

    class Config(ComponentConfig):
        """How many numbers."""

        size: int = Field(21_500, ge=30, le=500_000)
        """Pairs in all; a test or validation number never occurs in training."""
        validation: float = Field(500, gt=0)
        """Pairs for early stopping (a share if below 1)."""
        test: float = Field(1000, gt=0)
        """Pairs for the final measure (a share if below 1)."""
        seed: int | None = None
        """The seed for drawing and splitting the numbers; by default the seed of the run."""

    config: Config
    ranges: ClassVar[Mapping[str, Range]] = RANGES

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """A configuration that learns the task in a few minutes on two cores."""
        return {
            "output": {"name": "sequence", "alphabet": list("0123456789"), "length": 6},
            "input": {"name": "text", "level": "regex", "pattern": r"\w+", "max_length": 32},
            "surrogate": {
                "name": "contrastive",
                "dim": 64,
                "encoder": {"name": "sequence"},
                "training": {"epochs": 8, "batch_size": 256, "evaluations": 8},
            },
            "regressor": {
                "name": "neural",
                "backbone": {"name": "gru", "embedding": 64, "layers": 1, "width": 128},
                "training": {"epochs": 6, "learning_rate": 3e-3, "evaluations": 6},
                "weigh_errors": False,
            },
            "decoder": {"name": "pgd"},
        }

    def load(self, space: OutputSpace[Any, Any], context: Context) -> DataSet:
        """Draw the numbers, spell them, pack their digits."""
        seed = context.seed if self.config.seed is None else self.config.seed
        numbers = draw(self.config.size, seed)
        words, digits = [spell(number) for number in numbers], [str(number) for number in numbers]
        train, validation, test = split(len(numbers), self.config.validation, self.config.test, seed)
        return DataSet(
            inputs=words,
            outputs=pack_all(space, digits, context),
            train=train,
            validation=validation,
            test=test,
            source=f"number-words (generated, seed {seed})",
            fingerprint=hashlib.sha256("\n".join(words).encode()).hexdigest(),
        )


def draw(count: int, seed: int) -> list[int]:
    """Draw `count` distinct numbers, often short: each has at most k digits, k drawn uniformly from 1…6."""
    generator = torch.Generator().manual_seed(seed)
    found: dict[int, None] = {}
    while len(found) < count:
        digits = torch.randint(1, 7, (count,), generator=generator)
        below = 10 ** digits.double()
        drawn = (torch.rand(count, generator=generator, dtype=torch.double) * below).long()
        found.update(dict.fromkeys(drawn.tolist()))
    return list(found)[:count]


def spell(number: int) -> str:
    """Write a number from 0 to 999,999 in English words."""
    if not 0 <= number <= LARGEST:
        raise ValueError(f"{number} is not between 0 and {LARGEST:,}")
    thousands, rest = divmod(number, 1000)
    if not thousands:
        return spell_below_1000(rest)
    head = f"{spell_below_1000(thousands)} thousand"
    if not rest:
        return head
    return f"{head} {'and ' if rest < 100 else ''}{spell_below_1000(rest)}"


def spell_below_1000(number: int) -> str:
    """Write a number from 0 to 999 in English words."""
    hundreds, rest = divmod(number, 100)
    if hundreds:
        head = f"{SMALL[hundreds]} hundred"
        return f"{head} and {spell_below_1000(rest)}" if rest else head
    if rest < len(SMALL):
        return SMALL[rest]
    tens, ones = divmod(rest, 10)
    return TENS[tens - 2] + (f"-{SMALL[ones]}" if ones else "")
