import pandas as pd
import pytest

from stakes.data.forecasts.columns import member_sites, site_labels
from stakes.errors import TableError


@pytest.mark.parametrize(
    "columns",
    [
        ["north_m1", "north_m2", "west_m1", "west_m2"],
        ["north_m1", "west_m1", "north_m2", "west_m2"],
        ["north 1", "north 2", "west 1", "west 2"],
        ["north-member_01", "north-member_02", "west-member_01", "west-member_02"],
        ["m1_north", "m2_north", "m1_west", "m2_west"],
        ["1_north", "2_north", "1_west", "2_west"],
    ],
)
def test_sites_in_names(columns: list[str]) -> None:
    sites = member_sites(columns)
    assert list(sites) == ["north", "west"]
    for site, of_site in sites.items():
        assert of_site == sorted(column for column in columns if site in column)


@pytest.mark.parametrize(
    "columns",
    [
        ["m1", "m2"],
        ["member_1", "member_2"],
        ["ens_m1", "ens_m2"],
        ["north_m1", "north_m2"],
        ["north_m1", "north_m2", "west_m1", "west_m3"],
        ["north_m1", "west_m1"],
        ["u1", "u2", "v1", "v2"],
        ["north_m1", "north_m2", "west_m1", "west_m2", "power"],
        ["a", "b"],
    ],
)
def test_names_without_several_sites(columns: list[str]) -> None:
    assert member_sites(columns) is None


def test_a_column_of_sites() -> None:
    table = pd.DataFrame({"Unique_ID": ["a", "b"], "where": [1, 1], "station": ["x", "x"]})
    labels = site_labels(table, None)
    assert (labels.name, labels.tolist()) == ("Unique_ID", ["a", "b"])
    assert site_labels(table[["where", "station"]], None) is None  # one station is a coordinate
    named = site_labels(table, "where")
    assert named.tolist() == ["1", "1"]
    with pytest.raises(TableError, match="site: the table has no column 'place'"):
        site_labels(table, "place")
    with pytest.raises(TableError, match="column 'site' must hold a site in every row, but data row 2 has none"):
        site_labels(pd.DataFrame({"site": ["a", None]}), None)
