"""The page as people meet it: in a real browser, from a file, with a pointer, a keyboard, or on a phone."""

from __future__ import annotations

import csv
import dataclasses
import shutil
from pathlib import Path

import pytest

from ele_core.report import Wanted, write_report
from ele_core.runs.run import Run
from ele_core.runtime.monitor import Monitor
from ele_core.types import Bounded, Drawing
from ele_sequences.space import SequenceSpace

pytestmark = pytest.mark.pages

ATTACK = "</script><script>window.attacked = true</script><img src=x onerror='window.attacked = true'>\u2028'\"&lt;"


@pytest.mark.parametrize("page", ["words_page", "molecules_page"])
def test_a_page_opens_with_all_its_parts_and_loads_nothing(visit, request, page):
    shown = visit(request.getfixturevalue(page))
    for part in ("results", "predictions", "decoding", "embedding", "training", "provenance"):
        assert shown.locator(f"#{part}").is_visible(), part
    assert shown.locator("#curves svg").count() == 2
    assert shown.locator("#curves .kept").count() == 2, "the chosen checkpoint is marked"
    assert shown.locator("#histogram .column").count() >= 1
    assert shown.locator("#map circle").count() >= 50
    assert shown.locator(".number").count() >= 4


def test_molecules_are_pictures_in_which_nothing_can_run(visit, molecules_page):
    shown = visit(molecules_page)
    pictures = shown.locator("#gallery img")
    assert pictures.count() == 36, "prediction and truth of each of 18 examples"
    first = pictures.first
    first.scroll_into_view_if_needed()
    assert first.get_attribute("src").startswith("data:image/svg+xml")
    shown.wait_for_function("() => document.querySelector('#gallery img').naturalWidth > 0")
    assert first.get_attribute("alt")


def test_published_results_stand_beside_ours(visit, molecules_page):
    shown = visit(molecules_page)
    assert shown.locator("tr.published").count() == 7
    assert shown.locator("tr.this th").inner_text().startswith("search")


def test_the_slider_moves_the_structure(visit, words_page):
    shown = visit(words_page)
    slider, structure = shown.locator("#way-slider"), shown.locator("#way-structure")
    seen = {structure.inner_text()}
    slider.focus()
    for step in range(int(slider.get_attribute("max"))):
        slider.press("ArrowRight")
        assert slider.input_value() == str(step + 1)
        seen.add(structure.inner_text())
    assert len(seen) > 1
    assert shown.locator("#way-step").inner_text().endswith(shown.locator("#way-step").inner_text().split(" of ")[1])
    slider.press("Home")
    assert shown.locator("#way-step").inner_text().startswith("0 of ")


def test_both_ways_of_decoding_can_be_followed(visit, words_page):
    shown = visit(words_page)
    offered = shown.locator("#way-decoder option").all_inner_texts()
    assert set(offered) == {"pgd", "search"}
    for name in offered:
        shown.select_option("#way-decoder", name)
        assert shown.locator("#way-example option").count() == 9, "three of each group"
        assert shown.locator("#way-chart svg .line").count() == 1


def test_filters_leave_what_they_say(visit, words_page):
    shown = visit(words_page)
    cards, count = shown.locator(".example"), shown.locator("#gallery-count")
    assert count.inner_text() == "24 of 30 predictions shown; 60 in all."
    shown.locator("#gallery-more").click()
    assert cards.count() == 30
    shown.select_option("#gallery-group", "worst")
    assert cards.count() == 10
    shown.select_option("#gallery-group", "all")
    shown.fill("#gallery-find", "seven")
    texts = [text.lower() for text in cards.all_inner_texts()]
    assert texts
    assert all("seven" in text for text in texts)
    shown.fill("#gallery-find", "no such thing")
    assert cards.count() == 0
    shown.fill("#gallery-find", "")
    shown.select_option("#gallery-outcome", "right")
    assert cards.locator(".chip.no").count() == 0


@pytest.mark.parametrize(("choice", "descending"), [("high", True), ("low", False)])
def test_sorting_sorts(visit, words_page, choice, descending):
    shown = visit(words_page)
    shown.select_option("#gallery-group", "all")
    before = shown.locator(".example .input").all_inner_texts()
    shown.select_option("#gallery-sort", choice)
    rows = shown.eval_on_selector_all(".example", "cards => cards.map(card => DATA.rows.energy[card.dataset.row])")
    assert rows == sorted(rows, reverse=descending)
    shown.select_option("#gallery-sort", "input")
    inputs = shown.locator(".example .input").all_inner_texts()
    assert inputs == sorted(inputs)
    assert inputs != before


