"""Services as real processes: started, ready, used, and gone afterwards, however the body ends."""

from __future__ import annotations

import json
import os
import re
import socket
import sys
import threading
import urllib.error
import urllib.request
from time import monotonic, perf_counter_ns

import psutil
import pytest
from tests.support.running_server import wait_for
from tests.unit.run.services.conftest import LISTEN, await_gone, is_gone

from assay.documents import from_json, to_json
from assay.errors import MeasureError
from assay.run.processes import TAG_VARIABLE
from assay.run.services import RunningService, exit_of, log_tail, refuse_ended, started
from assay.spec.benchmark import Service

pytestmark = pytest.mark.live


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=60) as answer:
        return answer.read()


def test_a_service_is_ready_before_it_is_used_and_gone_afterwards(tmp_path, scratch):
    (tmp_path / "page.txt").write_text("hello")
    web = Service(command="python -m http.server {port} --bind 127.0.0.1", ready={"http": "/page.txt"})
    before_ns = perf_counter_ns()
    with started({"web": web}, tmp_path, scratch) as running:
        one = running["web"]
        assert get(f"{one.base_url}/page.txt") == b"hello"
        assert (one.how, one.host, one.name) == ("process", "127.0.0.1", "web")
        assert before_ns < one.started_ns < one.ready_ns < perf_counter_ns()
        assert one.start_to_ready_s == pytest.approx((one.ready_ns - one.started_ns) / 1e9)
        assert psutil.pid_exists(one.pid)
    assert is_gone(one.pid)
    with pytest.raises(urllib.error.URLError):
        get(one.base_url)
    assert "GET /page.txt" in one.stderr.read_text()
    assert exit_of(one) is None, "it was ended by us, not by itself"


def test_a_running_service_survives_the_way_through_a_document(tmp_path, scratch, service):
    with started({"web": service(LISTEN + "server.serve_forever()")}, tmp_path, scratch) as running:
        pass
    assert from_json(RunningService, to_json(running["web"]), source="here") == running["web"]


