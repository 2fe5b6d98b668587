"""E-mail over SMTP: text, HTML and an inline picture; the same message always has the same Message-ID."""

from __future__ import annotations

import hashlib
import re
import smtplib
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from assay.alert.message import PICTURE_ID, Message
from assay.alert.notify.http import certificates
from assay.alert.notify.protocol import REPAIR_S, Channel, Name, NotifyError, Secret, revealed
from assay.report.wording import one_line

_PORTS = {"starttls": 587, "tls": 465, "none": 25}
_ADDRESS = re.compile(r"^[^\s@<>,;:\"]+@[^\s@<>,;:\"]+$")
_LOOPBACK = ("localhost", "127.0.0.1", "::1")
_LONGEST_SUBJECT = 200


def _is_mailbox(value: str) -> str:
    _, address = parseaddr(value)
    if not _ADDRESS.match(address) or "\n" in value or "\r" in value:
        raise ValueError("an e-mail address such as team@example.com or Team <team@example.com> is needed")
    return value


Mailbox = Annotated[str, AfterValidator(_is_mailbox)]


class Email(Channel):
    """People with mailboxes, reached through an SMTP server."""

    kind: Literal["email"]
    host: Name
    """The SMTP server."""
    port: int | None = Field(default=None, ge=1, le=65535)
    """Its port: 587 for starttls, 465 for tls and 25 for none when left out."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is protected; `none` only without a password, or on this machine."""
    user: str | None = None
    """User to log in as; no login when left out."""
    password: Secret | None = None
    """Password of the user."""
    sender: Mailbox = Field(alias="from")
    """Who the mail is from."""
    to: tuple[Mailbox, ...] = Field(min_length=1)
    """Who gets it."""

    @field_validator("to", mode="before")
    @classmethod
    def _one_or_many(cls, value: object) -> object:
        if isinstance(value, str):
            return (value,)
        return tuple(value) if isinstance(value, list) else value

    @model_validator(mode="after")
    def _fits_together(self) -> Email:
        if (self.user is None) != (self.password is None):
            raise ValueError("user and password belong together; only one is given")
        if self.user is not None and self.security == "none" and self.host not in _LOOPBACK:
            raise ValueError("a password is not sent without protection; use security: starttls or tls")
        return self

    def send(self, message: Message) -> str | None:
        """Hand the message to the server, for everybody who did not get it yet."""
        left = tuple(address for address in self.to if address not in message.done)
        if not left:
            return None
        user, password = revealed(self.user or ""), revealed(self.password or "")
        letter = self.letter(message)
        try:
            with self._connection() as server:
                if self.user is not None:
                    server.login(user, password)
                refused = _hand_over(
                    server, letter, parseaddr(self.sender)[1], [parseaddr(address)[1] for address in left]
                )
        except NotifyError:
            raise
        except smtplib.SMTPResponseException as problem:
            raise self._answered(problem) from None
        except ssl.SSLCertVerificationError as problem:
            raise NotifyError(
                f"the certificate of {self.host} is not trusted: {problem.verify_message}",
                after_s=REPAIR_S,
                code="certificate",
                try_="give your authority's certificates with ca: FILE",
            ) from None
        except smtplib.SMTPNotSupportedError as problem:
            raise NotifyError(f"{self.host} cannot do that: {problem}", after_s=REPAIR_S, code="smtp") from None
        except (smtplib.SMTPException, OSError) as problem:
            raise NotifyError(f"{self.host} did not take the mail: {_reason(problem)}", code="connect") from None
        return self._outcome(message, left, refused)

    def letter(self, message: Message) -> EmailMessage:
        letter = EmailMessage()
        letter["Subject"] = one_line(message.subject)[:_LONGEST_SUBJECT]
        letter["From"] = self.sender
        letter["To"] = ", ".join(self.to)
        letter["Date"] = format_datetime(datetime.fromtimestamp(message.at, UTC))
        letter["Message-ID"] = self._id(message.key)
        # Everything about one alert is one conversation; its first message need not have existed for that.
        letter["References"] = self._id(message.alert.id)
        letter["Auto-Submitted"] = "auto-generated"
        letter["X-Assay-Key"] = one_line(message.key)
        letter["X-Assay-Alert"] = one_line(message.alert.id)
        letter.set_content(message.text)
        letter.add_alternative(message.html, subtype="html")
        if (picture := message.picture) is not None:
            page = letter.get_payload()[1]  # type: ignore[index]
            page.add_related(  # type: ignore[union-attr]
                picture, "image", "png", cid=f"<{PICTURE_ID}>", disposition="inline", filename="series.png"
            )
        return letter

    def _id(self, key: str) -> str:
        domain = parseaddr(self.sender)[1].rpartition("@")[2]
        return f"<{hashlib.sha256(key.encode()).hexdigest()[:32]}.assay@{domain}>"

    @contextmanager
    def _connection(self) -> Iterator[smtplib.SMTP]:
        """An open and protected connection, which is cut when the time is over."""
        port = self.port or _PORTS[self.security]
        context = certificates(self.ca) if self.security != "none" else None
        server: smtplib.SMTP
        if self.security == "tls":
            server = smtplib.SMTP_SSL(self.host, port, _own_name(), timeout=self.timeout, context=context)
        else:
            server = smtplib.SMTP(self.host, port, _own_name(), timeout=self.timeout)
        # The limit of the socket is for each step; a server that answers a byte at a time never runs into it.
        guard = threading.Timer(self.timeout, _cut, (server,))
        guard.daemon = True
        guard.start()
        try:
            if self.security == "starttls":
                server.ehlo()
                server.starttls(context=context)
            yield server
        finally:
            guard.cancel()
            _leave(server)

    def _answered(self, problem: smtplib.SMTPResponseException) -> NotifyError:
        answer = f"{self.host} answered {problem.smtp_code}: {_words(problem.smtp_error)}"
        if isinstance(problem, smtplib.SMTPAuthenticationError):
            return NotifyError(
                f"the login failed; {answer}", after_s=REPAIR_S, code="smtp-login", try_="check user and password"
            )
        # 5xx after the data: this mail is not wanted. Before it, the set-up may be wrong.
        final = isinstance(problem, smtplib.SMTPDataError) and problem.smtp_code >= 500
        return NotifyError(answer, retry=not final, after_s=REPAIR_S if problem.smtp_code >= 500 else None, code="smtp")

    def _outcome(self, message: Message, left: tuple[str, ...], refused: dict[str, tuple[int, bytes]]) -> str | None:
        """The failure to report when some of several receivers were refused."""
        if not refused:
            return None
        refusals = "; ".join(f"{who}: {code} {_words(words)}" for who, (code, words) in refused.items())
        later = {who for who, (code, _) in refused.items() if code < 500}
        if not later and (message.done or len(refused) < len(left)):
            return f"refused for {refusals}"
        # Those who were refused for good are done with, once another receiver has taken it.
        open_ = later or set(refused)
        done = tuple(address for address in left if parseaddr(address)[1] not in open_)
        raise NotifyError(
            f"{self.host} refused {refusals}",
            after_s=None if later else REPAIR_S,
            code="smtp",
            done=(*message.done, *done),
        )


def _hand_over(server: smtplib.SMTP, letter: EmailMessage, sender: str, to: list[str]) -> dict[str, tuple[int, bytes]]:
    """Send; return who was refused, with what the server said."""
    try:
        return server.send_message(letter, sender, to)
    except smtplib.SMTPRecipientsRefused as refused:
        return refused.recipients


def _cut(server: smtplib.SMTP) -> None:
    """End a connection that another thread waits on."""
    if server.sock is not None:
        try:
            server.sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            return


def _leave(server: smtplib.SMTP) -> None:
    """Say goodbye; what was taken is taken, whether or not that is answered."""
    try:
        server.quit()
    except (smtplib.SMTPException, OSError):
        server.close()


def _own_name() -> str:
    return re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname()) or "localhost"


def _words(answer: bytes | str) -> str:
    text = answer.decode("utf-8", "replace") if isinstance(answer, bytes) else answer
    return one_line(text)[:200]


def _reason(problem: Exception) -> str:
    if isinstance(problem, TimeoutError):
        return "no answer in time"
    if isinstance(problem, smtplib.SMTPServerDisconnected):
        return "the connection ended"
    return one_line(getattr(problem, "strerror", None) or type(problem).__name__)
