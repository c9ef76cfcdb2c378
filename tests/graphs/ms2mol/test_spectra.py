"""Spectra: as objects, as text, merged, and packed into batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ele_core.errors import InvalidInput
from ele_core.plugins import registry
from ele_core.testing import check_backbone, check_input_space
from ele_graphs.ms2mol.backbone import PeaksBackbone
from ele_graphs.ms2mol.input_space import Spectra, SpectrumInput
from ele_graphs.ms2mol.spectrum import KNOWN, Spectrum, find, merged

TEXT = "29.0386:400 47.0491:999 | precursor=47.0491 adduct=[M+H]+"


def inputs(**options) -> SpectrumInput:
    space = registry().create("input", {"name": "spectrum", "max_peaks": 8, **options})
    space.fit(space.examples())
    return space


def failed(results) -> list[str]:
    return [str(result) for result in results if result.status == "failed"]


def test_the_input_space_keeps_the_laws() -> None:
    assert not failed(check_input_space(inputs(drop=0.5, jitter=0.3)))


def test_the_backbone_keeps_the_laws() -> None:
    space = inputs()
    small = {"name": "peaks", "width": 8, "hidden": 16, "rows": 64, "layers": 1, "pooling": "additive"}
    assert not failed(check_backbone(registry().create("backbone", small, space, 5), space))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "not a spectrum"),
        ("29.0:1 47.0:2", "not a spectrum"),
        (" | precursor=47 adduct=[M+H]+", "not a spectrum"),
        ("29.0:1 | adduct=[M+H]+", "precursor m/z is missing"),
        ("29.0:1 | precursor=nan adduct=[M+H]+", "precursor m/z is nan"),
        ("29.0:1 | precursor=-5 adduct=[M+H]+", "precursor m/z is -5"),
        ("29.0:1 | precursor=x adduct=[M+H]+", "not a number"),
        ("29.0:1 | precursor=47", "adduct is missing"),
        ("29.0:1 | precursor=47 adduct=[M+Xx]+", r"'\[M\+Xx\]\+' is not known. Known are \[M\+H\]\+"),
        ("nan:1 | precursor=47 adduct=[M+H]+", "peak 1 has the m/z nan"),
        ("29.0:1 30:-2 | precursor=47 adduct=[M+H]+", "peak 2 has the intensity -2"),
        ("29.0:0 | precursor=47 adduct=[M+H]+", "no peak of positive"),
        ("29.0 | precursor=47 adduct=[M+H]+", "not written as mz:intensity"),
        ("a:1 | precursor=47 adduct=[M+H]+", "an m/z is 'a'"),
    ],
)
def test_a_bad_spectrum_is_refused_with_a_sentence(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Spectrum.parse(text)
    assert refused.match(reason) or reason in refused.value.reason or pytest.fail(refused.value.reason)


def test_intensities_are_relative_to_the_highest_and_peaks_sorted() -> None:
    spectrum = Spectrum.of([(47.0, 5.0), (29.0, 10.0), (30.0, 0.0)], 47.0, "[M+H]+")
    np.testing.assert_allclose(spectrum.peaks, [[29.0, 1.0], [47.0, 0.5]])


def test_text_is_inverse_to_parse_with_all_digits() -> None:
    spectrum = Spectrum.parse(TEXT)
    again = Spectrum.parse(str(spectrum))
    assert str(again) == str(spectrum)
    np.testing.assert_array_equal(again.peaks, spectrum.peaks)


@pytest.mark.parametrize("name", ["[M+H]+", "M+H", "[M + H]+"])
def test_an_adduct_has_several_spellings(name: str) -> None:
    assert find(name) is KNOWN[0]


@pytest.mark.parametrize("adduct", KNOWN)
def test_the_mass_of_the_molecule_follows_from_the_precursor(adduct) -> None:
    assert adduct.neutral_mass(adduct.mz(194.0804)) == pytest.approx(194.0804)


def test_the_mass_of_caffeine_follows_from_its_ions() -> None:
    for name, mz in (("[M+H]+", 195.08765), ("[M-H]-", 193.07310), ("[M+Na]+", 217.06960)):
        adduct = find(name)
        assert adduct is not None
        assert adduct.neutral_mass(mz) == pytest.approx(194.08038, abs=1e-4)


def test_merged_spectra_have_the_peaks_of_all() -> None:
    one = Spectrum.of([(50.0, 10), (80.001, 5)], 100.0, "[M+H]+")
    two = Spectrum.of([(80.003, 10), (60.0, 2)], 100.002, "[M+H]+")
    found = merged([one, two])
    assert found.precursor == pytest.approx(100.001)
    np.testing.assert_allclose(found.peaks[:, 0], [50.0, 60.0, (80.001 * 0.5 + 80.003) / 1.5])
    np.testing.assert_allclose(found.peaks[:, 1], [1 / 1.5, 0.2 / 1.5, 1.0])


def test_the_highest_peaks_are_kept() -> None:
    spectrum = Spectrum.of([(m, m) for m in range(1, 20)], 50.0, "[M+H]+")
    batch = inputs().pack([spectrum])
    assert batch.counts.tolist() == [8]
    assert batch.mz[0].tolist() == list(range(12, 20))


def test_augmentation_drops_peaks_but_not_the_highest() -> None:
    space = inputs(drop=0.9)
    batch = space.pack([space.examples()[1]] * 50)
    views = space.augment(batch, torch.Generator().manual_seed(0))
    assert isinstance(views, Spectra)
    assert (views.counts >= 1).all()
    assert views.counts.float().mean() < 2
    assert (views.intensity.amax(dim=1) == 1).all()
    assert (torch.where(views.mask, views.mz, 1.0) > 0).all()


def test_a_spectrum_unlike_training_is_named() -> None:
    space = inputs()
    strange = [
        Spectrum.parse("29:1 | precursor=47 adduct=[M+Na]+"),
        Spectrum.parse("29:1 | precursor=900 adduct=[M+H]+"),
        Spectrum.parse(TEXT),
    ]
    reasons = space.unlike_training(strange)
    assert "[M+Na]+ did not occur" in reasons[0]
    assert "precursor is 900" in reasons[1]
    assert reasons[2] == ""


def test_the_output_does_not_depend_on_padding() -> None:
    narrow, wide = inputs(max_peaks=8), inputs(max_peaks=50)
    torch.manual_seed(0)
    network = PeaksBackbone(PeaksBackbone.Config(width=8, hidden=16, rows=64, layers=1), narrow, 4).eval()
    torch.testing.assert_close(network(narrow.pack(narrow.examples())), network(wide.pack(wide.examples())))
