"""Calls that must be refused: by the class of the error and the field it names, in one line."""

from collections.abc import Callable
from typing import Any

import pytest

from stakes.errors import StakesError


def refuses(error: type[BaseException], words: str, call: Callable[..., Any], /, *given: Any, **named: Any) -> str:
    """What is said; `words` are a pattern somewhere in it, as in `pytest.raises`."""
    with pytest.raises(error, match=words or None) as caught:
        call(*given, **named)
    said = str(caught.value)
    assert len(said.splitlines()) == 1 or not issubclass(error, StakesError), said
    return said


def sentence(call: Callable[..., Any], /, *given: Any, **named: Any) -> str:
    """The class of the error and its one line, as files of sentences keep them."""
    with pytest.raises(StakesError) as caught:
        call(*given, **named)
    said = f"{type(caught.value).__name__}: {caught.value}"
    assert len(said.splitlines()) == 1, said
    return said
