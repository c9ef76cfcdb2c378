"""A real browser, and the pages of two small runs, made once."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from ele_core import config as configuration
from ele_core.report import Wanted, write_report
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor

WORDS = (
    *("task.size=300", "task.validation=20", "task.test=60"),
    *("calibration.pairs=40", "calibration.structures=5", "regressor.training.epochs=4"),
)
MOLECULES = (
    "task.size=600",
    "task.validation=50",
    "task.test=50",
    "surrogate.dim=16",
    "surrogate.encoder.width=16",
    "surrogate.encoder.layers=2",
    "surrogate.training.epochs=2",
    "surrogate.training.evaluations=2",
    "regressor.backbone.layers=1",
    "regressor.backbone.width=16",
    "regressor.training.epochs=2",
    "regressor.training.evaluations=2",
)


@pytest.fixture(scope="session")
def words_run(tiny: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of number-words with sixty test pairs. Shared: copy it before you change it."""
    folder = tmp_path_factory.mktemp("words") / "run"
    Run.start(configuration.load({"task": {"name": "number-words"}, **tiny}, WORDS), folder, Monitor())
    return folder


@pytest.fixture(scope="session")
def words_page(words_run: Path) -> Path:
    """Its page."""
    return write_report(Run(words_run), Wanted(examples=30), Monitor())


@pytest.fixture(scope="session")
def molecules_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a small run on QM9."""
    if find_spec("qm9pack") is None:
        pytest.skip("the task trains on QM9: pip install explicit-loss-embedding[qm9]")
    folder = tmp_path_factory.mktemp("molecules") / "run"
    run = Run.start(configuration.load("smi2mol", MOLECULES), folder, Monitor())
    return write_report(run, Wanted(examples=18), Monitor())


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's browser, driven by playwright; a machine without one skips, continuous integration does not."""
    program = shutil.which("chromium") or shutil.which("chromium-browser")
    if program is None:
        if os.environ.get("CI"):
            pytest.fail("there is no chromium, and pages are tested in a real browser: apt-get install chromium")
        pytest.skip("there is no chromium: apt-get install chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Any]]:
    """`visit(file, width=…, dark=…)`: the page in a window; it may load nothing and complain of nothing."""
    problems: list[str] = []
    contexts = []

    def opened(file: Path, *, width: int = 1280, dark: bool = False) -> Any:
        address = file.resolve().as_uri()
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: problems.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on(
            "request",
            lambda request: (
                None if request.url == address or request.url.startswith("data:") else problems.append(request.url)
            ),
        )
        page.goto(address)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems
