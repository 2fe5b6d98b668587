"""Samples and files with an object store behind them: found wherever they are, sent once, healed when damaged."""

import hashlib
import os
import time

import numpy as np
import pytest
from tests.unit.store.objects.setups import Memory, backed_by

from assay.errors import StoreError, UsageError
from assay.run.records import SampleSet
from assay.store.artefacts import ArtefactFiles
from assay.store.objects.files import ObjectsAwayError
from assay.store.samples import SampleFiles, encode

SETS = (SampleSet("latency_ms", "measure", np.arange(3, dtype=np.int64), np.array([1.0, 2.0, 3.0])),)
PARQUET = bytes(encode(SETS))
SAMPLES = hashlib.sha256(PARQUET).hexdigest()
CONTENT = b"an artefact"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def objects():
    return Memory()


@pytest.fixture
def backing(objects, tmp_path):
    return backed_by(objects, tmp_path)


@pytest.fixture
def samples(backing, tmp_path):
    return SampleFiles(tmp_path / "samples", backing)


@pytest.fixture
def files(backing, tmp_path):
    return ArtefactFiles(tmp_path / "artefacts", backing)


def put(files, content=CONTENT):
    with files.begin() as upload:
        upload.write(content)
        return upload.keep()


def test_what_is_kept_waits_to_be_sent_and_nothing_is_asked_meanwhile(objects, backing, samples, files, tmp_path):
    objects.away = True
    assert samples.write(SETS) == SAMPLES
    assert put(files) == (DIGEST, True)
    source = tmp_path / "file"
    source.write_bytes(b"taken")
    files.take(source)
    assert samples.read(SAMPLES)[0].value.tolist() == [1.0, 2.0, 3.0]
    assert files.find(DIGEST).read_bytes() == CONTENT
    assert files.is_whole(DIGEST)
    assert {(mark.kind, mark.digest) for mark in backing.outbox.marks("send")} == {
        ("samples", SAMPLES),
        ("artefacts", DIGEST),
        ("artefacts", hashlib.sha256(b"taken").hexdigest()),
    }
    assert objects.asked == []


def test_what_is_here_already_is_not_sent_again(backing, samples, files):
    samples.write(SETS)
    put(files)
    for mark in backing.outbox.marks("send"):
        backing.outbox.done(mark)
    samples.write(SETS)
    samples.accept(PARQUET, SAMPLES)
    assert put(files) == (DIGEST, False)
    assert backing.outbox.marks("send") == ()


@pytest.mark.parametrize("by_file", [False, True])
def test_samples_from_elsewhere_wait_too_and_refused_ones_do_not(backing, samples, tmp_path, by_file):
    source = tmp_path / "upload"
    source.write_bytes(PARQUET)
    with pytest.raises(UsageError):
        samples.accept(b"no parquet", hashlib.sha256(b"no parquet").hexdigest())
    assert backing.outbox.count("send") == 0
    samples.accept(source if by_file else PARQUET, SAMPLES)
    assert backing.outbox.waits("samples", SAMPLES)


def test_what_only_the_object_store_has_is_fetched_once(objects, samples, files):
    objects.content = {samples.key(SAMPLES): PARQUET, files.key(DIGEST): CONTENT}
    for _ in range(2):
        assert samples.read(SAMPLES)[0].value.tolist() == [1.0, 2.0, 3.0]
        assert files.find(DIGEST).read_bytes() == CONTENT
    assert objects.asked == [f"get {samples.key(SAMPLES)}", f"get {files.key(DIGEST)}"]
    assert samples.backing.outbox.marks("send") == ()


def test_keys_are_the_paths_of_the_folder(samples, files):
    for shelf, digest in ((samples, SAMPLES), (files, DIGEST)):
        assert shelf.key(digest) == f"{shelf.kind}/{shelf.path(digest).relative_to(shelf.folder).as_posix()}"


def test_size_and_age_are_known_without_fetching(objects, samples, files):
    objects.content = {files.key(DIGEST): CONTENT}
    assert files.facts(DIGEST).size_bytes == len(CONTENT)
    assert files.missing([DIGEST, SAMPLES]) == (SAMPLES,)
    assert not files.path(DIGEST).exists()
    put(files)
    objects.away = True
    assert files.facts(DIGEST).size_bytes == len(CONTENT)
    with pytest.raises(ObjectsAwayError):
        files.facts(SAMPLES)


