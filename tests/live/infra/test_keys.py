"""Secrets are made once, and only their owner can read them."""

from __future__ import annotations

import re

from assay.infra.record import ROLES, how_to_use, make_keys, token_file


def test_secrets_are_made_once_and_only_their_owner_can_read_them(tmp_path):
    first = make_keys(tmp_path)
    assert make_keys(tmp_path) == first
    files = list((tmp_path / "secrets").iterdir())
    assert len(files) == 5
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    assert token_file(tmp_path, "admin").read_text().strip() == first.admin


def test_secrets_differ_and_can_stand_in_urls_and_files_as_they_are(tmp_path):
    keys = make_keys(tmp_path)
    every = [keys.admin, keys.agent, keys.reader, keys.database, keys.redis]
    assert len(set(every)) == 5
    assert all(re.fullmatch(r"[\w-]{40,}", one) for one in every)
    assert all(token.startswith("assay_") for token in every[:3])
    assert set(keys.tokens) == {f"ASSAY_INFRA_TOKEN_{role.upper()}" for role in ROLES}


def test_a_record_of_secrets_does_not_show_them(tmp_path):
    keys = make_keys(tmp_path)
    assert keys.admin not in repr(keys)
    assert keys.database not in repr(keys)


def test_what_to_do_next_names_the_dashboard_and_never_a_secret(tmp_path):
    keys = make_keys(tmp_path)
    then = how_to_use("http://127.0.0.1:8080", tmp_path)
    assert then["dashboard"].startswith("http://127.0.0.1:8080/ ")
    assert str(token_file(tmp_path, "admin")) in then["measure"]
    assert not any(secret in line for secret in keys.tokens.values() for line in then.values())
