"""`ele serve`: what programs are answered, many at once, who is refused, and how the command ends."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from commands import PATIENCE, here

from ele_core.errors import ConfigError
from ele_core.report import service as module
from ele_core.report.service import MOST_ANSWERS, Limits, Service, ServiceServer, is_loopback, read_token

SECRET = "a-token-of-many-characters"
WORDS = ["forty-two", "six", "nine hundred and one"]


@contextmanager
def serving(model: Any, limits: Limits | None = None, **options: Any) -> Iterator[ServiceServer]:
    """A server in a thread of its own."""
    patience = options.pop("patience", 30.0)
    with ServiceServer(Service(model, "words", limits), **options) as server:
        server.patience = patience
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}).start()
        yield server
        server.stop()


@pytest.fixture
def server(predictor: Any) -> Iterator[ServiceServer]:
    with serving(predictor.model_) as started:
        yield started


def request(
    server: ServiceServer, path: str = "/predict", body: Any = None, **headers: str
) -> tuple[int, Any, dict[str, str]]:
    """The status, the JSON and the headers of a response: to POST if there is a body."""
    content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(*server.server_address[:2], timeout=PATIENCE)
    kind = {} if body is None else {"Content-Type": "application/json"}
    connection.request("GET" if body is None else "POST", path, content, {**kind, **given})
    response = connection.getresponse()
    text = response.read()
    connection.close()
    return response.status, json.loads(text), dict(response.getheaders())


def ask(server: ServiceServer, body: Any, **headers: str) -> tuple[int, Any]:
    return request(server, "/predict", body, **headers)[:2]


class Blocked:
    """`predict_texts`, which waits until it is let go, and counts its calls."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.entered, self.calls = threading.Event(), threading.Event(), list[int]()
        true = module.predict_texts

        def waits(model, cells, *arguments, **options):
            self.calls.append(len(cells))
            self.entered.set()
            assert self.go.wait(PATIENCE)
            return true(model, cells, *arguments, **options)

        monkeypatch.setattr(module, "predict_texts", waits)


# -- the answers --------------------------------------------------------------------------------------------------


def test_predictions_are_those_that_predict_writes(trained_run, tmp_path):
    from ele_core.runs.run import open_model

    (tmp_path / "inputs.txt").write_text("\n".join(WORDS))
    done = here("predict", trained_run, tmp_path / "inputs.txt", "--top-k", "2", "--json", "--quiet")
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    with serving(open_model(trained_run).model()) as started:
        status, answer = ask(started, {"inputs": WORDS, "top_k": 2})
    assert status == 200
    assert [len(rows) for rows in answer["predictions"]] == [2, 2, 2]
    found = [row for rows in answer["predictions"] for row in rows]
    assert [row.pop("unlike_training") for row in found] == [line.pop("unlike_training", "") for line in lines]
    assert found == lines


def test_model_and_health_say_what_runs(server):
    status, about, _ = request(server, "/model")
    assert status == 200
    assert {name: about[name] for name in ("name", "task", "input", "output", "calibrated")} == {
        "name": "words",
        "task": None,
        "input": "text",
        "output": "sequence",
        "calibrated": False,
    }
    assert request(server, "/health")[:2] == (200, {"status": "ok", "waiting": 0})


def test_sixty_requests_at_once_are_all_answered_as_if_alone(server):
    alone = {word: ask(server, {"inputs": [word], "top_k": 2}) for word in WORDS}
    asked = [WORDS[number % 3] for number in range(60)]
    with ThreadPoolExecutor(60) as pool:
        found = list(pool.map(lambda word: ask(server, {"inputs": [word], "top_k": 2}), asked))
    assert [status for status, _ in found] == [200] * 60
    for word, (_, answer) in zip(asked, found, strict=True):
        ((best, _),), ((expected, _),) = answer["predictions"], alone[word][1]["predictions"]
        assert best["prediction"] == expected["prediction"]
        assert best["energy"] == pytest.approx(expected["energy"], rel=1e-4)


