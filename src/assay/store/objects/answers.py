"""What a library says went wrong with a bucket, in few words: what the server answered, or why it did not."""

from __future__ import annotations

import re
from dataclasses import dataclass

_STATUS = re.compile(r"status code: (\d{3})(?: ([A-Za-z -]+))?")
_CODE = re.compile(r"<Code>([^<]{1,100})</Code>")
_MESSAGE = re.compile(r"<Message>([^<]{1,300})</Message>")
_ASKED = re.compile(r"performing [A-Z]+ (https?://[^/\s?]+)")
# Below what the library says in a line it draws its own insides; the reason is the last text in there.
_INSIDES = "\n\nDebug source"
_REASON = re.compile(r'(?:message|error): "([^"]{1,200})"')
# Such as `InvalidCertificate( UnknownIssuer, )`.
_TLS = re.compile(r"error: (Invalid\w+)\(\s*(\w+)")
_LONGEST = 300
# Where the identity of a machine or container is asked for: nobody is there when this is none.
_IDENTITY = ("169.254.169.254", "169.254.170.2", "169.254.170.23")
# Answers that another try may change: too slow, too often.
_PASSING = (408, 429)


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a request that failed."""

    status: int | None
    """Of HTTP; None when nobody answered."""
    code: str
    """Of S3, such as `NoSuchBucket`; empty when none was told."""
    said: str
    server: str
    """Who was asked, such as `http://127.0.0.1:9000`; empty when not told."""

    @property
    def has_no_bucket(self) -> bool:
        return self.code == "NoSuchBucket"

    @property
    def has_no_credentials(self) -> bool:
        """Whether nobody was found who could tell credentials."""
        return any(f"//{one}" in self.server for one in _IDENTITY)

    @property
    def is_refusal(self) -> bool:
        """Whether the server understood and will not, so that asking again is of no use."""
        return self.status is not None and 300 <= self.status < 500 and self.status not in _PASSING


def read_answer(text: str) -> Answer:
    """Read an error of the library."""
    line, _, insides = text.partition(_INSIDES)
    status, code, message, server = (found.search(line) for found in (_STATUS, _CODE, _MESSAGE, _ASKED))
    if status is not None:
        told = [f"{status[1]} {status[2] or ''}".strip(), code[1] if code else "", message[1] if message else ""]
        said = ": ".join(part for part in told if part)
    else:
        said = _reason(insides) or line.rpartition(" - ")[2].removeprefix("HTTP error: ")
    return Answer(
        int(status[1]) if status else None,
        code[1] if code else "",
        " ".join(said.split())[:_LONGEST],
        server[1] if server else "",
    )


def _reason(insides: str) -> str:
    """Why nobody answered, as far as the library's insides tell; else empty."""
    if tls := _TLS.search(insides):
        return f"{tls[1]}: {tls[2]}"
    reasons = _REASON.findall(insides)
    return str(reasons[-1]) if reasons else ""
