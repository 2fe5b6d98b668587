"""Tokens: who may use the server, and for what. Only hashes of the secrets are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from dataclasses import dataclass
from typing import Literal

from sqlalchemy import Engine, delete, func, select, update
from sqlalchemy.orm import Session

from assay.clock import Clock
from assay.errors import UsageError
from assay.store.database import TableAccess, insert_into, record_from
from assay.store.tables import ServerFactRow, TokenRow

Role = Literal["admin", "user", "reader", "agent"]
ROLES: tuple[Role, ...] = ("admin", "user", "reader", "agent")

# Shows in logs and on screens what it is, so that scanners find one that leaked.
PREFIX = "assay_"
# A revoked token works for at most this long on another server that shares the database.
TRUST_S = 5.0
_NOTE_USE_EVERY_S = 60.0
# The fact that tokens are or were in use.
_USED = "tokens-used"


@dataclass(frozen=True, slots=True)
class Token:
    """A right to use the server, without its secret."""

    id: str
    name: str
    role: Role
    created_at: float
    expires_at: float | None
    last_used: float | None


class TokenStore(TableAccess):
    def __init__(self, engine: Engine, clock: Clock) -> None:
        super().__init__(engine, clock)
        self._lock = threading.Lock()
        self._trusted: dict[str, tuple[float, Token]] = {}

    def create(self, name: str, role: str, expires_in_s: float | None = None) -> tuple[Token, str]:
        """Make a token; the secret is returned here and never again."""
        secret = PREFIX + secrets.token_urlsafe(32)
        return self.adopt(secret, name, role, expires_in_s), secret

    def adopt(self, secret: str, name: str, role: str, expires_in_s: float | None = None) -> Token:
        """Keep a token with a chosen secret; one that is known takes the new name and role."""
        if role not in ROLES:
            raise UsageError(f"there is no role {role!r}", code="role", try_=f"use one of {', '.join(ROLES)}")
        if not name.strip():
            raise UsageError("a token needs a name", code="name", try_="name who or what will use it")
        now = self._now()
        with self._writing() as session:
            row = session.scalars(select(TokenRow).where(TokenRow.hash == _hash(secret))).one_or_none()
            if row is None:
                row = TokenRow(id="t" + secrets.token_hex(6), hash=_hash(secret), created_at=now, last_used=None)
                session.add(row)
            row.name, row.role = name.strip(), role
            row.expires_at = None if expires_in_s is None else now + expires_in_s
            session.flush()
            _note_use(session)
            self._forget()
            return record_from(Token, row)

    def verify(self, secret: str) -> Token | None:
        """The token that a secret belongs to; None when there is none, or it has run out."""
        digest, now = _hash(secret), self._now()
        with self._lock:
            until, trusted = self._trusted.get(digest, (0.0, None))
        if trusted is not None and now < until:
            return trusted if _is_valid(trusted, now) else None
        row = self._scalar(select(TokenRow).where(TokenRow.hash == digest))
        token = record_from(Token, row) if row is not None and hmac.compare_digest(row.hash, digest) else None
        if token is None or not _is_valid(token, now):
            return None
        with self._lock:
            self._trusted[digest] = (now + TRUST_S, token)
        if token.last_used is None or now - token.last_used > _NOTE_USE_EVERY_S:
            with self._writing() as session:
                session.execute(update(TokenRow).where(TokenRow.id == token.id).values(last_used=now))
        return token

    def list(self) -> tuple[Token, ...]:
        rows = self._scalars(select(TokenRow).order_by(TokenRow.created_at, TokenRow.id))
        return tuple(record_from(Token, row) for row in rows)

    def count(self) -> int:
        return self._scalar(select(func.count()).select_from(TokenRow)) or 0

    def were_used(self) -> bool:
        """Whether there is a token, or ever was one: revoking the last one must not open a server."""
        with self._reading() as session:
            return session.get(ServerFactRow, _USED) is not None or bool(session.scalar(select(TokenRow.id).limit(1)))

    def note_use(self) -> None:
        """Remember that this server asked for a token, also when that one is not kept here."""
        if not self.were_used():
            with self._writing() as session:
                _note_use(session)

    def revoke(self, token_id: str) -> None:
        with self._writing() as session:
            gone = session.execute(delete(TokenRow).where(TokenRow.id == token_id))
            if not gone.rowcount:  # type: ignore[attr-defined]
                raise UsageError(f"no token {token_id!r}", code="unknown-token")
            _note_use(session)
        self._forget()

    def _forget(self) -> None:
        with self._lock:
            self._trusted.clear()


def _note_use(session: Session) -> None:
    session.execute(insert_into(session, ServerFactRow).values(name=_USED, value="yes").on_conflict_do_nothing())


def _hash(secret: str) -> str:
    # The secret has 256 random bits: it cannot be guessed, so a plain hash protects it as well as a slow one.
    return hashlib.sha256(secret.encode(errors="surrogatepass")).hexdigest()


def _is_valid(token: Token, now: float) -> bool:
    return token.expires_at is None or now < token.expires_at