def test_the_port_and_the_secrets_are_in_its_environment_and_only_there(tmp_path, scratch, service, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame-1234")
    script = (
        LISTEN
        + """
import json
json.dump([{k: os.environ.get(k) for k in ("PORT", "ASSAY_PORT", "KEY", "ADDRESS", "ASSAY_RUN_TAG")}, sys.argv[1:]],
          open("seen.json", "w"))
server.serve_forever()
"""
    )
    keys = {"KEY": "${env:MODEL_KEY}", "ADDRESS": "127.0.0.1:{port}"}
    web = service(script, "--listen={port}", "{other}", env=keys, cwd="work")
    (tmp_path / "work").mkdir()
    with started({"web": web}, tmp_path, scratch) as running:
        port = str(running["web"].port)
        seen, words = json.loads((tmp_path / "work/seen.json").read_text())
        line = psutil.Process(running["web"].pid).cmdline()
    assert seen | {"ASSAY_RUN_TAG": ""} == {
        "PORT": port,
        "ASSAY_PORT": port,
        "KEY": "sesame-1234",
        "ADDRESS": f"127.0.0.1:{port}",
        "ASSAY_RUN_TAG": "",
    }
    assert seen["ASSAY_RUN_TAG"], "the sweep after the run finds it by this"
    assert words == [f"--listen={port}", "{other}"], "other braces are not ours"
    assert not any("sesame" in text for text in (*line, to_json(running["web"])))
    assert running["web"].secrets == ("MODEL_KEY",)


def test_a_later_service_finds_an_earlier_one_by_its_port(tmp_path, scratch, service):
    back = service(LISTEN + "server.serve_forever()")
    ask = (
        "import sys, urllib.request; assert urllib.request.urlopen(f'http://127.0.0.1:{sys.argv[1]}').read() == b'fine'"
    )
    front = service(ask + LISTEN + "server.serve_forever()", "{port:back}", ready={"http": "/{port:back}"})
    with started({"back": back, "front": front}, tmp_path, scratch) as running:
        assert list(running) == ["back", "front"]
        assert running["back"].port != running["front"].port
        assert running["front"].started_ns > running["back"].ready_ns
        with started({"third": front}, tmp_path, scratch, known=running) as more:
            assert list(more) == ["third"]


def test_a_service_cannot_name_one_that_is_not_there_yet(tmp_path, scratch, service):
    both = {"front": service("", "{port:back}"), "back": service("")}
    with pytest.raises(MeasureError, match=r"\{port:back\} names no service .*none"), started(both, tmp_path, scratch):
        pass


def test_one_that_dies_is_reported_at_once_with_its_last_words(tmp_path, scratch, service, monkeypatch):
    monkeypatch.setenv("MODEL_KEY", "sesame-1234")
    script = "import os, sys; print('on stdout'); print('no model at', os.environ['KEY'], file=sys.stderr); sys.exit(7)"
    begin = monotonic()
    dying = service(script, env={"KEY": "${env:MODEL_KEY}"}, ready={"http": "/", "within": 100.0})
    with pytest.raises(MeasureError) as caught, started({"llm": dying}, tmp_path, scratch):
        pass
    assert monotonic() - begin < 20
    problem = caught.value.problem
    assert (problem.code, problem.at) == ("service-ended", "services.llm")
    assert "exit code 7" in problem.message
    assert "no model at ***" in problem.message
    assert "sesame" not in problem.message
    assert (scratch / "service-llm.out").read_text() == "on stdout\n"


def test_one_killed_by_a_signal_says_so(tmp_path, scratch, service):
    killed = service("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    with pytest.raises(MeasureError, match="killed by signal 11"), started({"llm": killed}, tmp_path, scratch):
        pass


def test_one_that_never_gets_ready_is_reported_with_its_last_answer(tmp_path, scratch, service):
    script = LISTEN.replace("200", "503").replace(b"fine".decode(), "loading") + (
        "open('pid', 'w').write(str(os.getpid()))\nprint('still loading', flush=True)\nserver.serve_forever()"
    )
    told: list[str] = []
    slow = service(script, ready={"http": "/health", "within": 2.5})
    begin = monotonic()
    with pytest.raises(MeasureError) as caught, started({"llm": slow}, tmp_path, scratch, notify=told.append):
        pass
    assert 2.4 < monotonic() - begin < 20
    message = caught.value.problem.message
    assert "not ready within 2.5 s" in message
    assert "status 503 (loading)" in message
    assert "still loading" in message
    assert caught.value.problem.code == "service-not-ready"
    assert told
    assert re.match(r"llm not ready after [12] s: GET /health: ", told[0])
    await_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("stop", [RuntimeError, KeyboardInterrupt, SystemExit])
def test_it_is_gone_when_the_body_raises(tmp_path, scratch, service, stop):
    web = service(LISTEN + "server.serve_forever()")
    with pytest.raises(stop), started({"web": web}, tmp_path, scratch) as running:
        raise stop
    assert is_gone(running["web"].pid)


def test_those_started_before_are_ended_when_a_later_one_fails(tmp_path, scratch, service):
    first = service(LISTEN + "open('pid', 'w').write(str(os.getpid()))\nserver.serve_forever()")
    both = {"first": first, "second": service("raise SystemExit(1)")}
    with pytest.raises(MeasureError, match="second ended with exit code 1"), started(both, tmp_path, scratch):
        pass
    assert is_gone(int((tmp_path / "pid").read_text()))


@pytest.mark.quiet
def test_one_that_ignores_being_asked_is_made_to_end(tmp_path, scratch, service):
    script = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)" + LISTEN + "server.serve_forever()"
    with pytest.raises(KeyboardInterrupt), started({"web": service(script)}, tmp_path, scratch) as running:
        raise KeyboardInterrupt
    begin = running["web"].ready_ns / 1e9
    assert 4.5 < perf_counter_ns() / 1e9 - begin < 10, "somebody waits: five seconds, not ten"
    assert is_gone(running["web"].pid)


def test_it_may_end_in_good_order(tmp_path, scratch, service):
    script = (
        LISTEN
        + """
import signal, time
def bye(*_):
    time.sleep(0.3); open("bye", "w").write("in good order"); os._exit(0)
signal.signal(signal.SIGTERM, bye)
server.serve_forever()
"""
    )
    with started({"web": service(script)}, tmp_path, scratch):
        pass
    assert (tmp_path / "bye").read_text() == "in good order"


def test_its_children_end_with_it_even_a_daemon(tmp_path, scratch, service):
    script = (
        """
import os, subprocess, sys, time
sleep = [sys.executable, "-c", "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(600)"]
child = subprocess.Popen(sleep)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("daemon", "w").write(str(os.getpid())); time.sleep(600)
    os._exit(0)
os.wait()
while not os.path.exists("daemon") or not open("daemon").read(): time.sleep(0.01)
open("child", "w").write(str(child.pid))
"""
        + LISTEN
        + "server.serve_forever()"
    )
    with started({"web": service(script)}, tmp_path, scratch):
        pids = [int((tmp_path / name).read_text()) for name in ("child", "daemon")]
        assert all(psutil.pid_exists(pid) for pid in pids)
    await_gone(*pids)


def test_an_endless_output_fills_neither_memory_nor_disk(tmp_path, scratch, service):
    script = (
        LISTEN
        + """
threading.Thread(target=server.serve_forever, daemon=True).start()
os.write(1, b"the first line\\n")
block = b"x" * 65535 + b"\\n"
for number in range(3000): os.write(1, block)
open("written", "w").write("all")
while True: os.write(1, block)
"""
    )
    with started({"web": service(script)}, tmp_path, scratch) as running:
        one = running["web"]
        keeper = psutil.Process(psutil.Process(one.pid).ppid())
        while not (tmp_path / "written").exists():
            assert one.stdout.stat().st_size < 10 * 2**20
        assert keeper.memory_info().rss < 100e6
        assert get(one.base_url) == b"fine", "it never waits for us"
    assert one.stdout.stat().st_size < 6 * 2**20
    text = one.stdout.read_bytes()
    assert text.startswith(b"the first line\n")
    assert b"bytes left out ...]" in text


def test_a_chosen_port_that_is_taken_meanwhile_is_replaced(tmp_path, scratch, service):
    script = (
        """
import os, socket
if not os.path.exists("tried"):
    open("tried", "w").write(os.environ["PORT"])
    other = socket.socket(); other.bind(("127.0.0.1", int(os.environ["PORT"]))); other.listen()
"""
        + LISTEN
        + "server.serve_forever()"
    )
    with started({"web": service(script, ready={"http": "/"})}, tmp_path, scratch) as running:
        assert get(running["web"].base_url) == b"fine"
        assert running["web"].port != int((tmp_path / "tried").read_text())


def test_a_fixed_port_that_is_taken_names_who_has_it(tmp_path, scratch, service):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        taken = service("raise SystemExit(1)", port=port)
        with pytest.raises(MeasureError) as caught, started({"web": taken}, tmp_path, scratch):
            pass
    assert caught.value.problem.code == "port-taken"
    assert f"port {port} is taken by " in caught.value.problem.message
    assert f"(process {os.getpid()})" in caught.value.problem.message


def test_a_fixed_port_is_used(tmp_path, scratch, service):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with started({"web": service(LISTEN + "server.serve_forever()", port=port)}, tmp_path, scratch) as running:
        assert running["web"].port == port


def test_a_stranger_who_answers_on_the_port_is_not_the_service(tmp_path, scratch, service):
    script = """
import os, time
open("port.part", "w").write(os.environ["PORT"]); os.rename("port.part", "port")
while not os.path.exists("taken"): time.sleep(0.01)
time.sleep(1)
raise SystemExit("too late for me")
"""
    with socket.socket() as stranger:

        def take_its_port() -> None:
            stranger.bind(("127.0.0.1", int(wait_for((tmp_path / "port").exists) and (tmp_path / "port").read_text())))
            stranger.listen()
            (tmp_path / "taken").touch()

        threading.Thread(target=take_its_port).start()
        with pytest.raises(MeasureError, match="too late"), started({"web": service(script)}, tmp_path, scratch):
            pytest.fail("somebody else answered for it")


def test_a_command_can_say_that_it_is_ready(tmp_path, scratch, service):
    script = "import time; time.sleep(0.3); open('ready', 'w').close(); time.sleep(600)"
    check = f"{sys.executable} -c \"import os; raise SystemExit(not os.path.exists('ready'))\""
    with started({"web": service(script, ready={"command": check})}, tmp_path, scratch) as running:
        assert running["web"].start_to_ready_s > 0.3


def test_a_command_that_is_never_content_says_its_code(tmp_path, scratch, service):
    check = "/bin/sh -c 'exit 3'"
    never = service("import time; time.sleep(600)", ready={"command": check, "within": 5.0})
    with pytest.raises(MeasureError, match="exit code 3"), started({"web": never}, tmp_path, scratch):
        pass


def test_one_that_dies_while_it_is_used_is_noted(tmp_path, scratch, service):
    script = (
        LISTEN
        + """
def die():
    while not os.path.exists("die"): time.sleep(0.01)
    os._exit(9)
threading.Thread(target=die).start()
"""
        + "print('so far so good', flush=True)\nserver.serve_forever()"
    )
    with started({"web": service(f"import time\n{script}")}, tmp_path, scratch) as running:
        refuse_ended(running.values())
        (tmp_path / "die").touch()
        wait_for(lambda: exit_of(running["web"]) is not None, what="its end")
        with pytest.raises(MeasureError, match=r"web ended with exit code 9.*\n.*so far so good") as caught:
            refuse_ended(running.values())
        assert caught.value.problem.code == "service-ended"
    assert exit_of(running["web"]).code == 9


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"command": "no-such-program --port {port}"}, "cannot start 'no-such-program': No such file"),
        ({"command": "'unclosed"}, "cannot be split"),
        ({"command": ("",)}, "empty"),
        ({"command": "serve --key ${env:KEY}"}, "cannot hold"),
        ({"command": "serve", "cwd": "nowhere"}, "nowhere' is not there"),
        ({"command": "serve", "env": {"KEY": "${env:NOT_SET_ANYWHERE}"}}, "NOT_SET_ANYWHERE is not set"),
    ],
)
def test_bad_services_are_refused_with_a_reason(tmp_path, scratch, keys, says):
    with pytest.raises(MeasureError, match=says), started({"web": Service(**keys)}, tmp_path, scratch):
        pass


