"""Without the extra, a bucket is refused in words, and a folder works."""

import sys

import pytest

from assay.errors import UsageError
from assay.store.objects.files import open_objects, parse_place
from assay.store.store import Store


def test_a_bucket_names_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(UsageError, match="obstore") as refused:
        open_objects(parse_place("s3://bucket"))
    assert "assay-bench[s3]" in refused.value.problem.try_
    with pytest.raises(UsageError, match="obstore"):
        Store(tmp_path / "store", objects="s3://bucket")
    assert not (tmp_path / "store" / "objects.json").exists()
    Store(tmp_path / "store", objects=str(tmp_path / "objects")).close()
