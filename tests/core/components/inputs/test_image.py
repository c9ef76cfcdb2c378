"""Pictures as inputs: PNG files, arrays, and what is refused."""

from __future__ import annotations

import base64
import builtins
import os
import re
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from ele_core import ConfigError, Context, StructuredPredictor
from ele_core.components.inputs.image import EMBEDDED, ImageInput, Picture, Pictures, from_png, png
from ele_core.config import load
from ele_core.data.prepare import prepare
from ele_core.errors import InvalidInput, ModelError
from ele_core.extras import pip_install

GENERATOR = np.random.default_rng(0)
TINY = {
    "surrogate": {"name": "parts", "dim": 16},
    "regressor": {
        "name": "neural",
        "backbone": {"name": "convolution", "widths": [8], "blocks": [1], "hidden": 8},
        "training": {"epochs": 1, "evaluations": 1},
    },
    "decoder": "candidates",
}


def pixels(*shape: int) -> np.ndarray:
    return GENERATOR.integers(0, 256, shape, dtype=np.uint8)


def fitted(value: Any, **options: Any) -> ImageInput:
    inputs = ImageInput(ImageInput.Config(**options))
    inputs.fit([value])
    return inputs


def written(folder: Path, name: str, array: np.ndarray, mode: str | None = None) -> Path:
    image = Image.fromarray(array)
    (image.convert(mode) if mode else image).save(folder / name)
    return folder / name


@pytest.mark.parametrize("channels", [1, 2, 3, 4])
def test_a_picture_in_memory_is_written_as_a_png_that_pillow_reads(channels: int) -> None:
    picture = pixels(5, 7, channels)
    assert (from_png(png(picture), "mine") == picture).all()
    inputs = fitted(picture)
    text = inputs.format(picture)
    assert text.startswith(EMBEDDED)
    assert (inputs.parse(text).pixels == picture).all()


def test_arrays_of_all_layouts_and_types_are_the_same_picture() -> None:
    picture = pixels(6, 5, 3)
    layouts = [picture, picture.transpose(2, 0, 1), picture.astype(np.int64), picture / 255, torch.from_numpy(picture)]
    batch = fitted(picture).pack(layouts)
    assert batch.pixels.dtype == torch.uint8
    assert (batch.pixels == torch.from_numpy(picture)).all()
    grey = pixels(6, 5)
    assert (fitted(grey).pack([grey, grey[:, :, None], grey[None]]).pixels[..., 0] == torch.from_numpy(grey)).all()
    assert fitted(grey > 100).pack([grey > 100]).pixels.max() == 255


@pytest.mark.parametrize("mode", ["L", "RGB", "RGBA", "P", "1", "I;16"])
def test_png_files_of_all_modes_are_read(mode: str, tmp_path: Path) -> None:
    if mode == "I;16":
        file = written(tmp_path, "a.png", pixels(4, 4).astype(np.uint16) * 257)
    else:
        file = written(tmp_path, "a.png", pixels(4, 4, 3), mode)
    channels = {"RGB": 3, "RGBA": 4, "P": 3}.get(mode, 1)
    assert ImageInput().parse(str(file)).pixels.shape == (4, 4, channels)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (pixels(4, 5, 3), "the picture has 4 × 5 pixels and 3 channels, those of the training have 4 × 4 pixels and 3"),
        (pixels(4, 4), "4 × 4 pixels and 1 channel, those"),
        (pixels(4, 4, 5, 2), "is not a picture"),
        (np.full((4, 4, 3), 2.5), "not all between 0 and 1"),
        (np.full((4, 4, 3), 300), "not all between 0 and 255"),
        (np.full((4, 4, 3), np.nan), "not all between 0 and 1"),
        ("nowhere.png", "cannot be read: No such file"),
        (object(), "is not a picture"),
    ],
)
def test_what_is_no_such_picture_is_refused_with_its_position(value: object, reason: str) -> None:
    good = pixels(4, 4, 3)
    with pytest.raises(InvalidInput, match=reason) as error:
        fitted(good).pack([good, value])
    assert error.value.index == 1


