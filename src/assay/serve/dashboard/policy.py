"""What a page of the dashboard may do in a browser: load what this server has, and nothing else."""

from __future__ import annotations

import secrets

# Style elements that scripts make bear the number of the page; scripts come as files alone.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data: blob:; "
    "connect-src 'self'; font-src 'self'; base-uri 'self'; form-action 'none'; frame-ancestors 'none'"
)


def new_nonce() -> str:
    """A number that nobody can guess, for one answer."""
    return secrets.token_urlsafe(18)


def page_headers(nonce: str) -> dict[str, str]:
    """The headers of a page; the others that every answer has are added where all requests pass."""
    return {"Content-Security-Policy": _POLICY.format(nonce=nonce), "Cache-Control": "no-store"}
