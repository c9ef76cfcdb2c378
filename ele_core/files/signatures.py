"""Signatures with a key of the user's: whether a folder is what it was when the key was used on it.

A signature is a file with the SHA-256 of other files and an HMAC-SHA256 of this list. Whoever changes a file can also
rewrite a manifest; only somebody who has the key can rewrite a signature. The key is any file of at least 16 bytes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ele_core.errors import ConfigError, ModelError
from ele_core.files.archive import digest, read_json
from ele_core.files.atomic import write_text

SIGNATURE = "signature.json"
KEY = "ELE_KEY"
"""The environment variable with the path of the key; `ele --key FILE` sets it."""
FORMAT = 1
LEAST = 16
"""Bytes of the shortest key."""
MOST = 1 << 20
"""Bytes of the longest key."""


def read_key(file: str | Path | None = None) -> bytes | None:
    """Return the key in `file`, or else in the file that `ELE_KEY` names; None if neither is given."""
    path = file or os.environ.get(KEY)
    if not path:
        return None
    try:
        with Path(path).open("rb") as stream:
            key = stream.read(MOST + 1)
    except OSError as error:
        raise ConfigError(f"the key cannot be read: {error.strerror}.", where=str(path)) from None
    if not LEAST <= len(key) <= MOST:
        fix = f"Make one: head -c 32 /dev/urandom > {path}"
        raise ConfigError(
            f"a key has from {LEAST} to {MOST:,} bytes, this file {len(key):,}.", where=str(path), fix=fix
        )
    return key


def sign(folder: Path, names: Sequence[str], key: bytes) -> None:
    """Write the signature of the files called `names`, relative to `folder`."""
    files = {name: digest(folder / name) for name in sorted(names)}
    content = {"format": FORMAT, "algorithm": "hmac-sha256", "files": files, "signature": tag(files, key)}
    write_text(folder / SIGNATURE, json.dumps(content, indent=2) + "\n")


def changed(folder: Path, names: Sequence[str], key: bytes) -> list[str]:
    """Return the files among `names` that are not as they were signed; raise if the signature itself does not hold."""
    signed = signed_files(folder, key)
    return [name for name in names if signed.get(name) != digest(folder / name)]


def signed_files(folder: Path, key: bytes) -> dict[str, str]:
    """Return the SHA-256 of each signed file, if the signature of `folder` was made with this key."""
    file = folder / SIGNATURE
    if not file.exists():
        fix = "Sign it with: ele sign RUN --key FILE. Or load it without a key."
        raise ModelError("not signed, and a key is given.", where=str(folder), fix=fix)
    content: Any = read_json(file)
    files = content.get("files") if isinstance(content, dict) else None
    if not isinstance(files, dict) or content.get("format") != FORMAT:
        raise ModelError("not a signature.", where=str(file))
    if not hmac.compare_digest(str(content.get("signature")).encode(), tag(files, key).encode()):
        raise ModelError("signed with another key, or changed after it was signed.", where=str(file))
    return files


def tag(files: dict[str, str], key: bytes) -> str:
    """The HMAC of a list of files, whatever their order."""
    listed = json.dumps(files, sort_keys=True, ensure_ascii=True).encode()
    return hmac.new(key, listed, hashlib.sha256).hexdigest()