def test_requests_that_wait_are_joined_if_they_ask_alike(predictor, monkeypatch):
    blocked = Blocked(monkeypatch)
    with serving(predictor.model_) as started, ThreadPoolExecutor(8) as pool:
        first = pool.submit(ask, started, {"inputs": ["one"]})
        assert blocked.entered.wait(PATIENCE)
        alike = [pool.submit(ask, started, {"inputs": [word, "two"]}) for word in WORDS]
        wait_until(lambda: len(started.service.waiting) == 3)
        other = pool.submit(ask, started, {"inputs": ["one"], "top_k": 2})
        wait_until(lambda: len(started.service.waiting) == 4)
        blocked.go.set()
        assert first.result()[0] == other.result()[0] == 200
        for word, each in zip(WORDS, alike, strict=True):
            assert [rows[0]["input"] for rows in each.result()[1]["predictions"]] == [word, "two"]
    assert blocked.calls == [1, 6, 1]


def wait_until(true: Any) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end
        time.sleep(0.005)


# -- what is wrong ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ({}, "Give the inputs as a list"),
        ({"inputs": "six"}, "Give the inputs as a list"),
        ({"inputs": []}, "Give the inputs as a list"),
        ({"inputs": ["six"], "topk": 2}, "A request has no field 'topk'"),
        ({"inputs": ["six"], "top_k": 0}, f"from 1 to {MOST_ANSWERS}"),
        ({"inputs": ["six"], "top_k": True}, f"from 1 to {MOST_ANSWERS}"),
        ({"inputs": ["six"], "min_confidence": "high"}, "a number from 0 to 1"),
        ({"inputs": ["six"], "coverage": 0.9}, "calibrat"),
        ({"inputs": [""]}, "no input can be used, the first because: the text is empty."),
        ({"inputs": [None]}, "the cell has no value"),
    ],
)
def test_a_wrong_request_is_one_sentence(server, asked, sentence):
    status, answer = ask(server, asked)
    assert status == 422
    assert sentence in answer["error"]
    assert "\n" not in answer["error"]


def test_an_input_that_cannot_be_used_does_not_spoil_the_others(server):
    status, answer = ask(server, {"inputs": ["six", ""]})
    assert status == 200
    (good,), (bad,) = answer["predictions"]
    assert (good["status"], bad["status"], bad["prediction"]) == ("ok", "the text is empty.", "")


@pytest.mark.parametrize("body", [b"", b"{", b"[1]", b"null", b"\xff", b"[" * 60_000])
def test_malformed_json_is_refused(server, body):
    status, answer = ask(server, body)
    assert status == 400
    assert "JSON" in answer["error"]


def test_too_many_inputs_and_an_oversized_body_are_refused(predictor):
    with serving(predictor.model_, Limits(inputs=2, body=1 << 20)) as started:
        assert ask(started, {"inputs": ["six"] * 3})[0] == 413
        status, answer = ask(started, {"inputs": ["x" * (8 << 20)]})
        assert (status, answer["error"]) == (413, "The input is too long: at most 1,048,576 bytes are read.")
        assert ask(started, {"inputs": ["six"]})[0] == 200


def test_other_addresses_and_types_are_refused(server):
    assert request(server, "/")[0] == 404
    assert request(server, "/predict")[0] == 404
    assert request(server, "/model", {})[0] == 404
    status, refused = ask(server, {"inputs": ["six"]}, Content_Type="text/plain")
    assert status == 415
    assert "add Content-Type: application/json" in refused["error"]


