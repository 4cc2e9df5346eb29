import pytest

from stakes.cli.flags import names

NAMES = {
    "": (),
    "a, b": ("a", "b"),
    "a,,b,": ("a", "b"),
    "t2m[0,0], t2m[-1,0],wind": ("t2m[0,0]", "t2m[-1,0]", "wind"),
    '"a,b"': ("a,b",),
    'x, "a, b" ,y': ("x", "a, b", "y"),
    '"say ""no"", or",b': ('say "no", or', "b"),
    'pipe 5",b': ('pipe 5"', "b"),
    '"a" b,c': ('"a" b', "c"),
    "m1:m50,control": ("m1:m50", "control"),
}


@pytest.mark.parametrize("text", NAMES)
def test_names_between_commas(text: str) -> None:
    assert names(text) == NAMES[text]
    assert names(None) == ()