def test_differences_of_sequences_are_marked(visit, words_page):
    shown = visit(words_page)
    shown.select_option("#gallery-outcome", "wrong")
    assert shown.locator(".example").first.locator("mark").count() >= 1


def test_a_script_in_the_data_stays_text(visit, words_run, tmp_path, monkeypatch):
    copy = Path(shutil.copytree(words_run, tmp_path / "run"))
    monkeypatch.setattr(SequenceSpace.Show, "render", lambda *_: Drawing(ATTACK))
    monkeypatch.setattr(SequenceSpace.Show, "properties", lambda _, batch: {ATTACK: batch.tokens[:, 0]})
    shown = visit(write_report(Run(copy), Wanted(examples=6), Monitor()))
    assert ATTACK in shown.locator("#gallery").inner_text()
    assert shown.evaluate("window.attacked") is None
    assert shown.locator("img").count() == 0


@pytest.mark.parametrize(
    "picture",
    [
        "<svg xmlns='http://www.w3.org/2000/svg'><script>parent.attacked = true; window.attacked = true</script></svg>",
        "<svg xmlns='http://www.w3.org/2000/svg' onload='window.attacked = true'><circle r='9'/></svg>",
        "<svg xmlns='http://www.w3.org/2000/svg'><image href='https://example.org/spy.png'/></svg>",
        "'><script>window.attacked = true</script>",
    ],
)
def test_a_script_in_a_picture_does_not_run(visit, words_run, tmp_path, monkeypatch, picture):
    copy = Path(shutil.copytree(words_run, tmp_path / "run"))
    monkeypatch.setattr(SequenceSpace.Show, "render", lambda *_: Drawing("text", picture))
    shown = visit(write_report(Run(copy), Wanted(examples=6), Monitor()))
    shown.locator("#gallery img").first.scroll_into_view_if_needed()
    shown.wait_for_function("() => document.querySelector('#gallery img').complete")
    assert shown.evaluate("window.attacked") is None


def test_the_table_of_predictions_is_downloaded_as_csv_and_copied(visit, words_page):
    shown = visit(words_page)
    shown.select_option("#gallery-group", "all")
    shown.select_option("#gallery-sort", "order")
    with shown.expect_download() as download:
        shown.locator("#table-csv").click()
    assert download.value.suggested_filename == "predictions.csv"
    rows = list(csv.DictReader(Path(download.value.path()).read_text("utf-8").splitlines()))
    stored = list(csv.DictReader((words_page.parent / "predictions" / "test-pgd.csv").read_text("utf-8").splitlines()))
    assert [list(row) for row in rows] == [list(row) for row in stored]
    assert [row["input"] for row in rows] == [row["input"] for row in stored]
    assert [float(row["energy"]) for row in rows] == [float(row["energy"]) for row in stored]
    shown.context.grant_permissions(["clipboard-read", "clipboard-write"])
    shown.fill("#gallery-find", "seven")
    shown.locator("#table-copy").click()
    shown.wait_for_function("() => document.getElementById('table-done').textContent.startsWith('Copied')")
    lines = shown.evaluate("navigator.clipboard.readText()").splitlines()
    assert lines[0].split("\t") == list(stored[0])
    assert lines[1:]
    assert all("seven" in line for line in lines[1:])


def test_cells_with_commas_quotes_and_lines_stay_one_cell(visit, words_page):
    shown = visit(words_page)
    assert shown.evaluate("""csvCell('a "b", c\\nd')""") == '"a ""b"", c\nd"'
    assert shown.evaluate("""tsvCell('a\\tb\\nc')""") == "a b c"


def test_errors_are_shown_by_size_and_by_other_properties(visit, words_page):
    shown = visit(words_page)
    assert shown.locator("#sizes svg").count() == 2, "exact, and the primary metric"
    assert shown.locator("#sizes-measure option").all_inner_texts() == ["length", "characters of the truth"]
    lengths = shown.evaluate("[...new Set(DATA.properties.length)].length")
    assert shown.locator("#sizes svg").first.locator(".column").count() == lengths
    shown.locator("#error summary").click()
    counts = [int(text) for text in shown.locator("#sizes-table tr td:nth-child(2)").all_inner_texts()]
    assert sum(counts) == 60
    shown.select_option("#sizes-measure", "")
    assert "characters of the truth" in shown.locator("#sizes").inner_text()


