"""Tasks whose data are not what they say."""

from __future__ import annotations

import dataclasses
import hashlib
import uuid

import torch

from ele_sequences.number_words import NumberWords
from ele_sequences.space import SequenceSpace
from mistakes.listing import ONE_LAW, mistake

tasks = mistake("tasks")


@tasks("check_task_pairs_are_on_one_side")
class PairsOnBothSides(NumberWords):
    """The data hold some pairs twice, once in training and once in the test."""

    def load(self, space, context):
        data = super().load(space, context)
        inputs = list(data.inputs)
        outputs = data.outputs.map(torch.clone)
        for copy, original in zip(data.test[:3].tolist(), data.train[:3].tolist(), strict=True):
            inputs[copy] = inputs[original]
            outputs.tokens[copy] = outputs.tokens[original]
        return dataclasses.replace(data, inputs=inputs, outputs=outputs)


@tasks("check_task_pairs_are_on_one_side")
class RepeatsToFill(NumberWords):
    """The data are too few and are repeated before they are split."""

    def load(self, space, context):
        data = super().load(space, context)
        rows = torch.arange(len(data)) % (len(data) // 2)
        return dataclasses.replace(data, inputs=data.inputs_at(rows), outputs=data.outputs[rows])


@tasks("check_task_fingerprint_is_of_the_data")
class FingerprintOfTheName(NumberWords):
    """The fingerprint is that of the task's name."""

    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, fingerprint=hashlib.sha256(b"number-words").hexdigest())


@tasks("check_task_fingerprint_is_of_the_data")
class FingerprintOfTheSize(NumberWords):
    """The fingerprint is that of the number of pairs."""

    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, fingerprint=hashlib.sha256(str(len(data)).encode()).hexdigest())


@tasks("check_task_fingerprint_is_of_the_data")
class NoFingerprint(NumberWords):
    """The fingerprint is empty."""

    def load(self, space, context):
        return dataclasses.replace(super().load(space, context), fingerprint="")


@tasks("check_task_data_fit_its_spaces")
class PacksByItself(NumberWords):
    """The outputs are packed by a space of the task's own, with other labels than the space that it is given."""

    def load(self, space, context):
        data = super().load(space, context)
        own = SequenceSpace(SequenceSpace.Config(alphabet=("9", *"012345678"), length=8))
        return dataclasses.replace(data, outputs=own.pack(space.unpack(data.outputs)))


@tasks("check_task_pairs_are_on_one_side")
class InputsAreNotTexts(NumberWords):
    """The inputs are lists of words, which the input space of the task does not take."""

    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, inputs=[text.split() for text in data.inputs])


@tasks(None)
class ShiftsItsOutputs(NumberWords):
    """Every output belongs to the input before it."""

    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, outputs=data.outputs[torch.arange(len(data)).roll(1)])


@tasks("check_task_splits_are_apart")
class KeepsItsGeneratorOpen(NumberWords):
    """The inputs are a generator, which can be read once."""

    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, inputs=(text for text in data.inputs))


caught_by = mistake(ONE_LAW)


@caught_by("check_task_splits_are_apart")
class Overlapping(NumberWords):
    def load(self, space, context):
        data = super().load(space, context)
        return dataclasses.replace(data, test=data.train[:5])


@caught_by("check_task_is_seeded")
class Unseeded(NumberWords):
    def load(self, space, context):
        return dataclasses.replace(super().load(space, context), fingerprint=uuid.uuid4().hex)
