"""Objects that must be refused, and are not: only the author knows them, and lists them in `counterexamples`."""

from __future__ import annotations

from ele_core.components.inputs.text import TextInput
from mistakes.bases import Labels, Teams, Words
from mistakes.listing import mistake

counterexamples = mistake("counterexamples")


@counterexamples("check_counterexamples_are_refused")
class CutsLongWords(Words):
    """`pack` cuts texts that are too long."""

    def pack(self, objects):
        return super().pack([obj[: self.config.length] if isinstance(obj, str) else obj for obj in objects])

    def counterexamples(self):
        return ["a" * (self.config.length + 1)]


@counterexamples("check_counterexamples_are_refused")
class DropsUnknownLabels(Labels):
    """`pack` drops labels that it does not know."""

    def pack(self, objects):
        known = self.config.labels
        return super().pack(
            [[label for label in obj if label in known] if isinstance(obj, list) else obj for obj in objects]
        )

    def counterexamples(self):
        return [[self.config.labels[0], "no such label"]]


@counterexamples("check_counterexamples_are_refused")
class FailsAtUnknownLabels(Labels):
    """`pack` fails with a KeyError at a label that it does not know."""

    def pack(self, objects):
        number = {label: index for index, label in enumerate(self.config.labels)}
        [number[label] for obj in objects if isinstance(obj, list) for label in obj]
        return super().pack(objects)

    def counterexamples(self):
        return [["no such label"]]


@counterexamples("check_counterexamples_are_refused")
class TakesTeamsOfThree(Teams):
    """`pack` does not count, although a team has two people."""

    def counterexamples(self):
        return [frozenset(self.config.people[:3])]


@counterexamples("check_counterexamples_are_refused")
class CallsTheFirstWrong(Words):
    """`pack` refuses a text that is too long with the index of another one."""

    def pack(self, objects):
        if any(isinstance(obj, str) and len(obj) > self.config.length for obj in objects):
            raise self.invalid("a text is too long.", 0)
        return super().pack(objects)

    def counterexamples(self):
        return ["a" * (self.config.length + 1)]


@counterexamples("check_counterexamples_are_refused")
class ReadsAnyText(TextInput):
    """`pack` of an input space takes a text of spaces only, which its author wants to be refused."""

    def counterexamples(self):
        return ["   "]
