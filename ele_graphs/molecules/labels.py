"""Labels of atoms: an element with its formal charge, if it has one, as a suffix: `C`, `N+`, `O-`, `Fe+2`."""

from __future__ import annotations

from collections.abc import Collection, Iterable

LARGEST = 15
"""The largest charge, as in SMILES."""


def atom_label(element: str, charge: int) -> str:
    """The label of an atom."""
    if not charge:
        return element
    return f"{element}{charge:+}" if abs(charge) > 1 else element + ("+" if charge > 0 else "-")


def element_of(label: str) -> str:
    """The element of a label."""
    return label.rstrip("+-0123456789")


def charge_of(label: str) -> int:
    """The charge of a label. Raises `ValueError` if its suffix is not a charge as `atom_label` writes it."""
    element = element_of(label)
    suffix = label[len(element) :]
    charge = int(f"{suffix}1" if suffix in ("+", "-") else suffix or 0)
    if abs(charge) > LARGEST or atom_label(element, charge) != label:
        raise ValueError(f"{label}: not an element with a charge such as N+ or Fe+2")
    return charge


def is_charged(label: str) -> bool:
    """Whether a label has a charge."""
    return label != element_of(label)


def neutral(labels: Iterable[str]) -> tuple[str, ...]:
    """The elements of labels."""
    labels = tuple(labels)
    return labels if "".join(labels).isalpha() else tuple(map(element_of, labels))  # most have no charge at all


def not_among(labels: Iterable[str], allowed: Collection[str]) -> str | None:
    """Name the first label that is not allowed, its element or only its charge; None if all are allowed."""
    for label in labels:
        if label not in allowed:
            element = element_of(label)
            named = f"charge {label}" if element != label and element in neutral(allowed) else f"element {element}"
            return f"{named} is not one of {' '.join(allowed)}"
    return None