def test_groups_hold_every_number_once_and_are_few(visit, words_page):
    shown = visit(words_page)
    many = shown.evaluate("groups(Array.from({ length: 100 }, (_, i) => i))")
    assert len(many) <= 12
    assert sorted(row for group in many for row in group["rows"]) == list(range(100))
    assert many[0]["name"] == "0–8"
    assert [group["name"] for group in shown.evaluate("groups([3, 5, 3, null])")] == ["3", "5"]
    assert shown.evaluate("groups([0.5, 0.25, 1.5]).flatMap((group) => group.rows).sort()") == [0, 1, 2]
    assert shown.evaluate("groups([])") == []


def test_a_flat_curve_gets_a_logarithmic_axis(visit, words_page):
    shown = visit(words_page)
    assert shown.evaluate("flat([100, 1, 0.5, 0.4, 0.3, 0.2])")
    assert not shown.evaluate("flat([1, 0.8, 0.6, 0.4])")
    assert not shown.evaluate("flat([100, 1, 0.5, -0.4, 0.3])")
    assert shown.evaluate("logTicks(0.05, 20)") == [0.1, 1, 10]
    assert shown.evaluate("logTicks(0.3, 3)") == [0.5, 1, 2]
    before = shown.locator("#curves svg .line").first.get_attribute("d")
    shown.locator("#curves input[type=checkbox]").first.click()
    assert shown.locator("#curves svg .line").first.get_attribute("d") != before


def test_the_truths_among_the_first_answers_are_counted(visit, words_page):
    shown = visit(words_page)
    rows = shown.locator("table:has-text('contain the truth') tbody tr").all_inner_texts()
    shares = [float(row.split("\t")[1].removesuffix(" %")) for row in rows]
    assert [row.split("\t")[0] for row in rows] == ["1", "2", "3", "5", "10"]
    assert shares == sorted(shares)


def test_a_smaller_picture_beside_a_larger_one_has_the_same_scale(visit, molecules_page):
    shown = visit(molecules_page)
    part = """([a, b]) => drawing({ text: "", svg: `<svg width="${a}px" height="9">` },
        { beside: [{ text: "", svg: `<svg width='${b}' height="9">` }] })[0].style.getPropertyValue("--part")"""
    assert shown.evaluate(part, [220, 330]) == str(220 / 330)
    assert shown.evaluate(part, [330, 220]) == ""


def test_light_and_dark_follow_the_system_and_the_button(visit, words_page):
    theme = "document.documentElement.dataset.theme"
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(words_page), visit(words_page, dark=True)
    assert (light.evaluate(theme), dark.evaluate(theme)) == ("light", "dark")
    assert light.evaluate(ground) != dark.evaluate(ground)
    light.locator("#theme").click()
    assert light.evaluate(theme) == "dark"
    assert light.evaluate(ground) == dark.evaluate(ground)
    assert light.locator("#theme").get_attribute("aria-pressed") == "true"
    light.reload()
    assert light.evaluate(theme) == "dark", "the choice is remembered"


@pytest.mark.parametrize("page", ["words_page", "molecules_page"])
@pytest.mark.parametrize("width", [360, 768])
def test_nothing_sticks_out_on_a_phone(visit, request, page, width):
    shown = visit(request.getfixturevalue(page), width=width)
    assert shown.evaluate("document.documentElement.scrollWidth") <= width


def test_paper_gets_the_numbers_and_no_controls(visit, words_page):
    shown = visit(words_page, dark=True)
    shown.emulate_media(media="print")
    assert not shown.locator("#gallery-group").is_visible()
    assert not shown.locator("#theme").is_visible()
    assert shown.locator(".example").first.is_visible()
    assert shown.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"


def test_without_drawn_examples_all_are_there_as_text(visit, words_run, tmp_path):
    copy = Path(shutil.copytree(words_run, tmp_path / "run"))
    shown = visit(write_report(Run(copy), Wanted(examples=0), Monitor()))
    assert shown.locator("#gallery-count").inner_text() == "24 of 60 predictions shown; 60 in all."
    assert "no recorded steps" in shown.locator("#decoding").inner_text()


