"""What a report says on how far the predictions can be trusted."""

from __future__ import annotations

from typing import Any

from ele_core.model.model import Model
from ele_core.model.trust.judged import without_confidence
from ele_core.report.measured import Measured


def trust_of(measured: Measured, model: Model) -> dict[str, Any]:
    """Return `trust`: what confidence and sets are worth, or None; `no_trust`: then a sentence on how to add them."""
    reason = without_confidence(model, None)
    said = f"{reason[0].upper()}{reason[1:]}. To add one: ele calibrate, with the folder of this run." if reason else ""
    return {"trust": measured.outcome.trust or None, "no_trust": said}
