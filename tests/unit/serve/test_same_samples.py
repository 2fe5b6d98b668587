"""Several deliveries of the same samples at the same moment: whichever moves the file first, none is refused."""

import threading

import numpy as np
import pytest

from assay.run.records import SampleSet
from assay.serve.delivery import known_size, missing, take_as_samples
from assay.store.samples import encode
from assay.store.store import Store

TOGETHER = 4
ROUNDS = 40


@pytest.fixture
def store(tmp_path):
    made = Store(tmp_path / "store")
    yield made
    made.close()


def samples(number: int) -> bytes:
    times = np.arange(50, dtype=np.int64)
    return bytes(encode((SampleSet("latency_ms", "measure", times, times + float(number)),)))


def test_deliveries_of_the_same_samples_do_not_disturb_each_other(store):
    problems: list[BaseException] = []
    barrier = threading.Barrier(TOGETHER)
    digests = [upload(store, samples(number)) for number in range(ROUNDS)]

    def deliver():
        for digest in digests:
            barrier.wait()
            try:
                assert missing(store, [digest]) == ()
                take_as_samples(store, [digest], 1000)
                assert known_size(store, digest)
            except BaseException as problem:
                problems.append(problem)

    threads = [threading.Thread(target=deliver) for _ in range(TOGETHER)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert all(store.samples.path(digest).is_file() for digest in digests)
    assert not any(store.artefacts.path(digest).is_file() for digest in digests)


def upload(store: Store, content: bytes) -> str:
    with store.artefacts.begin() as upload:
        upload.write(content)
        return upload.keep()[0]
