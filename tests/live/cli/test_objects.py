"""`assay objects` and `--objects`, from the first file to the folder alone again."""

import json
import signal
import subprocess
import sys

import pytest

from assay.cli.main import main
from assay.store.location import store_folder
from assay.store.store import Store

pytestmark = pytest.mark.live


@pytest.fixture
def assay(monkeypatch, capsys):
    """Run a command: what measures in a process of its own, everything else in this one."""

    def call(*arguments, **environment):
        words = [str(one) for one in arguments]
        if words[0] == "run":
            return subprocess.run([sys.executable, "-m", "assay", *words], capture_output=True, text=True)
        with monkeypatch.context() as patch:
            patch.setattr("sys.argv", ["assay", *words])
            for name, value in environment.items():
                patch.setenv(name, value)
            with pytest.raises(SystemExit) as ended:
                main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, int(ended.value.code or 0), said.out, said.err)

    return call


@pytest.fixture
def bench(write):
    return write(
        "bench.yaml",
        "benchmark: quick\ntarget:\n  command: \"echo 'speed: 3'\"\n"
        "  metrics: [{name: speed, better: higher, pattern: 'speed: (\\d+)'}]\nmeasure: {runs: 2}\n",
    )


def keys(folder):
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def copies():
    return [path for kind in ("samples", "artefacts") for path in (store_folder() / kind).rglob("*") if path.is_file()]


def test_a_run_with_an_object_store_and_all_that_can_be_done_with_it(assay, bench, tmp_path):
    place = tmp_path / "objects"
    done = assay("run", bench, "--quiet", "--objects", place)
    assert done.returncode in (0, 1), done.stderr
    assert done.stderr.count("on this disk") == 0
    sent = keys(place)
    assert sent
    status = json.loads(assay("objects", "status", "--format", "json").stdout)
    assert status == {
        "url": f"file://{place}",
        "cache_bytes": None,
        "answers": True,
        "problem": "",
        "waiting": 0,
        "to_delete": 0,
        "only_there": 0,
    }
    for path in copies():
        path.unlink()
    assert "not here      0" not in assay("objects", "status").stdout
    refused = assay("objects", "forget")
    assert refused.returncode == 2
    assert "error[objects-only]" in refused.stderr
    exported = assay("results", "export", "latest", "--out", tmp_path / "out")
    assert exported.returncode == 0, exported.stderr
    assert "fetched" in assay("objects", "fetch").stdout
    assert sorted(path.name for path in copies()) == sorted(key.rpartition("/")[2] for key in sent)
    assert assay("objects", "verify", "--content").returncode == 0
    assert assay("objects", "forget").returncode == 0
    gone = assay("objects", "status")
    assert (gone.returncode, "error[no-objects]" in gone.stderr) == (2, True)
    assert keys(place) == sent


def test_an_old_store_is_moved_to_a_bucket(assay, bench, s3, tmp_path):
    assert assay("run", bench, "--quiet").returncode in (0, 1)
    before = len(copies())
    used = assay("objects", "use", s3.url("team"), "--cache", "1GB")
    assert used.returncode == 0, used.stderr
    assert f"{before} files to send" in used.stdout
    assert s3.keys() == []  # what was tried is gone again
    done = assay("objects", "send")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{before} files sent")
    assert len(s3.keys()) == before
    second = assay("objects", "use", s3.url("team"), "--store", tmp_path / "second")
    assert "files are there already" in second.stdout
    moved = assay("objects", "use", s3.url("team", f"http://localhost:{s3.port}"))
    assert moved.returncode == 0, moved.stderr
    assert "localhost" in assay("objects", "status").stdout
    other = assay("objects", "use", s3.url("other"))
    assert (other.returncode, "error[objects-other]" in other.stderr) == (2, True)
    with s3.stopped():
        (s3.bucket / s3.keys()[0]).write_bytes(b"damaged")
    wrong = assay("objects", "verify", "--content", "--format", "json")
    assert wrong.returncode == 1
    assert len(json.loads(wrong.stdout)["damaged"]) == 1
    campaign = assay("results", "rm", "latest")
    assert campaign.returncode == 0, campaign.stderr
    assert s3.keys() == []


def test_a_run_ends_well_while_the_bucket_is_away(assay, bench, s3):
    place = s3.url()
    assert assay("objects", "use", place).returncode == 0
    s3.stop(signal.SIGKILL)
    done = assay("run", bench, "--quiet")
    assert done.returncode in (0, 1), done.stderr
    assert "on this disk alone" in done.stderr
    assert "Traceback" not in done.stderr
    status = assay("objects", "status")
    assert status.returncode == 1
    assert "answers       no" in status.stdout
    failed = assay("objects", "send")
    assert (failed.returncode, "error[objects-away]" in failed.stderr) == (3, True)
    s3.start()
    assert assay("objects", "send").returncode == 0
    assert len(s3.keys()) == len(copies())
    kept = Store(store_folder())
    assert kept.backing.outbox.count("send") == 0
    kept.close()


def test_an_object_store_that_cannot_be_used_is_refused_at_once(assay, bench, s3):
    refused = assay("objects", "use", f"s3://no-such-bucket?endpoint={s3.endpoint}")
    assert (refused.returncode, "error[objects-bucket]" in refused.stderr) == (3, True)
    denied = assay("objects", "use", s3.url(), AWS_SECRET_ACCESS_KEY="wrong")
    assert (denied.returncode, "error[objects-denied]" in denied.stderr) == (3, True)
    run = assay("run", bench, "--quiet", "--objects", f"s3://no-such-bucket?endpoint={s3.endpoint}")
    assert (run.returncode, run.stdout, "error[objects-bucket]" in run.stderr) == (3, "", True)
    assert not (store_folder() / "objects.json").exists()
    assert assay("objects", "use", "ftp://x").returncode == 2
    size = assay("objects", "use", s3.url(), "--cache", "much")
    assert (size.returncode, "error[size]" in size.stderr) == (2, True)