def test_a_damaged_copy_is_replaced_by_the_object(objects, samples, files):
    objects.content = {samples.key(SAMPLES): PARQUET, files.key(DIGEST): CONTENT}
    for shelf, digest in ((samples, SAMPLES), (files, DIGEST)):
        shelf.find(digest).write_bytes(b"damaged")
    assert samples.read(SAMPLES)[0].value.tolist() == [1.0, 2.0, 3.0]
    assert files.is_whole(DIGEST)
    assert files.path(DIGEST).read_bytes() == CONTENT


def test_a_damaged_copy_that_was_never_sent_is_reported(samples, files):
    samples.write(SETS)
    put(files)
    samples.path(SAMPLES).write_bytes(b"damaged")
    files.path(DIGEST).write_bytes(b"damaged")
    with pytest.raises(StoreError, match="damaged") as told:
        samples.read(SAMPLES)
    assert told.value.problem.code == "samples"
    assert not files.is_whole(DIGEST)
    assert samples.path(SAMPLES).exists()


def test_a_damaged_object_is_never_used(objects, samples, files):
    objects.content = {samples.key(SAMPLES): PARQUET[:-1], files.key(DIGEST): b"other"}
    for read in (lambda: samples.read(SAMPLES), lambda: files.find(DIGEST), lambda: files.is_whole(DIGEST)):
        with pytest.raises(StoreError) as told:
            read()
        assert told.value.problem.code == "objects-damaged"
    assert not samples.path(SAMPLES).exists()


def test_what_is_nowhere_is_reported_as_without_an_object_store(samples, files):
    with pytest.raises(StoreError, match="cannot read samples"):
        samples.read(SAMPLES)
    assert files.find(DIGEST) is None
    assert not files.is_whole(DIGEST)
    with pytest.raises(FileNotFoundError):
        files.at_hand(DIGEST).read_bytes()


def test_what_is_removed_goes_from_the_object_store_later(objects, backing, samples, files):
    samples.write(SETS)
    put(files)
    samples.remove(SAMPLES)
    files.remove(DIGEST)
    assert not samples.path(SAMPLES).exists()
    assert backing.outbox.marks("send") == ()
    assert {mark.digest for mark in backing.outbox.marks("delete")} == {SAMPLES, DIGEST}
    put(files)
    assert {mark.digest for mark in backing.outbox.marks("delete")} == {SAMPLES}
    assert backing.outbox.waits("artefacts", DIGEST)
    assert objects.asked == []


def test_an_upload_becomes_samples(backing, samples, files):
    put(files, PARQUET)
    samples.adopt(SAMPLES, files.path(SAMPLES))
    files.remove(SAMPLES)
    assert samples.read(SAMPLES)
    assert backing.outbox.waits("samples", SAMPLES)
    assert not backing.outbox.waits("artefacts", SAMPLES)


def test_the_files_here_are_listed_by_their_names_alone(samples, files):
    samples.write(SETS)
    put(files)
    (samples.path(SAMPLES).parent / ".part-x").write_bytes(b"half")
    (files.folder / "00").mkdir()
    (files.folder / "00" / DIGEST).write_bytes(b"in a wrong folder")
    files.incoming().joinpath("part-x").write_bytes(b"half")
    assert (list(samples.here()), list(files.here())) == ([SAMPLES], [DIGEST])


def test_a_use_is_noted_on_the_copy_and_its_age_stays(objects, files):
    put(files)
    old = time.time() - 7200
    os.utime(files.path(DIGEST), (old, old))
    files.find(DIGEST)
    known = files.path(DIGEST).stat()
    assert known.st_atime > old + 3600
    assert known.st_mtime == pytest.approx(old, abs=1)


@pytest.mark.parametrize("digest", ["../x", "", "A" * 64])
def test_only_a_hash_is_ever_a_key(objects, samples, files, digest):
    for ask in (files.find, files.facts, samples.find, samples.facts, samples.fetch):
        with pytest.raises(UsageError):
            ask(digest)
    assert objects.asked == []