def test_a_file_that_is_no_png_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no picture")
    Image.fromarray(pixels(4, 4, 3)).save(tmp_path / "photo.jpg")
    whole = written(tmp_path, "whole.png", pixels(40, 40, 3)).read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[:200])
    for name in ("text.png", "photo.jpg", "cut.png"):
        with pytest.raises(InvalidInput, match="is not a whole PNG file"):
            fitted(pixels(40, 40, 3), folder=str(tmp_path)).parse(name)


def huge_png(side: int = 13_000) -> bytes:
    """A header alone that promises so many pixels."""
    whole = png(np.zeros((1, 1, 1), np.uint8))
    return whole[:16] + struct.pack(">II", side, side) + whole[24:]


@pytest.mark.parametrize("name", ["/dev/zero", "pipe", "folder", "link", "endless.png"])
def test_what_is_no_plain_file_of_some_size_is_not_read(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "endless.png").touch()
    os.truncate(tmp_path / "endless.png", 1 << 40)
    space = ImageInput(ImageInput.Config(folder=str(tmp_path)))
    with pytest.raises(InvalidInput, match=r"cannot be read: (not a plain file|more than [\d,]+ bytes)\."):
        space.parse(name)


def test_the_size_of_a_picture_is_compared_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("decoded"))
    (tmp_path / "huge.png").write_bytes(huge_png())
    space = ImageInput(ImageInput.Config(folder=str(tmp_path)))
    for text in ("huge.png", EMBEDDED + base64.b64encode(huge_png()).decode()):
        with pytest.raises(InvalidInput, match=r"13,000 × 13,000 pixels, and at most 16,777,216 are read"):
            space.parse(text)
    space.fit([np.zeros((8, 8, 3), np.uint8)])
    (tmp_path / "other.png").write_bytes(huge_png(9))
    with pytest.raises(InvalidInput, match=r"has 9 × 9 pixels, those of the training have 8 × 8"):
        space.parse("other.png")


def test_without_pillow_arrays_work_and_files_say_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(tmp_path, "a.png", pixels(4, 4, 3))
    monkeypatch.setattr("ele_core.components.inputs.image.installed", lambda _: False)
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        assert not name.startswith("PIL")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    picture = pixels(4, 4, 3)
    inputs = fitted(picture)
    assert inputs.format(picture).startswith(EMBEDDED)
    with pytest.raises(ConfigError, match=re.escape(pip_install("pictures"))):
        inputs.parse(str(file))


def test_flips_and_rotations_give_the_eight_views_of_a_square() -> None:
    picture = pixels(4, 4, 3)
    inputs = fitted(picture, flips=True, rotations=True)
    batch = inputs.pack([picture] * 200)
    views = inputs.augment(batch, torch.Generator().manual_seed(0))
    assert isinstance(views, Pictures)
    turned = [np.rot90(start, turns) for start in (picture, picture[::-1]) for turns in range(4)]
    assert {view.tobytes() for view in views.pixels.numpy()} == {
        np.ascontiguousarray(each).tobytes() for each in turned
    }
    assert torch.equal(fitted(picture).augment(batch, torch.Generator()).pixels, batch.pixels)
    only_flipped = fitted(picture, flips=True).augment(batch, torch.Generator().manual_seed(0))
    assert len({view.tobytes() for view in only_flipped.pixels.numpy()}) == 4


def test_only_squares_can_be_rotated() -> None:
    with pytest.raises(InvalidInput, match="is not square"):
        fitted(pixels(4, 5, 3), rotations=True)


def test_the_nearest_picture_is_that_of_least_distance() -> None:
    others = [pixels(4, 4, 3) for _ in range(9)]
    inputs = fitted(others[0])
    close = np.clip(others[5].astype(int) + 2, 0, 255)
    row, distance = inputs.nearest(inputs.pack([close, others[2]]), inputs.pack(others))
    assert row.tolist() == [5, 2]
    assert distance[1] == 0
    assert 0 < distance[0] < 0.1


def test_a_damaged_size_is_refused(tmp_path: Path) -> None:
    for text in ('{"shape": [0, 4, 3]}', '{"shape": "4"}', '{"shape": [4, 4, 9]}', "{}"):
        (tmp_path / "image.json").write_text(text)
        with pytest.raises(ModelError, match="size of pictures"):
            ImageInput().load(tmp_path)


