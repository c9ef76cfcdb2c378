"""`check_decoder`: every law of a decoder."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import torch
from pydantic import ValidationError
from torch import Tensor

from ele_core.errors import ConfigError, EleError
from ele_core.interfaces import Decoder, Learner
from ele_core.runtime.context import Context
from ele_core.testing.common import EVERY
from ele_core.testing.output_spaces import constrained
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, laws_in, require, run_checks
from ele_core.testing.samples import (
    SEED,
    BlindSurrogate,
    LinearSurrogate,
    SampleProblem,
    require_inside,
    require_own_randomness,
    same_state,
    same_tensors,
    sample_queries,
    structures,
)
from ele_core.types import Candidates, Decoding, Trace

TOP = 3


def check_decoding_is_made_of_structures(decoder: Decoder, problem: SampleProblem) -> None:
    """`decode` gives `top_k` valid structures per query, on the CPU, and as many energies."""
    for top_k in (1, TOP):
        found = decoded(decoder, problem, top_k)
        count = len(sample_queries(problem))
        shape = tuple(found.energies.shape)
        require(shape == (count, top_k), f"energies have shape {shape}, not {(count, top_k)}")
        rows = len(found.structures)
        require(
            rows == count * top_k, f"{count} queries with top_k={top_k} give {rows} structures, not {count * top_k}"
        )
        require_inside(problem.space, found.structures, "a decoded structure")


@after(check_decoding_is_made_of_structures)
def check_decoding_is_sorted(decoder: Decoder, problem: SampleProblem) -> None:
    """The energies of a query ascend: the best structure comes first."""
    energies = decoded(decoder, problem, TOP).energies
    require(
        bool((energies[:, 1:] >= energies[:, :-1]).all()),
        "the energies of a query do not ascend: return its best structure first",
    )


@after(check_decoding_is_made_of_structures)
def check_decoding_is_a_beginning(decoder: Decoder, problem: SampleProblem) -> None:
    """Asking for more structures does not change the first ones: a calibrated model always asks for many."""
    first, more = (decoded(decoder, problem, top_k).energies for top_k in (1, TOP))
    off = (more[:, :1] - first).abs() > rounding(first)
    require(not off.any(), f"`top_k={TOP}` changes the first structures: do not widen the search by `top_k`")


@after(check_decoding_is_made_of_structures)
def check_decoding_is_distinct(decoder: Decoder, problem: SampleProblem) -> None:
    """The structures of a query are all different; if there are fewer than `top_k`, the rest has infinite energy."""
    found = decoded(decoder, problem, TOP)
    keys = problem.space.keys(found.structures).view(len(found.energies), TOP, 2)
    for row, (own, energies) in enumerate(zip(keys, found.energies, strict=True)):
        there = own[energies.isfinite()]
        require(
            len(torch.unique(there, dim=0)) == len(there),
            f"query {row} has the same structure twice: compare structures by `space.keys`",
        )


@after(check_decoding_is_made_of_structures)
def check_decoding_energies_are_true(decoder: Decoder, problem: SampleProblem) -> None:
    """The returned energies are the surrogate's energies of the returned structures."""
    queries = sample_queries(problem)
    require_true_energies(queries, decoded(decoder, problem, TOP), problem)


@after(check_decoding_energies_are_true)
def check_decoder_is_no_worse_than_candidates(decoder: Decoder, problem: SampleProblem) -> None:
    """The result is no worse than the best candidate. Expect a failure if decoding does not start from candidates."""
    queries = sample_queries(problem)
    best = problem.energy(queries).among(problem.candidates).amin(dim=1).cpu()
    found = decoded(decoder, problem, 1).energies[:, 0]
    worse = found > best + rounding(best)
    count = int(worse.sum())
    require(not count, f"for {count} of {len(best)} queries, the best candidate has less energy than the result")


@after(check_decoding_is_distinct, check_decoder_is_no_worse_than_candidates)
def check_decoding_finds_several(decoder: Decoder, problem: SampleProblem) -> None:
    """With `top_k` above 1, some query has more than one structure, as there are many candidates."""
    energies = decoded(decoder, problem, TOP).energies
    if torch.equal(energies[:, 0], solved(decoder, sample_queries(problem), fewest(problem)).energies[:, 0]):
        raise NotApplicable("the decoder does not use the candidates")
    require(
        bool((energies.isfinite().sum(dim=1) > 1).any()),
        f"`top_k={TOP}` gives each query one structure, although there are {len(problem.candidates)} candidates: "
        "return the next best ones too",
    )


