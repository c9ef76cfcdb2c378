"""The contracts under pytest, in a folder of a plugin author's own; and the kit without pytest."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

EXAMPLE = Path(__file__).parents[3] / "docs" / "examples" / "ele-rankings"

TESTS = """
from mistakes.of_spaces import AugmentsNothing, Plain, small

from ele_core.components.decoders.candidates import CandidatesDecoder
from ele_core.testing import DecoderContract, OutputSpaceContract


class TestBroken(OutputSpaceContract):
    checks = [check for check in OutputSpaceContract.checks if "augment" in check.__name__]

    def space(self):
        return small(AugmentsNothing)


class TestExpected(OutputSpaceContract):
    expected_failures = {"check_augment_changes_something": "no views yet", "check_keys_ignore_the_packing": "old"}

    def space(self):
        return small(AugmentsNothing)


class TestDecoder(DecoderContract):
    def space(self):
        return small(Plain)

    def decoder(self):
        return CandidatesDecoder()
"""


def test_each_check_is_one_test_and_the_example_plugin_passes(run_python, tmp_path):
    (tmp_path / "test_mine.py").write_text(TESTS)
    for name in ("ele_rankings.py", "test_ele_rankings.py"):
        shutil.copy(EXAMPLE / name, tmp_path)
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "helpers")}
    done = run_python(
        *("-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider", "--no-header", "."),
        environment=environment,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    failed = re.findall(r"^FAILED (?:test_mine.py::)?(\S+)", done.stdout, re.MULTILINE)
    assert failed == [
        "TestBroken::test_law[check_augment_changes_something]",
        "TestExpected::test_law[check_keys_ignore_the_packing]",
    ]
    assert "all 512 views equal their structures" in done.stdout
    assert "passed, although it was expected to fail: old" in done.stdout
    assert "XFAIL test_mine.py::TestExpected::test_law[check_augment_changes_something] - no views yet" in done.stdout
    assert "the space has no properties" in done.stdout
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 100


def test_the_checks_need_no_pytest(run_python):
    program = (
        "import sys; sys.modules['pytest'] = None\n"
        "import ele_core.testing\n"
        "from ele_core.cli import cli\n"
        "cli(['check', 'candidates', '--json'])"
    )
    assert '"failed"' not in run_python("-c", program).stdout
