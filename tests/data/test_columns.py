import pytest

from stakes.data.columns import find_columns, first_repeated
from stakes.data.csv_files import parse_delimited
from stakes.data.member_columns import chosen_columns, member_columns, without_coordinates
from stakes.errors import SettingError, TableError, did_you_mean, listed


class Compared(str):
    """A name that counts how often it is compared; those of a dictionary or a set seldom are."""

    __slots__ = ()
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return str.__eq__(self, other)  # type: ignore[arg-type]

    __hash__ = str.__hash__

    def lower(self) -> "Compared":
        return Compared(str(self).lower())


NAMES = [Compared(f"m{place}") for place in range(1000)]


def test_names_are_looked_up_not_searched() -> None:
    Compared.times = 0
    assert find_columns(NAMES, NAMES) == list(range(1000))
    assert chosen_columns(NAMES, NAMES, "'a.csv'") == NAMES
    assert member_columns(NAMES, "'a.csv'") == NAMES
    assert without_coordinates([*NAMES, "lat"]) == (NAMES, ("taken as coordinates and left out: lat",))
    assert first_repeated(NAMES) is None
    assert Compared.times < 50 * len(NAMES)


def test_the_first_that_is_there_twice() -> None:
    assert first_repeated(["a", "b", "b", "a"]) == "b"
    with pytest.raises(SettingError, match="there is no column 'c'; there are a, b"):
        find_columns(["a", "c"], ["a", "b"])


def test_a_table_with_too_many_columns_is_refused() -> None:
    header = ",".join(f"c{place}" for place in range(100_001))
    row = ",".join(["1"] * 100_001)
    with pytest.raises(TableError, match="has 100,001 columns, expected at most 100,000; cases and times are rows"):
        parse_delimited(f"{header}\n{row}\n".encode(), "'a.csv'")


def test_near_names_are_looked_for_among_few(monkeypatch: pytest.MonkeyPatch) -> None:
    many = [f"c{place}" for place in range(20_000)]
    monkeypatch.setattr("stakes.errors.get_close_matches", lambda *_, **__: pytest.fail("takes minutes"))
    assert did_you_mean("C19999", many) == "did you mean 'c19999'?"
    assert did_you_mean("cc", many).endswith("c48, c49 and 19,950 more")
    assert did_you_mean("c" * 5000, ["d"]) == "there are d"
    assert listed(["a", "b"]) == "a, b"
