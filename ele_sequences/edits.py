"""The edits of a sequence that search tries: replace, insert or delete one token."""

from __future__ import annotations

import torch
from torch import Tensor


def insertions(tokens: Tensor, symbols: int) -> tuple[Tensor, Tensor]:
    """Every sequence with one token more, before one that it has: (B, L) labels → (M, L), and the row of each (M,).

    Sequences of the full length have none. Tokens after the end are the business of replacements.
    """
    width = tokens.shape[1]
    ends = (tokens > 0).sum(dim=1)
    possible = (torch.arange(width, device=tokens.device) < ends[:, None]) & (ends < width)[:, None]
    row, place = (part.repeat_interleave(symbols) for part in possible.nonzero(as_tuple=True))
    label = torch.arange(1, symbols + 1, device=tokens.device).repeat(int(possible.sum()))
    columns = torch.arange(width, device=tokens.device)
    longer = tokens[row].gather(1, columns - (columns > place[:, None]).long())
    longer[torch.arange(len(row), device=tokens.device), place] = label.to(tokens.dtype)
    return longer, row


def gains(gradient: Tensor, before: Tensor, after: Tensor, row: Tensor) -> Tensor:
    """The first-order change of a loss from `before[row]` to `after` (M, L), with its gradient (B, L, V): (M,)."""
    at = gradient[row]
    changed = at.gather(2, after.long().unsqueeze(2)) - at.gather(2, before[row].long().unsqueeze(2))
    return changed.sum(dim=(1, 2))
