"""Picture inputs: PNG files or arrays of one size, kept as bytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
import os
import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
import torch
from torch import Generator, Tensor

from ele_core.component import ComponentConfig
from ele_core.errors import InvalidInput, ModelError, damaged
from ele_core.extras import installed, missing
from ele_core.files.archive import brief, read_json
from ele_core.files.sources import plain_bytes
from ele_core.interfaces import InputSpace
from ele_core.numerics.tensors import Tensors
from ele_core.types import Drawing, Reads

Pixels: TypeAlias = npt.NDArray[np.uint8]
"""(H, W, C)."""
EMBEDDED = "data:image/png;base64,"
"""How the text of a picture that is not in a file begins."""
SHOWN_WIDTH = 96
"""Small pictures are drawn about as wide as this, in pixels."""
MOST_CHANNELS = 4
"""Maximum number of channels of a picture: red, green, blue and opacity."""
LARGEST = 1 << 14
"""Maximum number of pixels along a side."""
MOST_PIXELS = 1 << 24
"""Maximum number of pixels of a PNG file: 4,096 × 4,096."""
LARGEST_FILE = 8 * MOST_PIXELS + (1 << 20)
"""Bytes of the largest PNG file: one that is not compressed has up to 8 for a pixel."""
SIGNATURE = b"\x89PNG\r\n\x1a\n"
"""The first bytes of a PNG file."""
HEADER = 24
"""Bytes of a PNG file up to and including its width and height."""
CHUNK = 4096
"""Training pictures that are compared at once."""
FULL = 255
"""The largest value of a pixel."""


@dataclass(frozen=True, eq=False)
class Picture:
    """The pixels of a picture, and the file that they were read from; empty: not from a file."""

    pixels: Pixels
    file: str = ""


@dataclass(frozen=True, eq=False)
class Pictures(Tensors):
    """Pictures of one size."""

    pixels: Tensor
    """(B, H, W, C) uint8; a backbone scales them."""


class ImageInput(InputSpace[Any]):
    """PNG files, or arrays (H, W), (H, W, C) or (C, H, W) with at most four channels; all have the same shape.

    Numbers are bytes from 0 to 255, or floats from 0 to 1. As text, a picture is the name of its file.
    """

    class Config(ComponentConfig):
        """Where files are, and how pictures are changed in training."""

        folder: str | None = None
        """The folder that names of files are relative to. None: that of the table with the names; in Python and for
        plain lines, the current folder."""
        flips: bool = False
        """Whether half of the pictures are flipped from left to right, and half upside down, at random in training:
        for outputs that do not depend on it."""
        rotations: bool = False
        """Whether pictures, which must be squares, are rotated at random by 0, 90, 180 or 270 degrees in training."""

    config: Config
    Batch: ClassVar[type[Tensors]] = Pictures
    reads: ClassVar[Reads] = "arrays"

    def __init__(self, config: ComponentConfig | None = None) -> None:
        super().__init__(config)
        self._shape: tuple[int, int, int] | None = None
        self._beside = ""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of all pictures."""
        if self._shape is None:
            what = "this picture input does not know the size of pictures yet."
            raise ModelError(what, fix="Call `fit` with the training pictures, or `load`, first.")
        return self._shape

    def read_beside(self, file: str) -> None:
        """Names of pictures are relative to the folder of `file`, unless the option `folder` is given."""
        self._beside = str(Path(file).parent)

    def parse(self, text: str) -> Picture:
        """Read the PNG file of this name."""
        return embedded(text, self._shape) if text.startswith(EMBEDDED) else from_file(text, self._folder, self._shape)

    def format(self, value: Any) -> str:
        """The path of the file; a picture that is not from a file is written as a data URI."""
        picture = picture_of(value, 0, self._folder)
        return picture.file or EMBEDDED + base64.b64encode(png(picture.pixels)).decode()

    def render(self, value: Any) -> Drawing:
        """The picture itself, enlarged if it is small, above the name of its file or its size."""
        found = picture_of(value, 0, self._folder)
        height, width = found.pixels.shape[:2]
        scale = max(1, SHOWN_WIDTH // max(width, 1))
        source = EMBEDDED + base64.b64encode(png(found.pixels)).decode()
        size = f'width="{scale * width}" height="{scale * height}"'
        image = f'<image {size} href="{source}" style="image-rendering:pixelated"/>'
        svg = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{image}</svg>'
        return Drawing(found.file or f"picture of {width} × {height} pixels", svg)

    def contents(self, values: Sequence[Any]) -> str:
        """The SHA-256 of the pixels that were read from files; empty if there are none."""
        files = [value.pixels for value in values if isinstance(value, Picture) and value.file]
        digest = hashlib.sha256()
        for pixels in files:
            digest.update(pixels.tobytes())
        return digest.hexdigest() if files else ""

    def fit(self, values: Sequence[Any]) -> None:
        """Learn the size of pictures from the first; all others must have it."""
        shape: tuple[int, ...] | None = None
        for index, value in enumerate(values):
            pixels = picture_of(value, index, self._folder).pixels
            shape = shape or pixels.shape
            require_shape(pixels, shape, index)
        if shape is None:
            raise ModelError("there is no picture to learn the size from.", fix="Give at least one picture.")
        if self.config.rotations and shape[0] != shape[1]:
            what = f"a picture of {described(shape)} is not square, so it cannot be rotated in training."
            raise InvalidInput(what, fix="Set rotations = false.")
        self._shape = shape[0], shape[1], shape[2]

    def pack(self, values: Sequence[Any]) -> Pictures:
        """Pictures → pixels (B, H, W, C)."""
        batch = np.zeros((len(values), *self.shape), np.uint8)
        for index, value in enumerate(values):
            pixels = picture_of(value, index, self._folder).pixels
            require_shape(pixels, self.shape, index)
            batch[index] = pixels
        return Pictures(torch.from_numpy(batch))

    def examples(self) -> list[Any]:
        """Pictures of 8 × 8 pixels in three channels."""
        ramp = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
        return [ramp, ramp[::-1].copy(), ramp.transpose(1, 0, 2).copy(), np.full((8, 8, 3), 200, np.uint8)]

    def augment(self, batch: Tensors, generator: Generator) -> Tensors:
        """Flip and rotate pictures at random, as the options say."""
        assert isinstance(batch, Pictures)
        pixels, rows = batch.pixels, (len(batch),)
        if self.config.flips:
            for side in (1, 2):
                chosen = torch.randint(2, rows, generator=generator).bool()
                pixels = torch.where(chosen[:, None, None, None], pixels.flip(side), pixels)
        if self.config.rotations:
            turns = torch.randint(4, rows, generator=generator)
            turned = torch.stack([torch.rot90(pixels, turn, (1, 2)) for turn in range(4)])
            pixels = turned[turns, torch.arange(len(batch))]
        return Pictures(pixels)

    def nearest(self, batch: Tensors, others: Tensors) -> tuple[Tensor, Tensor]:
        """By the Euclidean distance of all pixels, between 0 and 1 each."""
        assert isinstance(batch, Pictures)
        assert isinstance(others, Pictures)
        queries = scaled(batch.pixels)
        best, row = torch.full((len(batch),), torch.inf), torch.zeros(len(batch), dtype=torch.int64)
        for first in range(0, len(others) if len(batch) else 0, CHUNK):
            found = torch.cdist(queries, scaled(others.pixels[first : first + CHUNK])).min(dim=1)
            nearer = found.values < best
            best, row = torch.where(nearer, found.values, best), torch.where(nearer, found.indices + first, row)
        return row, best

    @classmethod
    def defaults(cls, pairs: int) -> dict[str, Any]:
        """A convolutional network."""
        return {"backbone": {"name": "convolution"}}

    def save(self, folder: Path) -> None:
        """Write `image.json`: height, width and channels."""
        (folder / _FILE).write_text(json.dumps({"shape": self.shape}), encoding="utf-8")

    def load(self, folder: Path) -> None:
        """Read what `save` wrote."""
        file = folder / _FILE
        state = read_json(file)
        shape = [*state["shape"]] if isinstance(state, dict) and isinstance(state.get("shape"), list) else []
        good = len(shape) == 3 and all(type(side) is int and 0 < side <= LARGEST for side in shape)
        if not good or shape[2] > MOST_CHANNELS:
            raise damaged("the size of pictures cannot be read.", file)
        self._shape = shape[0], shape[1], shape[2]

    @property
    def _folder(self) -> str:
        return self._beside if self.config.folder is None else self.config.folder


_FILE = "image.json"


def scaled(pixels: Tensor) -> Tensor:
    """Bytes (B, H, W, C) → floats (B, H · W · C) between 0 and 1."""
    return pixels.flatten(1).float() / FULL


def picture_of(value: Any, index: int, folder: str) -> Picture:
    """A picture from a picture, a path or an array; `index` is for messages."""
    if isinstance(value, Picture):
        return value
    try:
        if isinstance(value, str | os.PathLike):
            return from_file(os.fspath(value), folder)
        return Picture(from_array(np.asarray(value)))
    except InvalidInput as error:
        raise InvalidInput(error.what, index=index, fix=error.fix) from None
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"not a picture: {brief(error)}.", index=index) from error


