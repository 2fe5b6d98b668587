"""`assay merge` and parts that are run by hand: what there is to put together, and what is not."""

import json

import pytest
from tests.support.simulated import llm_server

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def _store(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.delenv("ASSAY_SERVER", raising=False)


def write(folder, url, **load):
    file = folder / "part.json"
    file.write_text(
        json.dumps(
            {
                "benchmark": "part",
                "target": {"endpoint": url, "api": "openai-chat", "model": "sim"},
                "workload": {"output_tokens": 4},
                "load": {"rate": 40.0, "arrivals": "constant", "duration": "1s", "hosts": 2, **load},
                "measure": {"runs": 1, "warmup": "none", "timeout": "30s"},
            }
        )
    )
    return file


def test_one_part_by_hand_is_its_share_and_nothing_to_merge(cli, tmp_path):
    with llm_server(ttft_ms=5, itl_ms=1, tokens=4) as sim:
        code, out, _ = cli("run", write(tmp_path, sim.url, host=1), "--format", "json", "--quiet")
    assert code == 0
    (job,) = json.loads(out)["jobs"]
    assert job["metrics"]["offered_per_s"]["median"] == pytest.approx(20, abs=1.5)
    (run,) = job["runs"]
    assert run["facts"]["share"]["host"] == 1
    assert "requests.npz" in run["files"]
    clock = run["facts"]["clock"]
    assert clock["window_end_epoch_ns"] - clock["window_begin_epoch_ns"] == pytest.approx(1e9, rel=0.2)
    code, _, errors = cli("merge", "latest")
    assert code == 2
    assert "error[nothing-to-merge]" in errors


def test_all_parts_on_one_machine_are_refused(cli, tmp_path):
    code, _, errors = cli("run", write(tmp_path, "http://127.0.0.1:9"), "--quiet")
    assert code == 3
    assert "error[hosts]" in errors
    assert "--server URL" in errors
