"""`check_decoder`: every law of a decoder, on a small problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from pydantic import ValidationError
from torch import Tensor

from ele_core.interfaces import Candidates, Decoder, Decoding, Problem, Trace
from ele_core.runtime.context import Context
from ele_core.testing.common import COMMON
from ele_core.testing.linear import BlindSurrogate, LinearSurrogate, sample_queries
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import SEED, draws_globally, require_inside, same_tensors
from ele_core.testing.saving import check_model_saves_and_loads
from ele_core.testing.surrogates import same_state

TOP = 3


def check_decoding_is_made_of_structures(decoder: Decoder, problem: Problem) -> None:
    """`decode` gives `top_k` valid structures a query, on the CPU, and as many energies."""
    for top_k in (1, TOP):
        found = decoded(decoder, problem, top_k)
        count = len(sample_queries(problem))
        require(found.energies.shape == (count, top_k), f"energies have shape {tuple(found.energies.shape)}")
        rows = len(found.structures)
        require(rows == count * top_k, f"{count} queries and top_k = {top_k} give {rows} structures")
        require_inside(problem.space, found.structures, "an answer")


@after(check_decoding_is_made_of_structures)
def check_decoding_is_sorted(decoder: Decoder, problem: Problem) -> None:
    """The energies of a query ascend: the best structure comes first."""
    energies = decoded(decoder, problem, TOP).energies
    require(bool((energies[:, 1:] >= energies[:, :-1]).all()), "the answers of a query do not come best first")


@after(check_decoding_is_made_of_structures)
def check_decoding_is_distinct(decoder: Decoder, problem: Problem) -> None:
    """The answers of a query are different structures; what is missing has an infinite energy."""
    found = decoded(decoder, problem, TOP)
    keys = problem.space.keys(found.structures).view(len(found.energies), TOP, 2)
    for row, (own, energies) in enumerate(zip(keys, found.energies, strict=True)):
        there = own[energies.isfinite()]
        require(len(torch.unique(there, dim=0)) == len(there), f"query {row} has the same answer twice")


@after(check_decoding_is_made_of_structures)
def check_decoding_energies_are_true(decoder: Decoder, problem: Problem) -> None:
    """The energy that is given is what the surrogate says of the structure that is given."""
    queries = sample_queries(problem)
    require_true_energies(queries, decoded(decoder, problem, TOP), problem)


@after(check_decoding_energies_are_true)
def check_decoder_is_no_worse_than_candidates(decoder: Decoder, problem: Problem) -> None:
    """The answer is at least as good as the best candidate; a decoder that starts elsewhere does not promise it."""
    queries = sample_queries(problem)
    best = problem.surrogate.energies(queries, problem.candidates.embeddings).amin(dim=1).cpu()
    found = decoded(decoder, problem, 1).energies[:, 0]
    worse = found > best + rounding(best)
    require(
        not worse.any(), f"the best candidate is better than the answer to {int(worse.sum())} of {len(best)} queries"
    )


@after(check_decoding_is_made_of_structures)
def check_decoder_changes_nothing(decoder: Decoder, problem: Problem) -> None:
    """Decoding changes no weight, no candidate and no query, and draws nothing from torch's global generator."""
    queries, candidates = sample_queries(problem), problem.candidates
    asked, weights = queries.clone(), {name: value.clone() for name, value in problem.surrogate.state().items()}
    batch, embeddings = candidates.batch.map(torch.clone), candidates.embeddings.clone()
    run = draws_globally(lambda: decoder.decode(queries, problem, top_k=1, context=Context(SEED)))
    require(not run, "decode draws from torch's global generator")
    require(torch.equal(asked, queries), "decode changes the queries in place")
    require(same_state(weights, problem.surrogate.state()), "decode changes the surrogate")
    kept = same_tensors(batch, candidates.batch) and torch.equal(embeddings, candidates.embeddings)
    require(kept, "decode changes the candidates in place")


@after(check_decoder_changes_nothing)
def check_decoder_is_seeded(decoder: Decoder, problem: Problem) -> None:
    """Two decodings from the same seed are equal to the bit."""
    first, second = (decoded(decoder, problem, TOP) for _ in range(2))
    same = same_tensors(first.structures, second.structures) and torch.equal(first.energies, second.energies)
    require(same, "two decodings from the same seed differ")


@after(check_decoder_is_seeded)
def check_decoder_rows_are_independent(decoder: Decoder, problem: Problem) -> None:
    """The answer to a query does not depend on the other queries, nor on its place among them."""
    queries = sample_queries(problem)
    together = decoded(decoder, problem, 1)
    for row in range(len(queries)):
        alone = decoder.decode(queries[row : row + 1], problem, top_k=1, context=Context(SEED))
        off = (alone.energies[0] - together.energies[row]).abs()
        require(
            bool((off <= rounding(together.energies[row])).all()), f"the answer to query {row} depends on the others"
        )


@after(check_decoding_is_made_of_structures)
def check_decoder_takes_no_queries(decoder: Decoder, problem: Problem) -> None:
    """No queries give an empty decoding with `top_k` columns."""
    found = decoder.decode(sample_queries(problem)[:0], problem, top_k=TOP, context=Context(SEED))
    require(found.energies.shape == (0, TOP), f"energies of no queries have shape {tuple(found.energies.shape)}")
    require(len(found.structures) == 0, f"no queries give {len(found.structures)} structures")