def from_array(array: npt.NDArray[Any]) -> Pixels:
    """An array (H, W), (H, W, C) or (C, H, W) as bytes (H, W, C)."""
    if array.dtype.kind not in "fiub" or array.ndim not in (2, 3) or not array.size:
        what = f"an array of shape {array.shape} and type {array.dtype} is not a picture."
        raise InvalidInput(what, fix="Give arrays (H, W), (H, W, C) or (C, H, W) of numbers.")
    if array.ndim == 2:
        array = array[:, :, None]
    elif array.shape[2] > MOST_CHANNELS >= array.shape[0]:
        array = array.transpose(1, 2, 0)
    if array.shape[2] > MOST_CHANNELS:
        raise InvalidInput(f"a picture of {described(array.shape)}: at most {MOST_CHANNELS} channels are read.")
    return as_bytes(array)


def as_bytes(array: npt.NDArray[Any]) -> Pixels:
    """Numbers as bytes: integers as they are, floats from 0 to 1 times 255, false and true as 0 and 255."""
    floats = array.dtype.kind in "fb"
    most = 1 if floats else FULL
    if array.dtype == np.uint8:
        return array
    if not ((array >= 0) & (array <= most)).all():
        what = f"the pixels are not all between 0 and {most}."
        raise InvalidInput(what, fix="Give integers from 0 to 255, or floats from 0 to 1.")
    return np.rint(array.astype(np.float64) * (FULL if floats else 1)).astype(np.uint8)


