"""Messages on problems of a configuration: one line each, with the path of the option."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from pydantic_core import ErrorDetails


def unknown_option(key: str, valid: list[str]) -> str:
    """Return the message for a key that is not among the `valid` ones."""
    close = get_close_matches(key, valid, n=1)
    if close:
        return f"unknown option; did you mean '{close[0]}'?"
    return f"unknown option; {'the options are ' + ', '.join(valid) if valid else 'there are none here'}"


def explain(details: list[ErrorDetails], values: Mapping[str, Any], path: str) -> list[str]:
    """Return one line per path; the errors of the members of a union are joined by `or`."""
    complaints: dict[str, list[str]] = {}
    shown: dict[str, str] = {}
    for each in details:
        where = ".".join(part for part in [path, *_keys(each, values)] if part) or "configuration"
        complaints.setdefault(where, []).append(_complaint(each))
        shown[where] = "" if each["type"] == "missing" or not each["loc"] else f" (got {reprlib.repr(each['input'])})"
    return [f"{where}: {' or '.join(dict.fromkeys(texts))}{shown[where]}" for where, texts in complaints.items()]


def _keys(error: ErrorDetails, values: Any) -> Iterator[str]:
    """Yield the keys of pydantic's location that a user wrote; the others name members of unions and validators."""
    for part in error["loc"]:
        if _holds(values, part):
            values = values[part]
        elif error["type"] != "missing" or part != error["loc"][-1]:
            continue
        yield str(part)


def _complaint(error: ErrorDetails) -> str:
    if error["type"] == "missing":
        return "is required"
    if error["type"] in ("model_type", "model_attributes_type", "dict_type"):
        return "should be a table"
    if error["type"] in ("tuple_type", "list_type"):
        return 'should be a list, such as ["a", "b"]'
    if error["type"] == "extra_forbidden":
        return "unknown option"
    text = re.sub(r"^(Value error|Assertion failed), ", "", error["msg"])
    return re.sub(r"^\w+ should", "should", text).partition(", unable")[0]


def _holds(values: Any, part: str | int) -> bool:
    if isinstance(values, Mapping):
        return part in values
    return isinstance(values, list | tuple) and isinstance(part, int) and part < len(values)