def test_everything_can_be_done_by_keyboard(visit, words_page):
    shown = visit(words_page)
    reached = set()
    for _ in range(60):
        shown.keyboard.press("Tab")
        reached.add(shown.evaluate("document.activeElement.id"))
    wanted = {"theme", "gallery-group", "gallery-sort", "gallery-find", "gallery-more", "way-slider", "way-play"}
    assert wanted <= reached
    shown.locator("#theme").focus()
    shown.keyboard.press("Enter")
    assert shown.evaluate("document.documentElement.dataset.theme") == "dark"
    unnamed = shown.eval_on_selector_all(
        "select, input, button", "all => all.filter(e => !e.labels?.length && !e.textContent.trim()).map(e => e.id)"
    )
    assert unnamed == []


def test_a_point_of_the_map_shows_its_structure(visit, words_page):
    shown = visit(words_page)
    points = shown.locator("#map circle")
    points.first.scroll_into_view_if_needed()
    box = points.first.bounding_box()
    shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert "truth" in shown.locator("#map-detail").inner_text()
    ring = shown.locator("#map .ring").first
    assert ring.evaluate("e => getComputedStyle(e).stroke") == shown.evaluate("getComputedStyle(document.body).color")
    shown.select_option("#map-kind", "0")
    box = points.first.bounding_box()
    shown.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert shown.locator("#map rect.ring").count() == 1, "the predicted query"
    shown.select_option("#map-colour", "energy")
    assert "energy" in shown.locator("#map-legend").inner_text()


def test_a_comparison_opens_and_loads_nothing(visit, words_run, words_page, tmp_path):
    from ele_core.report import write_comparison
    from ele_core.report.comparison import compare

    other = Path(shutil.copytree(words_run, tmp_path / "<b>other"))
    shown = visit(write_comparison(compare([words_page.parent, other]), tmp_path / "compare.html"), width=400)
    assert "<b>other" in shown.locator("h1").inner_text()
    assert shown.locator("#joint svg").count() == 2
    assert shown.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_distance_that_is_not_proven_is_shown_with_both_bounds(visit, words_run, tmp_path, monkeypatch):
    known = SequenceSpace.metrics.fget

    def bounded(space):
        def between(predicted, true):
            value = distance.function(predicted, true)
            return Bounded(value, value + 3 * (value > 0))

        exact, distance = known(space)
        return dataclasses.replace(distance, function=between), exact

    monkeypatch.setattr(SequenceSpace, "metrics", property(bounded))
    folder = tmp_path / "run"
    shutil.copytree(words_run, folder)
    run, wanted = Run(folder), Wanted(limit=20, examples=9)
    shown = visit(write_report(run, wanted, Monitor()))
    assert " of 20 not proven" in shown.locator(".number.first .about").inner_text()
    values = run.evaluation(run.model(), wanted.settings(oracle=False)).rows
    wrong = next(row for row in values if row["edit_distance"] != row["edit_distance_at_least"])
    shown.locator("#gallery-outcome").select_option("wrong")
    chips = shown.locator(".chip.no").all_inner_texts()
    assert any(f"≤ {wrong['edit_distance']}, ≥ {wrong['edit_distance_at_least']}" in chip for chip in chips)
    with shown.expect_download() as download:
        shown.locator("#table-csv").click()
    header = Path(download.value.path()).read_text("utf-8").splitlines()[0]
    assert "energy,edit_distance,edit_distance_at_least,exact" in header


def test_trust_is_shown_and_predictions_can_be_filtered_by_it(visit, words_page):
    shown = visit(words_page)
    assert shown.locator("#trust").is_visible()
    assert shown.locator("#reliability circle").count() >= 1
    assert shown.locator("#risk path.line").count() == 1
    assert shown.locator("#trust tbody").last.locator("tr").count() == 4, "one row for each coverage"
    shown.select_option("#gallery-group", "all")
    shown.select_option("#gallery-sort", "unsure")
    doubts = [text.split("confidence ")[1].split()[0] for text in shown.locator("#gallery .meta").all_inner_texts()]
    assert [float(text) for text in doubts] == sorted(float(text) for text in doubts)
    for outcome in ("confident", "doubtful"):
        shown.select_option("#gallery-outcome", outcome)
        kept = shown.locator("#gallery .meta").all_inner_texts()
        assert all((float(text.split("confidence ")[1].split()[0]) >= 0.9) == (outcome == "confident") for text in kept)


def test_a_page_without_a_calibration_says_how_to_add_one(visit, molecules_page):
    shown = visit(molecules_page)
    assert shown.locator("#trust").count() == 0
    assert "ele calibrate" in shown.locator("#no-trust").inner_text()
    assert "confident" not in shown.locator("#gallery-outcome").inner_html()
