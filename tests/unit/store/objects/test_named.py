"""An object store held against the records, and all of it brought back."""

import hashlib

import pytest
from tests.unit.store.objects.setups import keys, measured

from assay.clock import SYSTEM_CLOCK
from assay.errors import StoreError
from assay.store.artefacts import Artefacts
from assay.store.objects import transfer
from assay.store.objects.transfer import FetchReport, fetch_all, named, only_there, verify, wanted


@pytest.fixture
def sent(store, left):
    """A store with a campaign of two runs whose files were sent; its job."""
    campaign, job = measured(store, left, runs=2)
    store.end_campaign(campaign, "done", SYSTEM_CLOCK)
    return job


def verified(store, **how):
    return verify(store.engine, store.backing, store.shelves, **how)


def test_a_whole_store_is_whole(store, sent):
    for content in (False, True):
        found = verified(store, content=content)
        assert (found.named, found.in_objects, found.waiting, found.missing, found.damaged, found.unnamed) == (
            3,
            3,
            (),
            (),
            (),
            0,
        )


def test_every_kind_of_flaw_is_distinguished(store, place, sent):
    first, second = store.runs(sent)
    waiting, missing = store.samples.key(first.samples), store.samples.key(second.samples)
    (answers,) = {digest for run in (first, second) for digest in run.files.values()}
    (place / waiting).unlink()
    (place / missing).unlink()
    store.samples.path(second.samples).unlink()
    (place / store.artefacts.key(answers)).write_bytes(b"FORTY-TWO")
    (place / "samples" / "00").mkdir(exist_ok=True)
    (place / "samples" / "00" / "stranger").write_bytes(b"x")
    found = verified(store)
    assert (found.waiting, found.missing, found.damaged, found.unnamed) == ((waiting,), (missing,), (), 1)
    assert store.backing.outbox.waits("samples", first.samples)
    assert verified(store, content=True).damaged == (store.artefacts.key(answers),)
    assert not (place / store.artefacts.key(answers)).exists()  # a whole one is here, and goes there next
    (place / store.artefacts.key(answers)).write_bytes(b"short")
    assert verified(store).damaged == (store.artefacts.key(answers),)


def test_everything_comes_back(store, place, sent):
    for shelf in store.shelves.values():
        for digest in list(shelf.here()):
            shelf.path(digest).unlink()
    assert only_there(store.engine, store.shelves) == 3
    told = []
    assert fetch_all(store.engine, store.shelves, told.append) == FetchReport(3)
    assert sorted(told) == keys(place)
    assert only_there(store.engine, store.shelves) == 0
    run = store.runs(sent)[0]
    (place / store.samples.key(run.samples)).unlink()
    store.samples.path(run.samples).unlink()
    assert fetch_all(store.engine, store.shelves, told.append) == FetchReport(0, (store.samples.key(run.samples),))


def test_what_is_damaged_does_not_keep_the_rest_from_coming_back(store, place, sent):
    for shelf in store.shelves.values():
        for digest in list(shelf.here()):
            shelf.path(digest).unlink()
    key = store.samples.key(store.runs(sent)[0].samples)
    (place / key).write_bytes(b"other")
    assert fetch_all(store.engine, store.shelves, lambda _: None) == FetchReport(2, (), (key,))


def test_a_damaged_object_is_replaced_by_a_whole_file_of_this_machine_and_by_no_other(store, place, sent, monkeypatch):
    monkeypatch.setattr(transfer, "_SMALL", 0)  # as for large files: what is there with the right size is not sent
    first, second = (run.samples for run in store.runs(sent))
    whole = (place / store.samples.key(first)).read_bytes()
    for digest in (first, second):
        (place / store.samples.key(digest)).write_bytes(whole[::-1])
    store.samples.path(second).write_bytes(b"damaged here too")
    found = verified(store, content=True)
    assert set(found.damaged) == {store.samples.key(first), store.samples.key(second)}
    assert found.replaced == (store.samples.key(first),)
    store.work_off()
    assert (place / store.samples.key(first)).read_bytes() == whole
    assert verified(store, content=True).damaged == (store.samples.key(second),)


def test_nothing_is_said_about_a_store_that_is_away(store, place, sent):
    place.rename(place.with_name("away"))
    with pytest.raises(StoreError):
        verified(store)


def test_an_upload_is_named_until_it_becomes_samples(store, clock, sent):
    content = b"an input of jobs"
    digest = hashlib.sha256(content).hexdigest()
    with store.artefacts.begin() as upload:
        upload.write(content)
        upload.keep()
    artefacts = Artefacts(store.engine, clock)
    artefacts.note(digest, "input", len(content))
    samples = store.runs(sent)[0].samples
    artefacts.note(samples, "samples", 1)
    found = named(store.engine)
    assert found["artefacts"][digest] == len(content)
    assert samples in found["samples"]
    assert samples not in found["artefacts"]
    with store._reading() as session:
        asked = {digest, samples, "0" * 64}
        assert wanted(session, store.samples, "artefacts", asked) == {digest}
        assert wanted(session, store.samples, "samples", asked) == {samples}


def test_many_files_are_requested_in_parts(store, sent):
    asked = {f"{number:064x}" for number in range(3000)} | {store.runs(sent)[0].samples}
    with store._reading() as session:
        assert wanted(session, store.samples, "samples", asked) == {store.runs(sent)[0].samples}