@after(check_decoding_is_made_of_structures)
def check_decoder_changes_nothing(decoder: Decoder, problem: SampleProblem) -> None:
    """Decoding changes no weight, no candidate and no query, and draws nothing from a global generator."""
    queries, candidates = sample_queries(problem), problem.candidates
    asked, weights = queries.clone(), {name: value.clone() for name, value in problem.surrogate.state().items()}
    batch, embeddings = candidates.batch.map(torch.clone), candidates.embeddings.clone()
    call = functools.partial(decoder.decode, problem.energy(queries), problem, top_k=1, context=Context(SEED))
    require_own_randomness("`decode`", call)
    require(not call().energies.requires_grad, "the energies keep a gradient, which costs memory: use torch.no_grad")
    require(torch.equal(asked, queries), "decode changes the queries in place")
    require(same_state(weights, problem.surrogate.state()), "decode changes the surrogate")
    kept = same_tensors(batch, candidates.batch) and torch.equal(embeddings, candidates.embeddings)
    require(kept, "decode changes the candidates in place")


@after(check_decoder_changes_nothing)
def check_decoder_is_seeded(decoder: Decoder, problem: SampleProblem) -> None:
    """Two decodings from the same seed are equal bit for bit."""
    first, second = (decoded(decoder, problem, TOP) for _ in range(2))
    same = same_tensors(first.structures, second.structures) and torch.equal(first.energies, second.energies)
    require(same, "two decodings from the same seed differ")


@after(check_decoder_is_seeded)
def check_decoder_rows_are_independent(decoder: Decoder, problem: SampleProblem) -> None:
    """The result for a query does not depend on the other queries, nor on its position among them."""
    queries = sample_queries(problem)
    together = decoded(decoder, problem, 1)
    for row in range(len(queries)):
        alone = decoder.decode(problem.energy(queries[row : row + 1]), problem, top_k=1, context=Context(SEED))
        off = (alone.energies[0] - together.energies[row]).abs()
        require(
            bool((off <= rounding(together.energies[row])).all()), f"the result for query {row} depends on the others"
        )


@after(check_decoding_is_made_of_structures)
def check_decoder_takes_no_queries(decoder: Decoder, problem: SampleProblem) -> None:
    """No queries give an empty decoding with `top_k` columns."""
    found = decoder.decode(problem.energy(sample_queries(problem)[:0]), problem, top_k=TOP, context=Context(SEED))
    require(
        found.energies.shape == (0, TOP),
        f"energies of no queries have shape {tuple(found.energies.shape)}, not {(0, TOP)}",
    )
    require(len(found.structures) == 0, f"no queries give {len(found.structures)} structures")


@after(check_decoding_energies_are_true)
def check_decoder_takes_candidates_of_their_own(decoder: Decoder, problem: SampleProblem) -> None:
    """If each query has its own candidates (`Candidates.owner`), the structures are valid and their energies right."""
    queries = sample_queries(problem)
    owner = torch.arange(len(problem.candidates)) % len(queries)
    own = Candidates(problem.candidates.batch, problem.candidates.embeddings, owner)
    found = solved(decoder, queries, dataclasses.replace(problem, candidates=own))
    require_inside(problem.space, found.structures, "a decoded structure")
    require_true_energies(queries, found, problem)