def test_a_slow_client_is_cut_off_and_delays_nobody(predictor):
    with serving(predictor.model_, patience=0.5) as started:
        slow = socket.create_connection(started.server_address[:2], timeout=PATIENCE)
        host = started.hosts[0]
        slow.sendall(f"POST /predict HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n".encode())
        slow.sendall(b'Content-Length: 1000\r\n\r\n{"inp')
        assert ask(started, {"inputs": ["six"]})[0] == 200
        answer = b"".join(iter(lambda: slow.recv(4096), b"")).decode()
        slow.close()
    assert answer.startswith("HTTP/1.0 408 ")
    assert "did not arrive in 0.5 seconds" in answer


def test_a_client_that_leaves_harms_nobody(server, capfd):
    gone = socket.create_connection(server.server_address[:2], timeout=PATIENCE)
    gone.sendall(b"POST /predict HTTP/1.0\r\nContent-Le")
    gone.close()
    assert ask(server, {"inputs": ["six"]})[0] == 200
    assert capfd.readouterr().err == ""


def test_a_full_queue_is_told_at_once_and_those_who_wait_are_answered(predictor, monkeypatch):
    blocked = Blocked(monkeypatch)
    with serving(predictor.model_, Limits(waiting=1)) as started, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, started, {"inputs": ["one"]})
        assert blocked.entered.wait(PATIENCE)
        second = pool.submit(ask, started, {"inputs": ["two"]})
        wait_until(lambda: started.service.waiting)
        status, answer, headers = request(started, "/predict", {"inputs": ["six"]})
        assert (status, headers["Retry-After"]) == (503, "1")
        assert answer["error"].startswith("Too many requests wait")
        assert request(started, "/health")[1] == {"status": "ok", "waiting": 1}
        blocked.go.set()
        assert first.result()[0] == second.result()[0] == 200


def test_more_connections_than_threads_are_told_so(predictor, monkeypatch):
    monkeypatch.setattr("ele_core.report.server.MOST_CONNECTIONS", 1)
    with serving(predictor.model_) as started:
        first = socket.create_connection(started.server_address[:2], timeout=PATIENCE)
        wait_until(lambda: started.connections)
        second = socket.create_connection(started.server_address[:2], timeout=PATIENCE)
        assert second.recv(1000).startswith(b"HTTP/1.0 503 ")
        first.close()
        second.close()


def test_an_answer_that_takes_too_long_is_given_up(predictor, monkeypatch):
    blocked = Blocked(monkeypatch)
    with serving(predictor.model_, Limits(seconds=0.2)) as started:
        status, answer = ask(started, {"inputs": ["one"]})
        assert status == 504
        assert "longer than 0.2 seconds" in answer["error"]
        blocked.go.set()
    assert blocked.calls == [1]


def test_work_that_nobody_waits_for_ends_between_two_blocks(predictor):
    service = Service(predictor.model_, "words", Limits(seconds=-1))
    own = module.Asked(["six"], module.Request(), last=0.0)
    service._answer([own])
    assert (own.found, own.error) == ([], None)
    service.close()


def test_a_plugin_that_fails_is_one_sentence_and_harms_no_other_request(predictor, monkeypatch, capfd):
    blocked = Blocked(monkeypatch)
    true = predictor.model_.inputs.unlike_training

    def fails(values):
        if "seven" in values:
            raise ZeroDivisionError("division\nby zero")
        return true(values)

    monkeypatch.setattr(predictor.model_.inputs, "unlike_training", fails)
    with serving(predictor.model_) as started, ThreadPoolExecutor(3) as pool:
        first = pool.submit(ask, started, {"inputs": ["one"]})
        assert blocked.entered.wait(PATIENCE)
        bad, good = (pool.submit(ask, started, {"inputs": [word]}) for word in ("seven", "six"))
        wait_until(lambda: len(started.service.waiting) == 2)
        blocked.go.set()
        assert first.result()[0] == good.result()[0] == 200
        assert bad.result() == (500, {"error": "The model failed: division by zero. The terminal shows more."})
    assert "ZeroDivisionError" in capfd.readouterr().err


# -- who may ask --------------------------------------------------------------------------------------------------