def test_a_program_beside_the_benchmark_file_is_found(tmp_path, scratch):
    program = tmp_path / "bin" / "serve"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\n{LISTEN}\nserver.serve_forever()\n")
    program.chmod(0o755)
    (tmp_path / "elsewhere").mkdir()
    with started({"web": Service(command="bin/serve", cwd="elsewhere")}, tmp_path, scratch) as running:
        assert get(running["web"].base_url) == b"fine"


def test_the_services_carry_the_tag_of_the_run(tmp_path, scratch, service, monkeypatch):
    monkeypatch.setenv(TAG_VARIABLE, "tag-of-this-run")
    with started({"web": service(LISTEN + "server.serve_forever()")}, tmp_path, scratch) as running:
        assert psutil.Process(running["web"].pid).environ()[TAG_VARIABLE] == "tag-of-this-run"


def test_nothing_is_started_for_nothing(tmp_path):
    threads = threading.active_count()
    with started({}, tmp_path, tmp_path / "not there") as running:
        assert running == {}
        assert threading.active_count() == threads


def test_what_a_service_wrote_last_can_be_read(tmp_path, scratch, service):
    script = LISTEN + "print('a line', flush=True)\nserver.serve_forever()"
    with started({"web": service(script, ready={"http": "/"})}, tmp_path, scratch) as running:
        assert log_tail(running["web"]) == ("a line",)
