"""The assembled components of one predictor, and decoding with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ele_core.components.decoders.candidates import nearest, sizes_of_own
from ele_core.components.decoders.constraints import as_bound, digest_of, require_obeyed
from ele_core.config import RunConfig
from ele_core.data.objects import pack_all
from ele_core.errors import ConfigError, EleError, ModelError
from ele_core.interfaces import Decoder, Energy, InputSpace, Learner, OutputSpace, Regressor, Surrogate
from ele_core.model.constraints import implied, read_constraints
from ele_core.model.loss import LearnedLoss, Reduction
from ele_core.model.trust.calibration import Calibration
from ele_core.numerics.keys import distinct, ranks
from ele_core.numerics.tensors import Tensors
from ele_core.runtime.blockwise import AsTensors, in_blocks
from ele_core.runtime.context import Context
from ele_core.runtime.device import CPU, seeded
from ele_core.runtime.distributed import Processes
from ele_core.runtime.work import Snapshot, prefixed
from ele_core.types import Candidates, Choice, Decoding, Problem, Trace

BLOCK = 128
"""Inputs decoded at a time: limits the memory of a decoder, and the work that is repeated after a stop."""
PROPOSED = 10
"""Structures that proposers are asked for, for each input."""
RANKED = 24
"""The best structures of a decoder that are ranked together with the proposals, by the whole energy."""
MOST = 10_000
"""Structures that may be asked for, for each input; as many as there are candidates if these are more."""


@dataclasses.dataclass
class Model:
    """An output space, an input space, a trained surrogate and regressor, and the candidates to decode with."""

    config: RunConfig
    space: OutputSpace[Any, Any]
    inputs: InputSpace[Any]
    surrogate: Surrogate
    regressor: Regressor
    candidates: Candidates | None = None
    device: torch.device = CPU
    calibration: Calibration | None = None
    """The calibrated confidence of predictions; None: not calibrated."""
    seed: int = 0
    """The seed of first weights."""
    decoders: dict[str, Decoder] = dataclasses.field(default_factory=dict, repr=False)
    """The decoders that were asked for, each created once."""
    fitted: dict[str, Learner] = dataclasses.field(default_factory=dict, repr=False)
    """The decoders that have learned, by name."""

    @classmethod
    def build(cls, config: RunConfig, space: OutputSpace[Any, Any], inputs: InputSpace[Any], seed: int) -> Model:
        """Create the components with weights initialised from `seed`; `inputs` must be fitted."""
        registry = config.registry
        with seeded(seed):
            surrogate: Surrogate = registry.create("surrogate", config.surrogate, space, path="surrogate")
            regressor: Regressor = registry.create("regressor", config.regressor, inputs, surrogate, path="regressor")
        model = cls(config, space, inputs, surrogate, regressor, seed=seed)
        model.decoder(config.decoder)
        return model

    def to(self, device: torch.device) -> Model:
        """Move everything that learns to `device`."""
        for learner in self.learners().values():
            learner.to(device)
        self.device = device
        return self

    def queries(self, values: Sequence[Any]) -> Tensor:
        """Predict the queries of inputs: (B, q)."""
        return self.regressor.predict(self.pack(values))

    def pack(self, values: Sequence[Any]) -> Tensors:
        """Pack inputs; refuse those of which the constraint that follows cannot be read, too."""
        packed = self.inputs.pack(values)
        self.implied(values)
        return packed

    def embed(self, objects: Sequence[Any], context: Context) -> Tensor:
        """Embed the user's objects: (B, dim)."""
        return self.surrogate.embed(pack_all(self.space, objects, context))

    def decode(
        self,
        queries: Tensor,
        decoder: Choice | None = None,
        *,
        top_k: int = 1,
        candidates: Candidates | None = None,
        constraints: Sequence[Any | None] | None = None,
        trace: bool = False,
        context: Context,
    ) -> Decoding:
        """Find the structures of least energy for each query, by `decoder` or else by the configured one.

        `constraints`: one for each query, which its structures must satisfy (`Rules.Constraint`); None: any will
        do. If no structure satisfies it, its energies are infinite. With `trace`, a decoder that supports it
        (`Decoder.traces`) also records the structures it passed through.
        """
        if top_k < 1:
            raise ConfigError(f"should be at least 1, not {top_k}.", where="top_k")
        engine = self.decoder(decoder or self.config.decoder)
        self.require_fitted(decoder or self.config.decoder, engine)
        chosen = candidates if candidates is not None else self.candidates
        if chosen is None:
            raise ModelError("the model has no candidates.", fix="Fit it first, or give candidates.")
        if top_k > (most := max(len(chosen), MOST)):
            raise ConfigError(f"should be at most {most:,} here, not {top_k:,}.", where="top_k")
        if chosen.owner is not None:
            sizes_of_own(chosen.owner, len(queries))
        chosen = share_of(chosen, self.config.candidates.share, context)
        asked = {"trace": True} if trace and engine.traces else {}
        energy = self.regressor.energy(queries)
        bound = as_bound(constraints, len(queries))
        name = (decoder or self.config.decoder).name

        def block(first: int, end: int, context: Context) -> Decoding:
            own, asking = None if bound is None else bound[first:end], energy[first:end]
            problem = Problem(self.space, owned(chosen, first, end), own, asking.proposals(PROPOSED))
            if problem.proposals is None:
                found = engine.decode(asking.walk, problem, top_k=top_k, context=context, **asked)
            else:
                enough = max(top_k, RANKED if chosen.owner is not None else min(RANKED, len(chosen)))
                found = engine.decode(asking.walk, problem, top_k=enough, context=context, **asked)
                found = ranked(asking, found, problem, top_k)
            require_obeyed(found, problem, name)
            return found

        stored = AsTensors(as_tensors, partial(from_tensors, batch=self.space.Batch))
        key = "" if bound is None else digest_of(bound)
        parts = in_blocks(block, len(queries), BLOCK, context, name, stored, key)
        return Decoding.cat(parts) if parts else Decoding(chosen.batch[:0], queries.new_zeros(0, top_k))

    def nearest_candidates(self, queries: Tensor, context: Context) -> Tensor:
        """The least energy of a candidate for each query: (B,)."""
        assert self.candidates is not None
        chosen = share_of(self.candidates, self.config.candidates.share, context)
        energy = self.regressor.energy(queries)
        found, rows = nearest(energy.walk, Problem(self.space, chosen), 1, context)
        return (found[:, 0] if energy.walk is energy else energy.of(chosen.batch[rows[:, 0].cpu()])).cpu()

    def learners(self) -> dict[str, Learner]:
        """Everything that learns, in the order in which it is fitted, by the names of the sections."""
        engine = self.decoder(self.config.decoder)
        known: dict[str, Learner] = {"surrogate": self.surrogate, "regressor": self.regressor}
        return {**known, "decoder": engine} if isinstance(engine, Learner) else known

    def decoder(self, choice: Choice) -> Decoder:
        """The decoder of a choice, created once; refuse one that does not work with this model's energies.

        One that learns takes over what a decoder of the same name has learned.
        """
        key = choice.model_dump_json()
        if key not in self.decoders:
            with seeded(self.seed):
                made: Decoder = self.config.registry.create("decoder", choice, path="decoder")
            if isinstance(made, Learner) and choice.name in self.fitted:
                made.restore(self.fitted[choice.name].state())
            self.decoders[key] = made
        engine = self.decoders[key]
        engine.accepts(self.regressor.energy(torch.zeros(0, self.surrogate.dim)))
        return engine

    def can_use(self, choice: Choice) -> bool:
        """Whether a decoder works with this model; one that learns only if it was trained with it."""
        try:
            self.require_fitted(choice, self.decoder(choice))
        except EleError:
            return False
        return True

    def require_fitted(self, choice: Choice, engine: Decoder) -> None:
        """Refuse a decoder that learns and that this model was not trained with."""
        if isinstance(engine, Learner) and choice.name not in self.fitted:
            what = f"'{choice.name}' learns, and this model was trained without it."
            raise ConfigError(what, where="decoder", fix=f"Train with it: --set decoder={choice.name}")

    def loss(self, *, reduction: Reduction = "mean") -> LearnedLoss:
        """Return the learned loss as a torch module of its own, with a frozen copy of the surrogate."""
        name = self.config.surrogate.name
        if not self.surrogate.energy(torch.zeros(0, self.surrogate.dim)).smooth:
            what = f"a loss to train with needs a gradient, which surrogate '{name}' does not have."
            fix = "Train with a differentiable surrogate, such as --set surrogate=contrastive."
            raise ConfigError(what, where="surrogate", fix=fix)
        with seeded(self.seed):  # the first weights are drawn, and replaced
            own: Surrogate = self.config.registry.create(
                "surrogate", self.config.surrogate, self.space, path="surrogate"
            )
        own.restore({key: tensor.detach().clone() for key, tensor in self.surrogate.state().items()})
        return LearnedLoss(own, reduction).to(self.device)

    def embed_candidates(
        self, batch: Any, owner: Tensor | None = None, processes: Processes | None = None
    ) -> Candidates:
        """Embed packed structures as candidates, without duplicates; with `owner`, without duplicates per owner."""
        keys = self.space.keys(batch)
        rows = distinct(keys if owner is None else torch.cat([owner.unsqueeze(1), keys], dim=1))
        batch = batch[rows]
        embeddings = (processes or Processes()).spread(self.surrogate.embed, batch)
        return Candidates(batch, embeddings, None if owner is None else owner[rows], self.surrogate)

    def implied(self, values: Sequence[Any]) -> list[Any] | None:
        """The constraint that follows from each input, by the section `constraints`; None: there are none."""
        return implied(self.config.constraints, self.space, self.inputs, values)

    def constraints_from(self, given: Any | None, inputs: int) -> list[Any] | None:
        """Read the constraints that a user gives: one for all inputs, or one for each; None: there are none."""
        return read_constraints(self.space, given, inputs)

    def candidates_from(self, objects: Sequence[Any], context: Context) -> Candidates:
        """Make candidates of the user's objects: one set for all inputs, or a list of objects for each input."""
        if len(objects) and all(isinstance(own, list) for own in objects):
            sizes = torch.tensor([len(own) for own in objects])
            flat = [obj for own in objects for obj in own]
            owner = torch.arange(len(objects)).repeat_interleave(sizes)
            return self.embed_candidates(pack_all(self.space, flat, context), owner)
        return self.embed_candidates(pack_all(self.space, objects, context))


