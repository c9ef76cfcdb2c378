"""`ele try`: what a page is answered, whom the server answers, and how the command begins and ends."""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from commands import PATIENCE

from ele_core.errors import ConfigError, DataError, ModelError
from ele_core.model.predict import Request, predict_texts
from ele_core.report.server import LONGEST_BODY, LocalServer
from ele_core.report.trial import MOST_ANSWERS, Example, Trial
from ele_core.runs.run import Run
from ele_core.runtime.context import Context
from ele_core.types import Drawing
from ele_sequences.space import SequenceSpace


@pytest.fixture(scope="session")
def evaluated(trained_run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was evaluated: it knows held-out inputs."""
    folder = Path(shutil.copytree(trained_run, tmp_path_factory.mktemp("evaluated") / "run"))
    Run(folder).evaluate()
    return folder


@pytest.fixture(scope="session")
def trial(evaluated: Path) -> Trial:
    return Trial.open(evaluated)


@pytest.fixture
def server(trial: Trial) -> Iterator[LocalServer]:
    """A server that answers with a real model."""
    with serving(trial.page(3), trial.respond) as started:
        yield started


@contextmanager
def serving(page: str, answer: Any) -> Iterator[LocalServer]:
    """A server in a thread of its own."""
    with LocalServer(page, answer) as started:
        thread = threading.Thread(target=started.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield started
        started.shutdown()
        thread.join()


def request(
    server: LocalServer, method: str = "GET", path: str | None = None, body: Any = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """The status, the text and the headers of a response; `path` is below the token, or absolute with a slash."""
    address = path if path is not None and path.startswith("/") else f"/{server.token}/{path or ''}"
    content = body if isinstance(body, str | bytes | None) else json.dumps(body)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    if method == "POST":
        given = {"Content-Type": "application/json", **given}
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request(method, address, content, given)
    response = connection.getresponse()
    text, found = response.read().decode(), dict(response.getheaders())
    connection.close()
    return response.status, text, found


def ask(server: LocalServer, body: Any, **headers: str) -> tuple[int, dict[str, Any]]:
    status, text, _ = request(server, "POST", "answer", body, **headers)
    return status, json.loads(text)


GOOD = {"input": "forty-two", "decoder": "pgd", "top_k": 3}

# -- the answers --------------------------------------------------------------------------------------------------


def test_an_answer_has_structures_with_energies_drawings_and_the_path(trial):
    found = trial.answer("forty-two", "pgd", 3)
    energies = [each["values"]["energy"] for each in found["answers"]]
    assert energies == sorted(energies)
    assert len(energies) == 3
    assert all("text" in found["stored"][each["drawing"]] for each in found["answers"])
    assert len(found["steps"]) == len(found["energies"]) == len(found["drawings"]) > 1
    assert found["note"]


def test_every_decoder_that_works_is_offered_the_configured_one_first(trial):
    assert list(trial.decoders) == ["pgd", "candidates", "search"]
    assert trial.answer("forty-two", "candidates", 2)["steps"] == []


def test_answers_are_those_of_predict(trial, evaluated):
    model = Run(evaluated).model()
    (expected,) = predict_texts(model, ["forty-two"], Request(top_k=3), context=Context(model.config.seed))
    found = trial.answer("forty-two", "pgd", 3)
    assert [found["stored"][each["drawing"]]["text"] for each in found["answers"]] == expected.objects


def test_held_out_inputs_are_offered_and_their_truth_is_known(trial, evaluated):
    assert len(trial.examples) == 6
    rows = Run(evaluated).evaluation(Run(evaluated).model(), {"split": "test", "limit": None, "oracle": False}).rows
    assert {(each.input, each.truth) for each in trial.examples} <= {(row["input"], row["truth"]) for row in rows}
    found = trial.answer(trial.examples[0].input, "candidates", 2)
    assert found["known"]
    assert found["stored"][found["goal"]]["text"] == trial.examples[0].truth
    assert all(isinstance(each["right"], bool) for each in found["answers"])
    assert trial.answer("forty-two", "candidates", 1)["answers"][0]["right"] is None


def test_the_right_answer_is_marked(trial):
    best = trial.answer("forty-two", "pgd", 1)
    text = best["stored"][best["answers"][0]["drawing"]]["text"]
    knowing = Trial(trial.model, "run", [Example("forty-two", text), Example("six", "999")])
    assert [each["right"] for each in knowing.answer("forty-two", "pgd", 2)["answers"]] == [True, False]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"input": "  "}, "Type an input first."),
        ({"input": None}, "Type an input first."),
        ({"decoder": "magic"}, "Choose one of pgd, candidates, search."),
        ({"decoder": ["pgd"]}, "Choose one of"),
        ({"top_k": 0}, f"from 1 to {MOST_ANSWERS}"),
        ({"top_k": 10**9}, f"from 1 to {MOST_ANSWERS}"),
        ({"top_k": True}, "whole number"),
        ({"top_k": "3"}, "whole number"),
    ],
)
def test_a_wrong_request_is_one_sentence(trial, change, sentence):
    with pytest.raises((DataError, ConfigError)) as caught:
        trial.respond({**GOOD, **change})
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_that_save_wrote_can_be_tried_without_examples(predictor, tmp_path):
    predictor.save(tmp_path / "model")
    trial = Trial.open(tmp_path / "model", "search")
    assert (trial.examples, next(iter(trial.decoders)), trial.name) == ([], "search", tmp_path.name)
    assert trial.answer("forty-two", "search", 1)["answers"]


def test_a_run_that_was_not_evaluated_offers_nothing(trained_run):
    assert Trial.open(trained_run).examples == []


def test_a_folder_without_a_model_is_refused(tmp_path):
    with pytest.raises(ModelError, match="there is no model here"):
        Trial.open(tmp_path)


# -- the server ---------------------------------------------------------------------------------------------------


def test_the_page_and_its_answers_are_served_to_this_machine_only(server):
    assert server.server_address[0] == "127.0.0.1"
    status, text, headers = request(server)
    assert status == 200
    assert "connect-src &#39;self&#39;" in text
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert headers["Referrer-Policy"] == "no-referrer"
    status, answer = ask(server, GOOD)
    assert status == 200
    assert len(answer["answers"]) == 3


@pytest.mark.parametrize("path", ["/", "/answer", "/wrong/", "/wrong/answer", "*", "//"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_without_the_token_nothing_is_answered(server, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=PATIENCE)
    connection.request(method, path, json.dumps(GOOD) if method == "POST" else None)
    response = connection.getresponse()
    assert response.status == 403
    assert server.token not in response.read().decode()
    connection.close()


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{port}", "127.0.0.1", "127.0.0.1:1", "", "[::1]:{port}"]
)
def test_another_host_is_refused(server, host):
    named = host.format(port=server.server_port)
    assert request(server, Host=named)[0] == 403
    assert ask(server, GOOD, Host=named)[0] == 403
    assert request(server, Host=f"localhost:{server.server_port}")[0] == 200


@pytest.mark.parametrize("origin", ["null", "http://evil.example", "https://127.0.0.1:{port}", "http://127.0.0.1:1"])
def test_another_origin_is_refused(server, origin):
    named = origin.format(port=server.server_port)
    assert ask(server, GOOD, Origin=named)[0] == 403
    assert ask(server, GOOD, Sec_Fetch_Site="cross-site")[0] == 403
    assert ask(server, GOOD, Origin=f"http://127.0.0.1:{server.server_port}", Sec_Fetch_Site="same-origin")[0] == 200


@pytest.mark.parametrize("body", ["", "{", "[1]", "null", "\xff", "[" * 60_000, '{"input": 1} {}'])
def test_what_is_no_json_object_is_refused(server, body):
    status, answer = ask(server, body.encode("latin-1"))
    assert status == 400
    assert "JSON" in answer["error"]


def test_half_a_character_is_refused(server):
    status, told = ask(server, b'{"input": "a\\ud800", "decoder": "candidates", "top_k": 1}')
    assert (status, told["error"]) == (400, "The input holds half a character.")


def test_sixty_connections_wait_until_they_are_taken():
    waiting = []
    with LocalServer("page", lambda asked: asked) as idle:  # it takes none: all of them wait
        for _ in range(60):
            waiting.append(socket.create_connection(("127.0.0.1", idle.server_port), timeout=0.5))
    for each in waiting:
        each.close()


def test_an_overlong_body_is_refused_before_it_is_read(server):
    status, answer = ask(server, {**GOOD, "input": "x" * LONGEST_BODY})
    assert status == 413
    assert "too long" in answer["error"]
    assert ask(server, b"", Content_Length="9" * 5000)[0] == 413


def test_a_body_without_length_or_of_another_type_is_refused(server):
    assert ask(server, GOOD, Content_Type="text/plain")[0] == 415
    assert ask(server, b"{}", Content_Length="-1")[0] == 411


def test_other_addresses_and_methods_are_refused(server):
    assert request(server, path="other")[0] == 404
    assert request(server, path="answer")[0] == 404
    assert request(server, "POST", "", GOOD)[0] == 404
    assert request(server, "PUT", "answer", GOOD)[0] == 501
    assert request(server, "OPTIONS", "answer")[0] == 501


def test_a_bad_input_is_one_sentence_on_the_page(server):
    status, answer = ask(server, {**GOOD, "top_k": MOST_ANSWERS + 1})
    assert status == 422
    assert answer == {"error": f"The number of answers should be a whole number from 1 to {MOST_ANSWERS}."}


def test_a_plugin_that_fails_does_not_end_the_server(capsys):
    def broken(_):
        raise ZeroDivisionError("division\nby zero")

    with serving("page", broken) as started:
        status, answer = ask(started, GOOD)
        assert status == 500
        assert answer == {"error": "The model failed: division by zero. The terminal shows more."}
        assert request(started)[0] == 200
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_numbers_that_json_does_not_have_are_left_out():
    with serving("page", lambda _: {"energy": float("inf")}) as started:
        assert ask(started, GOOD) == (200, {"energy": None})


# -- the command --------------------------------------------------------------------------------------------------


def test_the_command_prints_an_address_and_ends_at_ctrl_c(evaluated):
    command = [sys.executable, "-m", "ele_core", "try", str(evaluated), "--no-browser"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = process.stdout.readline().removeprefix("Try it: ").strip()
    host, token = address.removeprefix("http://").rstrip("/").split("/")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    connection.request("GET", f"/{token}/")
    assert connection.getresponse().status == 200
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, errors) == (0, "")


def test_a_port_that_is_taken_is_named(evaluated, server):
    command = [
        sys.executable,
        "-m",
        "ele_core",
        "try",
        str(evaluated),
        "--no-browser",
        "--port",
        str(server.server_port),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert f"Error: port {server.server_port}: cannot be used: Address already in use." in done.stderr
    assert "Traceback" not in done.stderr


# -- in a browser -------------------------------------------------------------------------------------------------


@pytest.fixture
def browse(chromium: Any, server: LocalServer) -> Iterator[Any]:
    """`browse(width=…)`: the page in a window; it asks only its own server and complains of nothing."""
    problems: list[str] = []
    contexts = []

    def opened(url: str = server.url, *, width: int = 1280) -> Any:
        contexts.append(chromium.new_context(viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on("console", lambda message: None if "422" in message.text else problems.append(message.text))
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", lambda request: allowed(request.url, url) or problems.append(request.url))
        page.goto(url)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not problems


def allowed(address: str, url: str) -> bool:
    return address in (url, f"{url}answer") or address.startswith("data:")


def answered(page: Any) -> None:
    page.wait_for_function("() => !document.getElementById('go').disabled")


def test_a_person_types_an_input_and_follows_the_decoding(browse):
    page = browse()
    page.wait_for_function("() => document.activeElement.id === 'input'")  # a busy machine gives the focus late
    page.fill("#input", "forty-two")
    page.keyboard.press("Enter")
    answered(page)
    assert page.locator("#answers li").count() == 3
    assert "energy" in page.locator("#answers li").first.inner_text()
    assert "forty-two →" in page.locator("#status").inner_text()
    slider = page.locator("#way-slider")
    assert slider.input_value() == slider.get_attribute("max")
    slider.press("Home")
    assert page.locator("#way-step").inner_text().startswith("0 of ")
    assert page.locator("#way-chart svg .line").count() == 1
    page.select_option("#decoder", "candidates")
    answered(page)
    assert page.locator("#no-steps").is_visible()


def test_an_example_shows_its_truth_and_an_error_its_sentence(browse, trial):
    page = browse(width=360)
    page.locator("#examples button").first.click()
    answered(page)
    assert page.locator("#answers .truth").inner_text().endswith(trial.examples[0].truth)
    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    page.fill("#top-k", "1")
    page.fill("#input", " ")
    page.locator("#go").click()
    assert page.locator("#status").inner_text() == "Type an input first."
    page.evaluate("byId('decoder').append(element('option', { value: 'magic' }, 'magic'))")
    page.fill("#input", "six")
    page.evaluate("byId('decoder').value = 'magic'")
    page.locator("#go").click()
    page.wait_for_selector("#status.error")
    assert "Choose one of" in page.locator("#status").inner_text()
    assert page.locator("#result").is_hidden()


def test_a_script_in_a_picture_does_not_run_on_the_page(browse, monkeypatch):
    attack = "window.attacked = 1"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' onload='{attack}'><script>{attack}</script></svg>"
    monkeypatch.setattr(SequenceSpace.Show, "render", lambda *_: Drawing(f"<img src=x onerror='{attack}'>", svg))
    page = browse()
    page.fill("#input", "forty-two")
    page.keyboard.press("Enter")
    answered(page)
    page.wait_for_function("() => document.querySelector('#answers img').complete")
    assert page.evaluate("window.attacked") is None


def test_another_page_cannot_ask(chromium, server, tmp_path):
    (tmp_path / "evil.html").write_text("<!doctype html><title>evil</title>")
    page = chromium.new_page()
    page.goto((tmp_path / "evil.html").as_uri())
    asked = """url => fetch(url, {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{}'})
        .then((r) => r.text(), () => 'refused')"""
    assert page.evaluate(asked, f"{server.url}answer") == "refused"
    page.close()