def require_shape(pixels: Pixels, shape: Sequence[int], index: int) -> None:
    """Refuse a picture of another size or number of channels than the training pictures."""
    if pixels.shape != tuple(shape):
        what = f"the picture has {described(pixels.shape)}, those of the training have {described(shape)}."
        raise InvalidInput(what, index=index, fix="Give all pictures the same size and the same channels.")


def described(shape: Sequence[int]) -> str:
    """Height, width and channels in words."""
    return f"{shape[0]} × {shape[1]} pixels and {shape[2]} channel{'s' if shape[2] != 1 else ''}"


# -- PNG ------------------------------------------------------------------------------------------------------------


def from_file(name: str, folder: str, shape: Sequence[int] | None = None) -> Picture:
    """The picture in a PNG file, which must be plain: a name in a table may be that of a pipe or a device."""
    path = Path(folder) / name
    try:
        content = plain_bytes(path, LARGEST_FILE) if name.strip() else b""
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "not a path"
        what = f"the picture {brief(str(path), 120)!r} cannot be read: {reason}."
        raise InvalidInput(what, fix="Check the name, or set the option `folder` of the input.") from None
    if not name.strip():
        raise InvalidInput("the name of the picture is empty.")
    return Picture(from_png(content, str(path), shape), os.path.abspath(path))  # noqa: PTH100  # links are kept


def embedded(text: str, shape: Sequence[int] | None = None) -> Picture:
    """The picture in a data URI."""
    try:
        content = base64.b64decode(text.removeprefix(EMBEDDED), validate=True)
    except (binascii.Error, ValueError):
        raise InvalidInput(f"{brief(text, 60)!r} is not a picture in base64.") from None
    return Picture(from_png(content, brief(text, 60), shape))


def require_size(content: bytes, name: str, shape: Sequence[int] | None) -> None:
    """Refuse a PNG file by its header, before it takes memory: too many pixels, or others than those of `shape`."""
    width, height = struct.unpack(">II", content[HEADER - 8 : HEADER]) if len(content) >= HEADER else (0, 0)
    if shape is not None and (height, width) != tuple(shape[:2]):
        what = f"{name!r} has {height:,} × {width:,} pixels, those of the training have {shape[0]} × {shape[1]}."
        raise InvalidInput(what, fix="Give all pictures the same size and the same channels.")
    if width * height > MOST_PIXELS:
        what = f"{name!r} has {height:,} × {width:,} pixels, and at most {MOST_PIXELS:,} are read."
        raise InvalidInput(what, fix="Make the pictures smaller.")


def from_png(content: bytes, name: str, shape: Sequence[int] | None = None) -> Pixels:
    """Decode PNG: palettes become red, green and blue, and 16 bits per channel become 8."""
    if not installed("PIL"):
        raise missing("reading PNG files", "pillow", "pictures")
    if content.startswith(SIGNATURE):
        require_size(content, name, shape)
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as image:
            return from_array(as_read(image))
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError):
        what = f"{name!r} is not a whole PNG file."
        raise InvalidInput(what, fix="Convert the picture to PNG.") from None


def as_read(image: Any) -> npt.NDArray[Any]:
    """The pixels of an image of Pillow."""
    if image.mode.startswith("I"):
        return (np.asarray(image).astype(np.int64) // (FULL + 2)).astype(np.uint8)
    modes = {"1": "L", "P": "RGBA" if "transparency" in image.info else "RGB"}
    return np.asarray(image.convert(modes[image.mode]) if image.mode in modes else image)


def png(pixels: Pixels) -> bytes:
    """Encode as PNG."""
    height, width, channels = pixels.shape
    colour = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    lines = np.pad(pixels.reshape(height, -1), ((0, 0), (1, 0)))  # each line begins with its filter, 0: none
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(lines.tobytes(), 1)), (b"IEND", b""))
    return SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )
