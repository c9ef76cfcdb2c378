"""The paper's experiments as they are declared: each row that can be run here resolves, and is what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from ele_core.experiments.reproduce import Plan, find_study, make_plan
from ele_core.experiments.tune import TuningSearch
from ele_graphs.smi2mol.studies import RANGES, STUDIES, TABLE1
from ele_graphs.smi2mol.task import SmilesToMolecule


@pytest.fixture
def gdb11(tmp_path: Path) -> str:
    file = tmp_path / "gdb11.smi"
    file.write_text("CCO\n")
    return str(file)


def plan(study: str, gdb11: str, scale: str = "small") -> Plan:
    return make_plan(*find_study(study), scale, files={"gdb11": gdb11})


def test_the_table_has_the_rows_of_the_paper_in_their_order_and_then_ours():
    assert [row.name for row in TABLE1.rows] == [*(reference.name for reference in SmilesToMolecule.references), "ours"]
    assert all(row.reference in (row.name, None) for row in TABLE1.rows)
    assert all(reference.deviations.keys() == reference.values.keys() for reference in SmilesToMolecule.references)


@pytest.mark.parametrize("study", [study.name for study in STUDIES])
@pytest.mark.parametrize("scale", ["small", "full"])
def test_every_row_is_a_configuration_unless_its_component_is_not_there(study, scale, gdb11):
    found = plan(study, gdb11, scale)
    assert {job.row.name for job in found.jobs} >= {"ELE + ONNPT"}
    assert all("is called" in reason for reason in found.skipped.values()), found.skipped


def test_the_rows_of_the_paper_have_its_form(gdb11):
    jobs = {job.row.name: job for job in plan("table1", gdb11).jobs}
    plain, pretrained, descended = (jobs[name].config for name in ("ELE", "ELE + ONNPT", "ELE + ONNPT + PGDBD"))
    for config in (plain, pretrained, descended):
        encoder = config.surrogate.options["encoder"]
        assert not any(encoder[name] for name in ("self_connection", "residual", "mask_virtual", "closed_walks"))
        assert encoder["normalise"] == "none"
        assert [view["name"] for view in config.output.options["augmentations"]] == ["drop-nodes"]
        assert config.surrogate.options["mining"] is None
        assert config.regressor.options["backbone"]["name"] == "transformer"
        assert config.task.options["extra"] == (None if config is plain else gdb11)
    assert (plain.decoder.name, pretrained.decoder.name, descended.decoder.name) == ("candidates", "candidates", "pgd")
    plainly = {"start": "best", "starts": 1, "momentum": 0, "rule": "constant", "answer": "last"}
    assert plainly.items() <= descended.decoder.options.items()
    assert jobs["ELE + ONNPT"].training == jobs["ELE + ONNPT + PGDBD"].training != jobs["ELE"].training


def test_the_figures_use_the_model_of_the_table(gdb11):
    trained = {
        name: {job.training for job in plan(name, gdb11).jobs if job.row.name == "ELE + ONNPT"}
        for name in ("table1", "figure3", "figure4")
    }
    assert len(set.union(*trained.values())) == 1


def test_without_gdb11_the_rows_that_need_it_are_skipped():
    found = make_plan(*find_study("table1"))
    assert found.skipped["ELE + ONNPT"] == "needs --file gdb11=PATH."
    assert "ELE" in {job.row.name for job in found.jobs}


def test_the_full_scale_is_the_protocol_of_the_paper(gdb11):
    for job in plan("table1", gdb11, "full").jobs:
        options = job.config.task.options
        assert (options["size"], options["test"], options["validation"]) == (None, 2000, 500)


def test_tuning_covers_the_paper_and_leaves_heads_to_the_transformer(tmp_path):
    transformer = TuningSearch.of("smi2mol", ["regressor.backbone=transformer"], None, tmp_path / "trials")
    assert transformer.ranges == RANGES
    default = TuningSearch.of("smi2mol", [], None, tmp_path / "trials")
    assert set(RANGES) - set(default.ranges) == {"regressor.backbone.heads"}
