from __future__ import annotations

import pytest
from sqlalchemy import text

from assay.errors import UsageError
from assay.store.tokens import TRUST_S, TokenStore


@pytest.fixture
def tokens(fleet, clock):
    return TokenStore(fleet.engine, clock)


def test_a_token_is_known_by_its_secret_alone(tokens):
    token, secret = tokens.create("laptop", "user")
    assert tokens.verify(secret).id == token.id
    assert (token.name, token.role, token.expires_at) == ("laptop", "user", None)
    for wrong in ("", secret[:-1], secret + "x", secret.upper(), token.id, "\ud800"):
        assert tokens.verify(wrong) is None
    assert tokens.create("laptop", "user")[1] != secret


def test_the_secret_is_nowhere_in_the_store(fleet, tokens):
    _, secret = tokens.create("laptop", "admin")
    with fleet.engine.connect() as connection:
        kept = str(connection.execute(text("SELECT * FROM tokens")).all())
    assert secret not in kept
    assert secret.removeprefix("assay_") not in kept
    assert secret not in repr(tokens.list())


def test_a_token_runs_out(tokens, clock):
    _, secret = tokens.create("short", "reader", expires_in_s=10)
    assert tokens.verify(secret) is not None
    clock.pass_s(9)
    assert tokens.verify(secret) is not None
    clock.pass_s(1)
    assert tokens.verify(secret) is None


def test_a_revoked_token_is_refused_here_at_once_and_elsewhere_soon(fleet, tokens, clock):
    token, secret = tokens.create("lost", "admin")
    elsewhere = TokenStore(fleet.engine, clock)
    assert elsewhere.verify(secret) is not None
    assert tokens.verify(secret) is not None
    tokens.revoke(token.id)
    assert tokens.verify(secret) is None
    assert elsewhere.verify(secret) is not None
    clock.pass_s(TRUST_S)
    assert elsewhere.verify(secret) is None
    assert tokens.list() == ()
    with pytest.raises(UsageError) as caught:
        tokens.revoke(token.id)
    assert caught.value.problem.code == "unknown-token"


def test_its_last_use_is_noted_but_not_every_one(fleet, tokens, clock):
    _, secret = tokens.create("laptop", "user")
    tokens.verify(secret)
    first = tokens.list()[0].last_used
    clock.pass_s(30)
    tokens.verify(secret)
    assert tokens.list()[0].last_used == first
    clock.pass_s(31)
    tokens.verify(secret)
    assert tokens.list()[0].last_used == first + 61


def test_a_chosen_secret_is_kept_once(tokens):
    tokens.adopt("from the settings", "settings", "user")
    tokens.adopt("from the settings", "settings", "admin")
    assert tokens.count() == 1
    assert tokens.verify("from the settings").role == "admin"


@pytest.mark.parametrize(("name", "role"), [("x", "root"), (" ", "user")])
def test_a_token_needs_a_name_and_a_role(tokens, name, role):
    with pytest.raises(UsageError):
        tokens.create(name, role)
    assert tokens.count() == 0
