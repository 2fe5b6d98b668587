"""What a job takes along into its pod, and what it must find there."""

import pytest

from assay.engines.kubernetes.draft import packed
from assay.errors import UsageError
from assay.plan.plan import make_plan
from assay.spec.load import load


def jobs_of(command):
    document = {
        "benchmark": "served",
        "services": {"llm": {"command": command, "ready": {"tcp": True}}},
        "target": {"service": "llm", "api": "openai-chat", "model": "m"},
    }
    return make_plan(load(document), lambda _: {}).jobs


def test_a_shell_by_its_whole_path_is_the_one_of_the_image(tmp_path):
    made = packed(jobs_of(["/bin/sh", "-c", "exec serve"]), tmp_path)
    assert made.files == {}
    assert made.jobs[0].files == {}


def test_a_script_beside_the_file_is_refused(tmp_path):
    (tmp_path / "serve.py").write_text("pass")
    with pytest.raises(UsageError, match=r"serve\.py.*does not have"):
        packed(jobs_of(["python3", "serve.py"]), tmp_path)
    packed(jobs_of(["python3", "serve.py"]), tmp_path, apart=False)
