import re

import pytest

from stakes.data.forecasts.columns import chosen_columns, member_columns, without_coordinates
from stakes.data.tables.files import parse_delimited
from stakes.errors import TableError, did_you_mean, find_columns, first_repeated, listed, names_text


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


HOURS = ["h0", "h1", "h10", "h11", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9"]  # as sorting names leaves them
BESIDE = [f"{name}_h{hour:02}" for hour in range(4) for name in ("load", "forecast")]


def test_a_range_of_numbered_columns_goes_by_the_numbers() -> None:
    assert chosen_columns(["h0:h11"], HOURS, "'a.csv'") == [f"h{hour}" for hour in range(12)]
    assert chosen_columns(["load_h00:load_h03"], BESIDE, "'a.csv'") == BESIDE[::2]
    assert chosen_columns(["f006:f018"], ["f006", "f012", "f018", "f024"], "'a.csv'") == ["f006", "f012", "f018"]
    assert chosen_columns(["load_h00:forecast_h01"], BESIDE, "'a.csv'") == BESIDE[:4]
    assert chosen_columns(["h1:h1"], HOURS, "'a.csv'") == ["h1"]


@pytest.mark.parametrize(
    ("wanted", "columns", "said"),
    [
        ("h00:h03", ["h00", "h01", "h03"], "h01 is followed by h03; if that is meant, write h00:h01,h03"),
        ("h1:h3", ["h1", "h2", "h02", "h3"], "do not count up evenly"),
        ("load_h02:forecast_h01", BESIDE, "'forecast_h01' comes before 'load_h02'"),
    ],
)
def test_ranges_that_mean_nothing_certain(wanted: str, columns: list[str], said: str) -> None:
    with pytest.raises(TableError, match=re.escape(said)):
        chosen_columns([wanted], columns, "'a.csv'")


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


def test_names_that_count_up_are_told_by_the_first_and_the_last() -> None:
    hours = [f"load[h{hour:02}]" for hour in range(24)]
    assert names_text(hours) == "load[h00] ... load[h23] (24)"
    for names in (hours[:6], hours[::-1], hours[:7] + hours[8:], [*hours, "total"]):
        assert names_text(names) == listed(names)
