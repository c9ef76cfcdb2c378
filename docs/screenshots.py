"""`python docs/screenshots.py RUN`: write pictures of a run's report and of `ele try` to docs/images."""

from __future__ import annotations

import io
import shutil
import sys
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page, sync_playwright

from ele_core.report.server import LocalServer
from ele_core.report.trial import Trial

IMAGES = Path(__file__).parent / "images"
WIDE, NARROW = (1280, 860), (390, 844)
SHOTS = {
    "report-results": (WIDE, "light", None),
    "report-error": ((1280, 1080), "light", "error"),
    "report-predictions": (WIDE, "light", "predictions"),
    "report-decoding": ((1280, 640), "light", "decoding"),
    "report-embedding": (WIDE, "light", "embedding"),
    "report-predictions-dark": (WIDE, "dark", "predictions"),
    "report-narrow": (NARROW, "light", "predictions"),
}
"""Name → window, theme, and the section to scroll to."""


def main(run: str) -> None:
    """Take every picture of the page in `run`."""
    address = (Path(run) / "report.html").resolve().as_uri()
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, ((width, height), theme, section) in SHOTS.items():
            page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
            page.goto(address)
            if section:
                show(page, section)
            page.wait_for_timeout(400)
            save(page.screenshot(), IMAGES / f"{name}.png")
        trial(browser, Path(run))
        browser.close()


def trial(browser: Browser, run: Path) -> None:
    """Take a picture of the page of `ele try`, with the answers for its first example."""
    answers = Trial.open(run)
    with LocalServer(answers.page(3), answers.respond) as server:
        threading.Thread(target=server.serve_forever).start()
        page = browser.new_page(viewport={"width": WIDE[0], "height": 1000}, color_scheme="light")
        page.goto(server.url)
        page.locator("#examples button").first.click()
        page.wait_for_function("() => !document.getElementById('go').disabled")
        page.wait_for_timeout(400)
        save(page.screenshot(), IMAGES / "try.png")
        server.shutdown()


def show(page: Page, section: str) -> None:
    """Scroll to a section, move the slider of `decoding` and point at a structure of `embedding`."""
    page.evaluate("document.documentElement.style.scrollBehavior = 'auto'")
    page.evaluate(f"document.getElementById('{section}').scrollIntoView()")
    if section == "decoding":
        slider = page.locator("#way-slider")
        slider.focus()
        for _ in range(int(slider.get_attribute("max") or 0) // 2):
            slider.press("ArrowRight")
        page.evaluate("document.activeElement.blur()")
    if section == "embedding":
        drawn = page.evaluate("Object.keys(DATA.drawn).map(Number)[0]")
        place = page.evaluate(
            "row => { const m = DATA.maps.at(-1), box = document.querySelector('#map svg').getBoundingClientRect();"
            " const at = (v, all, pad) => { const [low, high] = extent(all, pad); return (v - low) / (high - low); };"
            " return [box.left + 6 + at(m.x[row], m.x, 0.04) * (box.width - 12),"
            " box.bottom - 6 - at(m.y[row], m.y, 0.04) * (box.height - 12)]; }",
            drawn,
        )
        page.mouse.move(*place)


def save(shot: bytes, file: Path) -> None:
    """Write an optimised PNG, without loss."""
    Image.open(io.BytesIO(shot)).convert("RGB").save(file, optimize=True)
    print(f"{file}: {file.stat().st_size // 1024} kB")


if __name__ == "__main__":
    main(*sys.argv[1:])
