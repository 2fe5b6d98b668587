"""Logs that are read while they grow."""

from __future__ import annotations

from assay.engines.logs import LogFile, follow_logs, read_logs


def test_what_comes_is_reported_in_whole_lines_until_the_end(tmp_path):
    path = tmp_path / "a.out"
    log = LogFile("a.out", path)
    writes = iter([b"one\ntw", b"o\n", b"", b"three\n"])
    rounds = []

    def ended() -> bool:
        more = next(writes, None)
        if more is None:
            return True
        with path.open("ab") as file:
            file.write(more)
        rounds.append(more)
        return False

    told = [line.text for line in follow_logs(lambda: [log], ended, sleep=lambda _: None)]
    assert told == ["one\n", "two\n", "three\n"]
    assert len(rounds) == 4


def test_a_log_that_is_written_anew_is_read_anew(tmp_path):
    path = tmp_path / "a.out"
    contents = iter(["a long first life\n", "second\n"])

    def ended() -> bool:
        more = next(contents, None)
        if more is not None:
            path.write_text(more)
        return more is None

    assert [line.text for line in follow_logs(lambda: [LogFile("a", path)], ended, sleep=lambda _: None)] == [
        "a long first life\n",
        "second\n",
    ]


def test_logs_that_are_not_there_are_passed_over(tmp_path):
    (tmp_path / "b").write_bytes(b"\xff text\n")
    logs = [LogFile("a", tmp_path / "a"), LogFile("b", tmp_path / "b")]
    assert [(line.source, line.text) for line in read_logs(logs)] == [("b", "\N{REPLACEMENT CHARACTER} text\n")]