@after(check_decoder_takes_candidates_of_their_own, check_decoder_rows_are_independent)
def check_decoder_obeys_constraints(decoder: Decoder, problem: SampleProblem) -> None:
    """Structures of finite energy satisfy the constraint of their query (`Problem.constraints`), if it has one."""
    queries = sample_queries(problem)
    bound = constrained(problem, len(queries))
    found = decoder.decode(problem.energy(queries), bound, top_k=TOP, context=Context(SEED))
    rows = found.energies.flatten().isfinite().nonzero().flatten()
    require(len(rows), "no structure has finite energy, although candidates satisfy the constraints")
    kept = bound.satisfied(found.structures[rows], rows // TOP)
    count = int((~kept).sum())
    require(
        not count,
        f"{count} of {len(kept)} structures do not satisfy the constraint of their query: filter them by "
        "`problem.satisfied(structures, query)`, and give infinite energy to those that are missing",
    )


@after(check_decoding_is_made_of_structures)
def check_decoder_declares_its_needs(decoder: Decoder, problem: SampleProblem) -> None:
    """A decoder works with an energy that is not `smooth`, unless it refuses it in `accepts`."""
    if type(problem.surrogate) is not LinearSurrogate:
        raise NotApplicable("the problem does not use a LinearSurrogate")
    blind = dataclasses.replace(problem, surrogate=BlindSurrogate(problem.surrogate.config, problem.space))
    energy = blind.energy(sample_queries(problem))
    try:
        decoder.accepts(energy)
    except ConfigError:
        raise NotApplicable("the decoder needs a gradient: `accepts` refuses an energy without one") from None
    decoder.decode(energy, blind, top_k=1, context=Context(SEED))


@after(check_decoding_energies_are_true)
def check_decoder_trace_is_a_path(decoder: Decoder, problem: SampleProblem) -> None:
    """The steps of a trace ascend, and each has one structure per query, with its energy."""
    queries, trace = sample_queries(problem), traced(decoder, problem)[1]
    steps, counts = list(trace.steps), (len(trace.structures), len(trace.energies))
    require(steps == sorted(set(steps)), f"the steps do not ascend: {steps}")
    require(counts == (len(steps), len(steps)), f"{len(steps)} steps have {counts[0]} batches, {counts[1]} energies")
    for step, batch, energies in zip(steps, trace.structures, trace.energies, strict=True):
        rows = len(batch), *energies.shape
        require(rows == (len(queries), len(queries)), f"step {step} has {rows} rows for {len(queries)} queries")
        require_inside(problem.space, batch, f"step {step}")
        require_true_energies(queries, Decoding(batch, energies.unsqueeze(1)), problem)


@after(check_decoder_trace_is_a_path)
def check_decoder_trace_leads_to_the_answer(decoder: Decoder, problem: SampleProblem) -> None:
    """Recording a trace does not change the result, which is no worse than the last step of the trace."""
    found, trace = traced(decoder, problem)
    require(torch.equal(found.energies, decoded(decoder, problem, 1).energies), "trace=True changes the energies")
    last = trace.energies[-1]
    worse = found.energies[:, 0] > last + rounding(last)
    count = int(worse.sum())
    require(not count, f"for {count} of {len(last)} queries, the last step has less energy than the result")


def check_decoder_variants_are_configurations(decoder: Decoder, *_: SampleProblem) -> None:
    """Every variant has a different name, and options that the `Config` accepts."""
    variants = decoder.variants
    if not variants:
        raise NotApplicable("the decoder declares no variants")
    names = [variant.name for variant in variants]
    require(len(set(names)) == len(names), f"two variants have the same name: {', '.join(names)}")
    for variant in variants:
        try:
            type(decoder).Config(**variant.options)
        except ValidationError as error:
            raise Broken(f"the options of variant '{variant.name}' are refused: {error}") from error


def decoded(decoder: Decoder, problem: SampleProblem, top_k: int) -> Decoding:
    """Decode the sample queries."""
    return decoder.decode(problem.energy(sample_queries(problem)), problem, top_k=top_k, context=Context(SEED))


def traced(decoder: Decoder, problem: SampleProblem) -> tuple[Decoding, Trace]:
    """Decode the sample queries, and record a trace."""
    if not decoder.traces:
        raise NotApplicable("the decoder records no trace: `traces` is false")
    found = decoder.decode(problem.energy(sample_queries(problem)), problem, top_k=1, trace=True, context=Context(SEED))
    if found.trace is None or not len(found.trace.steps):
        raise Broken("decode(…, trace=True) returns no trace, although `traces` is true")
    return found, found.trace


def require_true_energies(queries: Tensor, found: Decoding, problem: SampleProblem) -> None:
    """Raise `Broken` if an energy is not the surrogate's energy of its structure."""
    owner = torch.arange(len(queries), device=queries.device).repeat_interleave(found.top_k)
    expected = problem.energy(queries).of(found.structures.to(queries.device), owner).cpu().view_as(found.energies)
    there = found.energies.isfinite()
    require(there[:, 0].all(), "a query has no structure of finite energy")
    off = (found.energies - expected).abs()[there]
    require(
        bool((off <= rounding(expected[there])).all()),
        f"an energy differs by {float(off.max()):.3g} from the surrogate's",
    )


def rounding(values: Tensor) -> Tensor:
    """The largest difference of two energies that counts as rounding."""
    return 1e-4 * (1 + values.abs())


MANY = 100
"""More candidates than a decoder may take for all of them by chance."""
LEAST = 70
SMALL = 0.02
"""The scale of the embeddings of a problem whose energies are small."""


@after(check_decoder_is_no_worse_than_candidates)
def check_decoder_sees_all_candidates(decoder: Decoder, problem: SampleProblem) -> None:
    """Of a hundred candidates, the last ones are found as well, also if all energies are small."""
    batch = structures(problem.space, MANY)
    if len(batch) < LEAST:
        raise NotApplicable(f"the space has only {len(batch)} structures")
    for scale in (1.0, SMALL) if type(problem.surrogate) is LinearSurrogate else (1.0,):
        large = scaled(problem, scale, batch)
        queries = large.candidates.embeddings[-5:]
        found = solved(decoder, queries, large).energies[:, 0]
        best = large.energy(queries).among(large.candidates).amin(dim=1).cpu()
        worse = (found > best + rounding(best) * scale**2).nonzero().flatten().tolist()
        for row in worse[:1]:
            raise Broken(
                f"of {len(batch)} candidates, the best is not found for {len(worse)} of {len(queries)} queries: the "
                f"result has energy {float(found[row]):.3g}, the candidate {float(best[row]):.3g}"
            )


@after(check_decoder_is_no_worse_than_candidates)
def check_decoder_takes_few_candidates(decoder: Decoder, problem: SampleProblem) -> None:
    """One candidate is enough; `top_k` above their number is refused by an `EleError`, or gives infinite energies."""
    queries = sample_queries(problem)
    for count, top_k in ((1, 1), (2, 5)):
        some = with_candidates(problem, problem.candidates.batch[:count])
        what = f"top_k={top_k} with {count} {'candidate' if count == 1 else 'candidates'}"
        try:
            found = decoder.decode(some.energy(queries), some, top_k=top_k, context=Context(SEED))
        except EleError:
            require(top_k > count, f"{what} is refused")
            continue
        except Exception as error:
            raise Broken(f"{what} raises {type(error).__name__}: {error}") from error
        shape = tuple(found.energies.shape)
        require(shape == (len(queries), top_k), f"{what}: energies have shape {shape}, not {(len(queries), top_k)}")
        require_true_energies(queries, found, some)
        keys = problem.space.keys(found.structures).view(len(queries), top_k, 2)
        for own, energies in zip(keys, found.energies, strict=True):
            there = own[energies.isfinite()]
            distinct = len(torch.unique(there, dim=0)) == len(there)
            require(distinct, f"{what} repeats a structure with a finite energy: missing ones have infinite energy")


@after(check_decoder_is_seeded)
def check_decoder_forgets_earlier_problems(decoder: Decoder, problem: SampleProblem) -> None:
    """After another problem, a decoder gives the same as a fresh one, for other candidates and other queries."""
    queries = sample_queries(problem)
    other = with_candidates(problem, structures(problem.space, 3 * len(problem.candidates))[-len(problem.candidates) :])
    for changed, asked in ((other, queries), (problem, queries.flip(0)), (problem, queries)):
        fresh = type(decoder)(decoder.config)
        if isinstance(decoder, Learner) and isinstance(fresh, Learner):
            fresh.restore({name: value.clone() for name, value in decoder.state().items()})
        found, expected = (solved(each, asked, changed) for each in (decoder, fresh))
        same = torch.equal(found.energies, expected.energies) and same_tensors(found.structures, expected.structures)
        require(same, "the result depends on what was decoded before: keep nothing between calls of `decode`")


@after(check_decoder_is_no_worse_than_candidates)
def check_decoder_solves_the_problem_it_is_given(decoder: Decoder, problem: SampleProblem) -> None:
    """After another problem, the best of the new candidates is found, not that of the first ones."""
    many = structures(problem.space, 4 * len(problem.candidates))
    first, second = (with_candidates(problem, many[start::2]) for start in range(2))
    solved(decoder, sample_queries(first), first)
    queries = second.candidates.embeddings[-5:]
    best = second.energy(queries).among(second.candidates).amin(dim=1).cpu()
    found = solved(decoder, queries, second).energies[:, 0]
    worse = int((found > best + rounding(best)).sum())
    require(
        not worse,
        f"for {worse} of {len(best)} queries, the best candidate of a second problem has less energy than the result: "
        "keep nothing of the first, neither in the decoder nor on its class",
    )


def solved(decoder: Decoder, queries: Tensor, problem: SampleProblem) -> Decoding:
    """Decode with a fixed seed."""
    return decoder.decode(problem.energy(queries), problem, top_k=1, context=Context(SEED))


def with_candidates(problem: SampleProblem, batch: object) -> SampleProblem:
    """The problem with other candidates."""
    return dataclasses.replace(problem, candidates=Candidates(batch, problem.surrogate.embed(batch)))


def fewest(problem: SampleProblem) -> SampleProblem:
    """The problem with one candidate."""
    return with_candidates(problem, problem.candidates.batch[-1:])


def scaled(problem: SampleProblem, scale: float, batch: object) -> SampleProblem:
    """The problem with these candidates, and with embeddings of another scale."""
    surrogate = problem.surrogate
    if scale != 1:
        surrogate = LinearSurrogate(surrogate.config, problem.space)
        surrogate.restore({"weights": scale * surrogate.weights})
    return with_candidates(dataclasses.replace(problem, surrogate=surrogate), batch)


DECODER_CHECKS = (*laws_in(globals(), "check_decod"), *EVERY)


def check_decoder(
    decoder: Decoder, problem: SampleProblem, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of a decoder on a problem, such as a `sample_problem`. `expected_failures`: check → reason."""
    return run_checks(DECODER_CHECKS, (decoder, problem), expected_failures)
