"""Tokens: who may use the server, and for what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path

from assay.serve.logs import tell
from assay.serve.web.access import Admin, admins
from assay.serve.web.parameters import State
from assay.serve.web.problems import RequestProblem
from assay.serve.web.records import Listed, TokenInput
from assay.store.tokens import Token

router = APIRouter(prefix="/api/v1/tokens", tags=["tokens"], dependencies=[admins])

_LONGEST_S = 100 * 365 * 86400


@dataclass(frozen=True, slots=True)
class TokenMade:
    """A new token with its secret, which is shown here and never again."""

    token: Token
    secret: str


@router.post("", status_code=201)
def create_token(wish: TokenInput, state: State, by: Admin) -> TokenMade:
    """Make a token; its secret is in this answer and nowhere else."""
    if wish.expires_in_s is not None and not 0 < wish.expires_in_s <= _LONGEST_S:
        raise RequestProblem(
            422, "expires_in_s must be positive and at most a hundred years", code="request", at="expires_in_s"
        )
    if len(wish.name) > 200:
        raise RequestProblem(422, "name has at most 200 characters", code="request", at="name")
    token, secret = state.kept.tokens.create(wish.name, wish.role, wish.expires_in_s)
    tell("token made", token=token.id, name=token.name, role=token.role, by=by.name)
    return TokenMade(token, secret)


@router.get("")
def list_tokens(state: State) -> Listed[Token]:
    """List tokens, without their secrets."""
    return Listed(state.kept.tokens.list())


@router.delete("/{token}", status_code=204)
def revoke_token(token: Annotated[str, Path(max_length=64)], state: State, by: Admin) -> None:
    """Take a token's right away."""
    state.kept.tokens.revoke(token)
    state.forget_tokens()
    tell("token revoked", token=token, by=by.name)
