"""Checks of decoders on problems of other sizes, and `check_decoder`, which runs all checks of a decoder."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import torch
from torch import Tensor

from ele_core.errors import EleError
from ele_core.interfaces import Candidates, Decoder, Decoding, Problem
from ele_core.runtime.context import Context
from ele_core.testing import decoders as laws
from ele_core.testing.common import COMMON
from ele_core.testing.decoders import (
    check_decoder_is_no_worse_than_candidates,
    check_decoder_is_seeded,
    require_true_energies,
    rounding,
)
from ele_core.testing.linear import LinearSurrogate, sample_queries
from ele_core.testing.results import Broken, CheckResult, NotApplicable, after, require, run_checks
from ele_core.testing.samples import SEED, same_tensors, structures
from ele_core.testing.saving import check_model_saves_and_loads

MANY = 100
"""More candidates than a decoder may take for all of them by chance."""
LEAST = 70
SMALL = 0.02
"""The scale of the embeddings of a problem whose energies are small."""


@after(check_decoder_is_no_worse_than_candidates)
def check_decoder_sees_all_candidates(decoder: Decoder, problem: Problem) -> None:
    """Of a hundred candidates, the last ones are found as well, also if all energies are small."""
    batch = structures(problem.space, MANY)
    if len(batch) < LEAST:
        raise NotApplicable(f"the space has only {len(batch)} structures")
    for scale in (1.0, SMALL) if type(problem.surrogate) is LinearSurrogate else (1.0,):
        large = scaled(problem, scale, batch)
        queries = large.candidates.embeddings[-5:]
        found = decoder.decode(queries, large, top_k=1, context=Context(SEED)).energies[:, 0]
        best = large.surrogate.energies(queries, large.candidates.embeddings).amin(dim=1).cpu()
        worse = (found > best + rounding(best) * scale**2).nonzero().flatten().tolist()
        for row in worse[:1]:
            raise Broken(
                f"of {len(batch)} candidates, the best is not found for {len(worse)} of {len(queries)} queries: the "
                f"result has energy {float(found[row]):.3g}, the candidate {float(best[row]):.3g}"
            )


@after(check_decoder_is_no_worse_than_candidates)
def check_decoder_takes_few_candidates(decoder: Decoder, problem: Problem) -> None:
    """One candidate is enough; `top_k` above their number is refused by an `EleError`, or gives infinite energies."""
    queries = sample_queries(problem)
    for count, top_k in ((1, 1), (2, 5)):
        some = with_candidates(problem, problem.candidates.batch[:count])
        what = f"top_k={top_k} with {count} {'candidate' if count == 1 else 'candidates'}"
        try:
            found = decoder.decode(queries, some, top_k=top_k, context=Context(SEED))
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
def check_decoder_forgets_earlier_problems(decoder: Decoder, problem: Problem) -> None:
    """After another problem, a decoder gives the same as a fresh one, for other candidates and other queries."""
    queries = sample_queries(problem)
    other = with_candidates(problem, structures(problem.space, 3 * len(problem.candidates))[-len(problem.candidates) :])
    for changed, asked in ((other, queries), (problem, queries.flip(0)), (problem, queries)):
        fresh = type(decoder)(decoder.config)
        found, expected = (solved(each, asked, changed) for each in (decoder, fresh))
        same = torch.equal(found.energies, expected.energies) and same_tensors(found.structures, expected.structures)
        require(same, "the result depends on what was decoded before: keep nothing between calls of `decode`")


def solved(decoder: Decoder, queries: Tensor, problem: Problem) -> Decoding:
    """Decode with a fixed seed."""
    return decoder.decode(queries, problem, top_k=1, context=Context(SEED))


def with_candidates(problem: Problem, batch: object) -> Problem:
    """The problem with other candidates."""
    return dataclasses.replace(problem, candidates=Candidates(batch, problem.surrogate.embed(batch)))


def scaled(problem: Problem, scale: float, batch: object) -> Problem:
    """The problem with these candidates, and with embeddings of another scale."""
    surrogate = problem.surrogate
    if scale != 1:
        surrogate = LinearSurrogate(surrogate.config, problem.space)
        surrogate.restore({"weights": scale * surrogate.weights})
    return with_candidates(dataclasses.replace(problem, surrogate=surrogate), batch)


DECODER_CHECKS = (
    laws.check_decoding_is_made_of_structures,
    laws.check_decoding_is_sorted,
    laws.check_decoding_is_distinct,
    laws.check_decoding_energies_are_true,
    laws.check_decoder_is_no_worse_than_candidates,
    laws.check_decoder_changes_nothing,
    laws.check_decoder_is_seeded,
    laws.check_decoder_rows_are_independent,
    laws.check_decoder_takes_no_queries,
    laws.check_decoder_takes_candidates_of_their_own,
    laws.check_decoder_obeys_constraints,
    laws.check_decoder_declares_its_needs,
    laws.check_decoder_trace_is_a_path,
    laws.check_decoder_trace_leads_to_the_answer,
    laws.check_decoder_variants_are_configurations,
    check_decoder_sees_all_candidates,
    check_decoder_takes_few_candidates,
    check_decoder_forgets_earlier_problems,
    *COMMON,
    check_model_saves_and_loads,
)


def check_decoder(
    decoder: Decoder, problem: Problem, expected_failures: Mapping[str, str] | None = None
) -> list[CheckResult]:
    """Run every check of a decoder on a problem, such as a `sample_problem`. `expected_failures`: check → reason."""
    return run_checks(DECODER_CHECKS, (decoder, problem), expected_failures)
