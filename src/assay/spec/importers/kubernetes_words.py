"""References to variables in the words of a container, `$(NAME)`, as Kubernetes puts their values in."""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$\$|\$\(([-._A-Za-z0-9]+)\)")


def expanded(text: str, values: Mapping[str, str]) -> str:
    """A text with the values of variables put in; `$$` stands for a dollar, and what is not known stays as it is.

    Args:
        text: a word of a command, or the value of a variable.
        values: variable → what is put in.
    """
    return _REFERENCE.sub(lambda match: _value(match, values), text)


def _value(match: re.Match[str], values: Mapping[str, str]) -> str:
    return "$" if match[1] is None else values.get(match[1], match[0])
