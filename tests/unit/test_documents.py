from __future__ import annotations

from typing import Annotated, Literal

import pytest
from pydantic import Field, TypeAdapter, ValidationError

from assay.documents import validation_words


@pytest.mark.parametrize(
    ("kind", "value", "words"),
    [
        (int, "8a", "a whole number is needed"),
        (int, 1.5, "a whole number is needed"),
        (float, "fast", "a number is needed"),
        (Annotated[float, Field(allow_inf_nan=False)], float("inf"), "a finite number is needed"),
        (bool, "perhaps", "true or false is needed"),
        (str, 4, "text is needed"),
        (list[int], 4, "a list is needed"),
        (dict[str, int], 4, "a mapping of keys is needed"),
        (Annotated[int, Field(le=65535)], 99999, "it must be 65535 or less"),
        (Annotated[int, Field(ge=1)], 0, "it must be 1 or more"),
        (Annotated[float, Field(gt=0)], 0, "it must be greater than 0"),
        (Literal["any", "pack"], "all", "it must be 'any' or 'pack'"),
        (Annotated[list[int], Field(min_length=1)], [], "at least one is needed"),
        (Annotated[list[int], Field(max_length=1)], [1, 2], "it must have at most 1 item"),
    ],
)
def test_no_words_of_a_library_reach_a_person(kind, value, words):
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(kind).validate_python(value)
    assert validation_words(caught.value.errors()[0]) == words


def test_what_assay_itself_says_stays_as_it_is():
    def refuse(value: str) -> str:
        raise ValueError(f"{value} is not a duration; write 30s")

    from pydantic import AfterValidator

    with pytest.raises(ValidationError) as caught:
        TypeAdapter(Annotated[str, AfterValidator(refuse)]).validate_python("x")
    assert validation_words(caught.value.errors()[0]) == "x is not a duration; write 30s"
