import os

from assay.run.pipes import PipeStage


def test_a_warm_up_that_goes_on_takes_in_what_was_measured() -> None:
    reading, writing = os.pipe()
    try:
        stage = PipeStage(writing)
        for name in ("warmup", "measure", "warmup", "measure", "score"):
            with stage.phase(name):
                pass
    finally:
        os.close(reading)
        os.close(writing)
    assert [name for name, _, _ in stage.marks] == ["warmup", "warmup", "warmup", "measure", "score"]
    assert set(stage.seconds) == {"warmup", "measure", "score"}
    _, begin, end = stage.marks[3]
    assert stage.seconds["measure"] == (end - begin) / 1e9