# -- files ----------------------------------------------------------------------------------------------------------


def table_of(folder: Path, count: int = 30) -> Path:
    """A CSV file with names of pictures beside it and their words."""
    (folder / "pictures").mkdir()
    lines = ["picture,word"]
    for row in range(count):
        written(folder / "pictures", f"{row}.png", pixels(8, 8, 3))
        lines.append(f"pictures/{row}.png,{'ab' if row % 2 else 'cd'}")
    file = folder / "pairs.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def prepared(file: Path, **options: Any) -> Any:
    data = {"file": str(file), **options}
    return prepare(load({"data": data, "output": "sequence", "input": "image", **TINY}), Context(0))


def test_names_of_pictures_are_relative_to_their_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = table_of(tmp_path)
    monkeypatch.chdir("/")
    found = prepared(file)
    assert found.packed.pixels.shape == (30, 8, 8, 3)
    assert found.inputs.format(found.data.inputs[3]) == str(tmp_path / "pictures" / "3.png")


def test_the_fingerprint_of_the_data_follows_the_contents_of_pictures(tmp_path: Path) -> None:
    file = table_of(tmp_path)
    before = prepared(file).data.fingerprint
    assert prepared(file).data.fingerprint == before
    written(tmp_path / "pictures", "7.png", pixels(8, 8, 3))
    assert prepared(file).data.fingerprint != before


def test_rows_with_bad_pictures_are_left_out_and_the_others_stay_aligned(tmp_path: Path) -> None:
    file = table_of(tmp_path)
    (tmp_path / "pictures" / "4.png").write_text("no picture")
    (tmp_path / "pictures" / "9.png").unlink()
    written(tmp_path / "pictures", "11.png", pixels(9, 8, 3))
    written(tmp_path / "pictures", "12.png", pixels(8, 8))
    found = prepared(file, on_error="skip")
    assert [each.row for each in found.data.rejected] == [4, 9, 11, 12]
    kept = [row for row in range(30) if row not in (4, 9, 11, 12)]
    assert [Path(value.file).stem for value in found.data.inputs] == [str(row) for row in kept]
    words = found.space.unpack(found.data.outputs)
    assert ["".join(word) for word in words] == ["ab" if row % 2 else "cd" for row in kept]


def test_many_pictures_are_read_from_one_npz_file(tmp_path: Path) -> None:
    pictures = pixels(30, 8, 8, 3)
    np.savez(tmp_path / "pairs.npz", picture=pictures, word=np.array(["ab", "cd"] * 15))
    found = prepared(tmp_path / "pairs.npz")
    assert (found.packed.pixels.numpy() == pictures).all()


def test_a_predictor_takes_arrays_and_paths(tmp_path: Path) -> None:
    pictures = pixels(30, 8, 8, 3)
    predictor = StructuredPredictor(output="sequence", **TINY)
    predictor.fit(pictures, ["ab", "cd"] * 15)
    file = written(tmp_path, "one.png", pictures[0])
    assert predictor.predict(pictures[:1]) == predictor.predict([str(file)]) == predictor.predict([file])
    predictor.save(tmp_path / "model")
    assert StructuredPredictor.load(tmp_path / "model").predict(pictures[:3]) == predictor.predict(pictures[:3])


def test_a_picture_of_a_file_keeps_its_path() -> None:
    assert fitted(pixels(4, 4, 3)).format(Picture(pixels(4, 4, 3), "/somewhere/a.png")) == "/somewhere/a.png"


def test_a_picture_is_drawn_beside_its_prediction(tmp_path: Path) -> None:
    file = written(tmp_path, "cell.png", pixels(4, 6, 3))
    drawing = ImageInput().render(str(file))
    assert drawing.text.endswith("cell.png")
    assert drawing.svg is not None
    assert EMBEDDED in drawing.svg
    assert 'width="96" height="64"' in drawing.svg
    arrays = [pixels(4, 4, 1) for _ in range(12)]
    predictor = StructuredPredictor("sequence", input="image", **TINY).fit(arrays, ["ab", "ba"] * 6, validation=2)
    assert "picture of 4 × 4 pixels" in predictor.decode(arrays[:1])._repr_html_()
