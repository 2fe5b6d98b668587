"""What a person reads after a slip of the pen: no words of a library, what was perhaps meant, and nothing measured."""

from __future__ import annotations

import json

import pytest

PROGRAM = "benchmark: p\ntarget: {{command: {}}}\nmeasure: {{runs: 1}}\n"
AXIS = ", ".join(map(str, range(1, 101)))


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch) -> None:
    """A folder of its own with a benchmark, and an empty store."""
    (tmp_path / "bench.yaml").write_text(PROGRAM.format("echo 1"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ASSAY_SERVER", raising=False)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("serve", "--port", "99999"), "port is 99999: it must be 65535 or less"),
        (("serve", "--port", "80a"), "'80a': a whole number is needed"),
        (("sim", "llm", "--port", "99999"), "'99999' is no port: the last one is 65535"),
        (("results", "list", "--limit", "0"), "'0': it must be 1 or more"),
        (
            ("results", "list", "--format", "jsno"),
            "'jsno' is not one of 'text', 'json', 'csv', 'md'. Did you mean 'json'?",
        ),
        (("rnu", "bench.yaml"), "Did you mean 'run'?"),
        (("run", "bnech.yaml"), "did you mean bench.yaml?"),
        (("run", "bench.yaml", "--set", "measure.rnus=3"), "did you mean runs?"),
        (("results", "show", "lastest"), "nothing was measured here yet"),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else "",
)
def test_a_slip_is_named_with_what_was_meant(words, said, cli):
    code, out, err = cli(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert "Input should" not in err


def test_a_matrix_without_end_says_what_to_do(cli, write):
    axes = "".join(f"  {key}: [{AXIS}]\n" for key in ("workload.batch", "target.threads", "workload.seed"))
    write("big.yaml", f"benchmark: m\ntarget: {{model: squeezenet}}\nmatrix:\n{axes}")
    code, _, err = cli("plan", "big.yaml")
    assert code == 2
    assert "1,000,000 points" in err
    assert "try: name fewer values" in err


@pytest.mark.parametrize("folder", ["bench.yaml", "bench.yaml/below", "/dev/null/x"])
def test_where_reports_cannot_go_is_found_before_anything_is_measured(folder, cli):
    code, out, err = cli("run", "bench.yaml", "--out", folder)
    assert (code, out) == (2, "")
    assert err.startswith(f"error[out] {folder}\n")
    assert "is a file, not a folder" in err
    assert cli("results", "list")[1].startswith("no results")


@pytest.mark.live
def test_a_misspelt_program_and_a_misspelt_campaign(cli, write):
    write("typo.yaml", PROGRAM.format("pyhton3 train.py"))
    code, out, _ = cli("run", "typo.yaml", "--no-control")
    assert code == 3
    assert "cannot start 'pyhton3'" in out
    assert "python3" in " ".join(out.split()).partition("did you mean")[2]
    assert "did you mean latest?" in cli("results", "show", "lastest")[2]


@pytest.mark.live
def test_the_list_shows_verdicts_and_no_campaign_in_which_nothing_was_measured(cli, write):
    write("typo.yaml", PROGRAM.format("pyhton3 train.py"))
    assert cli("run", "typo.yaml", "--no-control", "--quiet")[0] == 3
    assert cli("results", "list")[1].startswith("1 campaign in which nothing could be measured")
    assert cli("run", "bench.yaml", "--no-control", "--quiet")[0] == 0
    head, row, *rest = cli("results", "list")[1].splitlines()
    assert head.split() == ["campaign", "created", "state", "jobs", "verdict", "benchmark"]
    assert row.split()[2:] == ["done", "1/1", "suspect", "p"]  # of one run nothing is known for sure
    assert len(rest) == 1
    assert cli("results", "list", "--all")[1].split()[-4:] == ["failed", "1/1", "failed", "p"]
    assert len(json.loads(cli("results", "list", "--all", "--format", "json")[1])) == 2
