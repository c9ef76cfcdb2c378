"""The recorded results are complete, and the tables on the pages say what they say."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pages import ROOT

KEYS = {"command", "date", "seed", "sizes", "config", "metrics"}


def test_the_tables_are_in_step_with_the_records():
    command = [sys.executable, ROOT / "benchmarks" / "tables.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_record_says_how_to_get_it_again():
    results = ROOT / "docs" / "results"
    files = sorted(file for file in results.rglob("*/*.json") if "runs" not in file.parts)
    assert files, "docs/results has no record: write one with `ele evaluate RUN --record FILE`"
    for file in files:
        found = json.loads(file.read_text("utf-8"))
        for record in found if isinstance(found, list) else [found]:
            needed = KEYS if isinstance(found, dict) else KEYS - {"config"} | {"overrides"}  # a sweep: what differs
            if "paths" in record or "sweep" in record:  # a figure
                needed = KEYS - {"metrics"}
            assert not needed - record.keys(), file


def record(decoder: str, exact: dict[int, float], *, oracle: bool = False) -> str:
    metrics = {"ged_with_edges": 1.5, "ged_with_edges_not_proven": 7.0, "exact": 0.25, "valid": 1.0, "examples": 190.0}
    groups = [{"value": n, "examples": 10 * n, "metrics": {"exact": share}} for n, share in exact.items()]
    found = {"decoder": {"name": decoder}, "oracle": oracle, "metrics": metrics, "by_property": {"atoms": groups}}
    return json.dumps(found)


def script(name: str) -> ModuleType:
    specification = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_results_by_size_become_a_table_and_a_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tables, sizes = script("tables"), script("sizes")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.made("moses") == tables.exact_by("moses", "atoms") == "No result is recorded yet."
    folder = tmp_path / "moses"
    folder.mkdir()
    (folder / "search.json").write_text(record("search", {9: 0.5, 10: 0.25}))
    (folder / "candidates.json").write_text(record("candidates", {9: 0.0}))
    (folder / "search-oracle.json").write_text(record("search", {9: 1.0, 10: 0.75}, oracle=True))
    header = "| atoms | examples | `candidates` | `search` | `search` from the true embedding (oracle) |"
    made = tables.exact_by("moses", "atoms").splitlines()
    assert made == [
        header,
        "| --- | --- | --- | --- | --- |",
        "| 9 | 90 | 0.0 % | 50.0 % | 100.0 % |",
        "| 10 | 100 | – | 25.0 % | 75.0 % |",
    ]
    assert "| `search` | 190 | 1.500 | 7 | 25.0 % | 100.0 % |" in tables.made("moses")
    figure = folder / "sizes.svg"
    monkeypatch.setattr(sys, "argv", ["sizes.py", str(folder), "--output", str(figure)])
    sizes.main()
    assert figure.read_text().count("<!-- search (oracle) -->") == 1
    assert tables.exact_by("moses", "atoms").endswith("![Exact predictions by atoms](moses/sizes.svg)")
    monkeypatch.setattr(sys, "argv", ["sizes.py", str(folder), "--by", "rings", "--output", str(figure)])
    with pytest.raises(SystemExit, match="no record has metrics by 'rings'"):
        sizes.main()


# -- learning curves beside rivals --------------------------------------------------------------------------------

COPYING = "copying the nearest input's output"


def curve(seed: int, ours: float, attention: float | None = None, **more: object) -> dict[str, object]:
    """A result of `benchmarks/learning_curves.py`, of ELE and perhaps of a rival."""
    result: dict[str, object] = {"set": "number-words", "pairs": 300, "seed": seed, "options": []}
    result |= {"model": {"exact": ours, "edit_distance": 1.0}, "baselines": {COPYING: {"exact": 0.125}}}
    result |= {"seconds": {"training_cpu": 60}, "test": 200, "date": "2026-01-01", "metric": "edit_distance"}
    if attention is not None:
        result["rivals"] = {"an attention network": {"exact": attention, "cpu_seconds": 30.0}}
    return {**result, **more}


def rows_beside_rivals(folder: Path, monkeypatch: pytest.MonkeyPatch, *results: dict[str, object]) -> list[str]:
    tables = script("tables")
    monkeypatch.setattr(tables, "RESULTS", folder)
    (folder / "learning-curves.json").write_text(json.dumps({"results": results}))
    return str(tables.made("learning-curves-rivals")).splitlines()[2:]


def test_the_table_of_rivals_shows_the_best_of_them_and_who_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    found = rows_beside_rivals(tmp_path, monkeypatch, curve(0, 0.5, 0.75), curve(1, 0.5, 0.875), curve(2, 0.25))
    network = "an attention network | 81.2 ± 8.8 % | 30 s | the rival"
    assert found == [f"| number-words | 300 | 50.0 ± 0.0 % | 60 s | {network} | {COPYING} 12.5 % | 0, 1 | 2026-01-01 |"]
    (found,) = rows_beside_rivals(tmp_path, monkeypatch, curve(0, 0.5, 0.0625))
    assert f"{COPYING} | 12.5 % | 0 s | ELE | an attention network 6.2 %" in found
    (found,) = rows_beside_rivals(tmp_path, monkeypatch, curve(0, 0.5))
    assert f"60 s | – | – | – | – | {COPYING} 12.5 %" in found, "no rival was measured"


def test_every_rival_is_compared_with_ele_on_the_pairs_that_both_saw(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tables = script("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    results = [curve(0, 0.5, 0.75), curve(1, 0.5, 0.875), curve(2, 0.25)]
    (tmp_path / "learning-curves.json").write_text(json.dumps({"results": results}))
    ours = "50.0 ± 0.0 % | 60 s | the rival | 0, 1 | 2026-01-01 |"
    row = f"| number-words | 300 | an attention network | 81.2 ± 8.8 % | 30 s | {ours}"
    assert str(tables.made("compared")).splitlines()[2:] == [row]


def test_who_wins_is_level_within_the_standard_error():
    winner = script("tables").winner
    assert [winner([0.5], [other], 200) for other in (0.4, 0.48, 0.5, 0.52, 0.6)] == [
        *("ELE", "level", "level", "level", "the rival"),
    ]
    assert winner([0.5, 0.7], [0.4, 0.8], 200) == "level", "each is ahead once"


def test_results_are_merged_by_set_size_seed_and_options(tmp_path: Path):
    curves, file = script("learning_curves"), tmp_path / "curves.json"
    first, rivals = curve(0, 0.5), {"a network": {"exact": 0.25}}
    key = curves.key_of(first)
    curves.save(file, {**key, "rivals": rivals})
    assert curves.recorded(file, key) == {}, "rivals alone tell no time"
    for result in (first, curve(1, 0.75), curve(0, 0.625)):
        curves.save(file, result)
    results = json.loads(file.read_text("utf-8"))["results"]
    assert [(each["seed"], each["model"]["exact"]) for each in results] == [(0, 0.625), (1, 0.75)]
    assert curves.recorded(file, key)["rivals"] == rivals


# -- costs and the demo -------------------------------------------------------------------------------------------


def test_costs_become_a_row_for_each_stage_with_exponents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    tables, cost = script("tables"), script("cost")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    assert tables.made("cost") == "No result is recorded yet."
    sizes = {10_000: (1.0, 50), 30_000: (3.0, 150)}
    results = [
        {"stage": "reading", "outputs": size, "cpu_seconds": cpu, "megabytes": memory}
        for size, (cpu, memory) in sizes.items()
    ]
    (tmp_path / "cost.json").write_text(json.dumps(cost.record(results)))
    rows = tables.made("cost").splitlines()
    assert "| reading | 1 s, 50 MB | 3 s, 150 MB | – | – | 1.00 | 1.00 |" in rows
    assert "| search | – | – | – | – | – | – |" in rows, "what was not measured is missing"


def test_the_line_beside_the_demo_comes_from_its_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tables = script("tables")
    monkeypatch.setattr(tables, "RESULTS", tmp_path)
    decoders = [{"metrics": {"exact": share, "examples": 500.0}} for share in (0.01, 0.5)]
    found = {"decoders": decoders, "training_cpu_seconds": 600.0, "date": "2026-01-01"}
    (tmp_path / "demo.json").write_text(json.dumps(found))
    line = "The demo: 50.0 % of 500 test molecules exact, 10 min of processor time (2026-01-01)."
    assert tables.made("demo-briefly") == line