def test_a_name_that_was_rebound_to_this_machine_is_refused(server):
    asked = {"inputs": ["six"]}
    assert ask(server, asked, Host=f"localhost:{server.server_port}")[0] == 200
    for host in ("evil.example", f"evil.example:{server.server_port}", "127.0.0.1:1"):
        assert ask(server, asked, Host=host)[0] == 403
        assert request(server, "/model", Host=host)[0] == 403
    assert ask(server, asked, Origin="http://evil.example")[0] == 403


def test_a_token_is_asked_for_except_for_the_health(predictor):
    with serving(predictor.model_, token=SECRET) as started:
        asked = {"inputs": ["six"]}
        assert ask(started, asked, Authorization=f"Bearer {SECRET}")[0] == 200
        assert request(started, "/health")[0] == 200
        for wrong in ("", f"Bearer {SECRET}x", f"Basic {SECRET}", SECRET, "Bearer \xff"):
            status, answer, headers = request(started, "/predict", asked, Authorization=wrong)
            assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
            assert SECRET not in answer["error"]
        assert request(started, "/model")[0] == 401


def test_other_machines_need_a_token_and_may_use_any_name(predictor):
    service = Service(predictor.model_, "words")
    with pytest.raises(ConfigError, match="without a token, only this machine may ask"):
        ServiceServer(service, host="0.0.0.0")
    service.close()
    with serving(predictor.model_, host="0.0.0.0", token=SECRET) as started:
        bearer = {"Authorization": f"Bearer {SECRET}", "Host": "model.example"}
        assert ask(started, {"inputs": ["six"]}, **bearer)[0] == 200


def test_only_addresses_of_this_machine_are_loopback():
    assert all(map(is_loopback, ("127.0.0.1", "127.0.0.2", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.1", "example.org")))


def test_a_token_comes_from_a_file_or_a_variable_and_cannot_be_guessed(tmp_path, monkeypatch):
    monkeypatch.delenv("ELE_TOKEN", raising=False)
    assert read_token(None) is None
    monkeypatch.setenv("ELE_TOKEN", SECRET)
    assert read_token(None) == SECRET
    (tmp_path / "token").write_text(f"{SECRET[::-1]}\n")
    assert read_token(str(tmp_path / "token")) == SECRET[::-1]
    for bad in (b"", b"short", b"with many spaces in between", ("é" * 20).encode(), b"\xff" * 20):
        (tmp_path / "token").write_bytes(bad)
        with pytest.raises(ConfigError, match="this is no token"):
            read_token(str(tmp_path / "token"))


# -- the command --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_command_answers_and_ends_at_a_signal(trained_run, number):
    command = [sys.executable, "-m", "ele_core", "serve", str(trained_run), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    host = process.stdout.readline().rpartition("http://")[2].strip()
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    connection.request("POST", "/predict", '{"inputs": ["six"]}', {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    process.send_signal(number)
    out, errors = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out.splitlines()[-1], errors) == (0, "Ended.", "")


def test_a_stop_finishes_the_answers_under_way(predictor, monkeypatch):
    blocked = Blocked(monkeypatch)
    with serving(predictor.model_) as started, ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, started, {"inputs": ["one"]})
        assert blocked.entered.wait(PATIENCE)
        stopped = pool.submit(started.stop)
        wait_until(lambda: started.service.closed)
        blocked.go.set()
        stopped.result()
        assert first.result()[0] == 200
        with pytest.raises(module.Refused, match="about to stop"):
            started.service.respond({"inputs": ["six"]})


def test_another_host_without_a_token_is_refused_before_it_listens(trained_run):
    environment = {name: value for name, value in os.environ.items() if name != "ELE_TOKEN"}
    command = [sys.executable, "-m", "ele_core", "serve", str(trained_run), "--host", "0.0.0.0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment)
    assert done.returncode == 2
    assert "Error: --host 0.0.0.0: without a token, only this machine may ask. Give --token-file" in done.stderr