@after(check_decoding_energies_are_true)
def check_decoder_takes_candidates_of_their_own(decoder: Decoder, problem: Problem) -> None:
    """Where each query has candidates of its own, the answers are valid and their energies true."""
    queries = sample_queries(problem)
    owner = torch.arange(len(problem.candidates)) % len(queries)
    own = Candidates(problem.candidates.batch, problem.candidates.embeddings, owner)
    found = decoder.decode(queries, dataclasses.replace(problem, candidates=own), top_k=1, context=Context(SEED))
    require_inside(problem.space, found.structures, "an answer")
    require_true_energies(queries, found, problem)


@after(check_decoding_is_made_of_structures)
def check_decoder_declares_its_needs(decoder: Decoder, problem: Problem) -> None:
    """A decoder that does not say `needs_gradient` works on a surrogate that has none."""
    if decoder.needs_gradient:
        raise NotApplicable("the decoder says that it needs a gradient")
    if type(problem.surrogate) is not LinearSurrogate:
        raise NotApplicable("the problem has a surrogate of its own")
    blind = dataclasses.replace(problem, surrogate=BlindSurrogate(problem.surrogate.config, problem.space))
    decoder.decode(sample_queries(problem), blind, top_k=1, context=Context(SEED))


@after(check_decoding_energies_are_true)
def check_decoder_trace_is_a_path(decoder: Decoder, problem: Problem) -> None:
    """The steps of a trace ascend, and each has one structure and one true energy per query."""
    queries, trace = sample_queries(problem), traced(decoder, problem)[1]
    steps, counts = list(trace.steps), (len(trace.structures), len(trace.energies))
    require(steps == sorted(set(steps)), f"the steps do not ascend: {steps}")
    require(counts == (len(steps), len(steps)), f"{len(steps)} steps have {counts[0]} batches, {counts[1]} energies")
    for step, structures, energies in zip(steps, trace.structures, trace.energies, strict=True):
        rows = len(structures), *energies.shape
        require(rows == (len(queries), len(queries)), f"step {step} has {rows} rows for {len(queries)} queries")
        require_inside(problem.space, structures, f"step {step}")
        require_true_energies(queries, Decoding(structures, energies.unsqueeze(1)), problem)


@after(check_decoder_trace_is_a_path)
def check_decoder_trace_leads_to_the_answer(decoder: Decoder, problem: Problem) -> None:
    """Recording a trace changes no answer, and no answer is worse than the last step of its trace."""
    found, trace = traced(decoder, problem)
    require(torch.equal(found.energies, decoded(decoder, problem, 1).energies), "recording a trace changes the answers")
    last = trace.energies[-1]
    worse = found.energies[:, 0] > last + rounding(last)
    require(not worse.any(), f"the last step is better than the answer to {int(worse.sum())} of {len(last)} queries")


def check_decoder_variants_are_configurations(decoder: Decoder, *_: Problem) -> None:
    """Every variant has a name of its own and options that the `Config` takes."""
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


DECODER_CHECKS = (
    check_decoding_is_made_of_structures,
    check_decoding_is_sorted,
    check_decoding_is_distinct,
    check_decoding_energies_are_true,
    check_decoder_is_no_worse_than_candidates,
    check_decoder_changes_nothing,
    check_decoder_is_seeded,
    check_decoder_rows_are_independent,
    check_decoder_takes_no_queries,
    check_decoder_takes_candidates_of_their_own,
    check_decoder_declares_its_needs,
    check_decoder_trace_is_a_path,
    check_decoder_trace_leads_to_the_answer,
    check_decoder_variants_are_configurations,
    *COMMON,
    check_model_saves_and_loads,
)


def check_decoder(
    decoder: Decoder, problem: Problem, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Every law of a decoder on a problem, such as a `sample_problem`. `expected_failures`: name → reason."""
    return run_checks(DECODER_CHECKS, (decoder, problem), expected_failures)


def decoded(decoder: Decoder, problem: Problem, top_k: int) -> Decoding:
    """The answers to the sample queries."""
    return decoder.decode(sample_queries(problem), problem, top_k=top_k, context=Context(SEED))


def traced(decoder: Decoder, problem: Problem) -> tuple[Decoding, Trace]:
    """The answers to the sample queries, and the trace of the way there."""
    if not decoder.traces:
        raise NotApplicable("the decoder does not say that it `traces`")
    found = decoder.decode(sample_queries(problem), problem, top_k=1, trace=True, context=Context(SEED))
    if found.trace is None or not len(found.trace.steps):
        raise Broken("decode records nothing with trace=True, although the decoder says that it `traces`")
    return found, found.trace


def require_true_energies(queries: Tensor, found: Decoding, problem: Problem) -> None:
    """`Broken` where an energy is not that of its structure."""
    repeated = queries.repeat_interleave(found.top_k, dim=0)
    expected = problem.surrogate.energy(repeated, found.structures.to(queries.device)).cpu().view_as(found.energies)
    there = found.energies.isfinite()
    require(there[:, 0].all(), "a query has no answer at all")
    off = (found.energies - expected).abs()[there]
    require(bool((off <= rounding(expected[there])).all()), f"an energy is wrong by {float(off.max()):.3g}")


def rounding(values: Tensor) -> Tensor:
    """How far two ways to compute the same energies may differ."""
    return 1e-4 * (1 + values.abs())