def ranked(energy: Energy, found: Decoding, problem: Problem, top_k: int) -> Decoding:
    """The `top_k` best by the whole energy, of the proposals and of the first `RANKED` that a decoder found.

    What else it found follows, so more structures never change the first ones. A trace ends in the answer.
    """
    assert problem.proposals is not None
    count, own, device = len(energy), problem.proposals, energy.device
    structures = type(found.structures).cat([own.batch.to(device), found.structures.to(device)])
    owner = torch.cat([own.owner.cpu(), torch.arange(count).repeat_interleave(found.top_k)]).to(device)
    later = torch.cat([torch.zeros(len(own.owner)), torch.arange(found.top_k).repeat(count)]).to(device) >= RANKED
    usable = torch.cat([torch.ones(len(own.owner)), found.energies.flatten().isfinite()]).to(device) > 0
    usable &= problem.satisfied(structures, owner)
    rows = distinct(torch.cat([owner[:, None], problem.space.keys(structures).to(device)], dim=1))
    rows = rows[usable[rows]]
    energies = energy.of(structures[rows], owner[rows])
    order = energies.argsort(stable=True)
    for values in (later[rows].long(), owner[rows]):
        order = order[values[order].argsort(stable=True)]
    place = ranks(owner[rows][order])
    kept, order = place < top_k, order[place < top_k]
    cells = owner[rows][order] * top_k + place[kept]
    least = torch.full((count * top_k,), torch.inf, dtype=energies.dtype, device=device).index_copy(
        0, cells, energies[order]
    )
    answers = torch.zeros(count * top_k, dtype=torch.long, device=device).index_copy(0, cells, rows[order])
    best, least = structures[answers].to("cpu"), least.view(count, top_k).cummax(dim=1).values.cpu()
    trace = found.trace
    if trace is not None and len(trace.steps):
        steps, last = [*trace.steps, trace.steps[-1] + 1], best[torch.arange(0, len(best), top_k)]
        trace = Trace(steps, [*trace.structures, last], [*trace.energies, least[:, 0]])
    return Decoding(best, least, trace)


def owned(candidates: Candidates, first: int, end: int) -> Candidates:
    """Return the candidates of the inputs `first` to `end`, with owners counted from 0; all if there are no owners."""
    if candidates.owner is None:
        return candidates
    rows = ((candidates.owner >= first) & (candidates.owner < end)).nonzero().flatten()
    own = candidates[rows]
    assert own.owner is not None
    return dataclasses.replace(own, owner=own.owner - first)


def share_of(candidates: Candidates, share: float, context: Context) -> Candidates:
    """Draw a seeded share of the candidates; smaller shares are contained in larger ones."""
    if share == 1 or candidates.owner is not None:
        return candidates
    order = torch.randperm(len(candidates), generator=context.generator("candidates"))
    rows = order[: max(1, round(share * len(candidates)))].sort().values
    return candidates[rows]


def as_tensors(decoding: Decoding) -> dict[str, Tensor]:
    """A decoding as named tensors, for a checkpoint or for other processes."""
    tensors = {"energies": decoding.energies, **prefixed("structures", decoding.structures.as_dict())}
    if decoding.nearest is not None:
        tensors["nearest"] = decoding.nearest
    if decoding.trace is None:
        return tensors
    tensors["steps"] = torch.tensor(list(decoding.trace.steps))
    for number, (structures, energies) in enumerate(
        zip(decoding.trace.structures, decoding.trace.energies, strict=True)
    ):
        tensors |= {f"energies.{number}": energies, **prefixed(f"trace.{number}", structures.as_dict())}
    return tensors


def from_tensors(tensors: dict[str, Tensor], batch: type[Tensors]) -> Decoding:
    """The inverse of `as_tensors`; `batch` is the class of the structures."""
    stored = Snapshot(tensors)
    structures = batch.from_dict(stored.part("structures"))
    if "steps" not in tensors:
        return Decoding(structures, tensors["energies"], nearest=tensors.get("nearest"))
    steps = tensors["steps"].tolist()
    passed = [batch.from_dict(stored.part(f"trace.{number}")) for number in range(len(steps))]
    trace = Trace(steps, passed, [tensors[f"energies.{number}"] for number in range(len(steps))])
    return Decoding(structures, tensors["energies"], trace, tensors.get("nearest"))
