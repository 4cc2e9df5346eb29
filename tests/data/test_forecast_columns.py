import pytest

from stakes.data.forecasts.columns import forecast_columns
from stakes.errors import TableError

NAME = "'a.csv'"


def test_members_and_quantiles_are_told_by_their_names() -> None:
    members = forecast_columns(["m1", "m2"], NAME, "auto", False)
    assert (members.of_target, members.levels) == ({"outcome": ["m1", "m2"]}, None)
    quantiles = forecast_columns(["q90", "q10", "mean"], NAME, "auto", False)
    assert (quantiles.of_target, quantiles.levels) == ({"outcome": ["q10", "q90"]}, (0.1, 0.9))
    assert quantiles.notes == ("left out beside the quantiles: mean",)
    model = forecast_columns(["NHITS", "NHITS-lo-80", "NHITS-hi-80"], NAME, "auto", False)
    assert (model.of_target, model.levels) == ({"outcome": ["NHITS-lo-80", "NHITS-hi-80"]}, (0.1, 0.9))
    assert model.notes == ("left out beside the quantiles: NHITS",)


def test_the_user_says_what_columns_are() -> None:
    both = ["q1", "q2", "q99"]
    assert forecast_columns(both, NAME, "members", False).levels is None
    assert forecast_columns(both, NAME, "quantiles", False).levels == (0.01, 0.02, 0.99)
    assert forecast_columns(["5", "50", "95"], NAME, "quantiles", False).levels == (0.05, 0.5, 0.95)
    points = forecast_columns(["north", "q10", "m1"], NAME, "points", False)
    assert points.of_target == {"north": ["north"], "q10": ["q10"], "m1": ["m1"]}


def test_members_with_the_names_of_sites_are_told() -> None:
    roles = forecast_columns(["north", "west"], NAME, "auto", False)
    assert roles.of_target == {"outcome": ["north", "west"]}
    assert roles.notes == (
        "the columns north, west are members of one forecast; --read-as points takes each as a site's",
    )
    for columns in (["a", "b"], ["m1", "m2"]):
        assert forecast_columns(columns, NAME, "auto", False).notes == ()
    assert forecast_columns(["north", "west"], NAME, "members", False).notes == ()


def test_a_single_column_is_a_point_forecast() -> None:
    for column in ("mean", "0.5", "power"):
        assert forecast_columns([column], NAME, "auto", False).of_target == {"outcome": [column]}


@pytest.mark.parametrize(
    ("columns", "read_as", "message"),
    [
        (["m1", "m2"], "quantiles", "must have at least two columns that name levels"),
        (["q10", "q90", "m1"], "quantiles", "has the column 'm1', which names no level"),
        (["north_q10", "north_q90", "q10", "q90"], "auto", "for each of north, the columns without a site; --columns"),
        (
            [f"{site}_m{k}" for site in ("b0", "b1", "b2") for k in (1, 2, 3) if (site, k) != ("b1", 3)],
            "auto",
            "must have the same members of each site, got 2 of b1, which has no m3, and 3 of b0, b2; --columns says",
        ),
        (
            ["a_m1", "a_m2", "b_m1", "b_m2", "c_m1", "c_m2", "c_m3"],
            "auto",
            "got 3 of c, which has m3 besides, and 2 of a, b; --columns says",
        ),
        (["mean", "std"], "auto", "has the columns 'mean', 'std', which look like no member"),
        (["min", "middle", "max"], "auto", "has the columns 'min', 'max', which look like no member"),
    ],
)
def test_columns_that_are_not_certain(columns: list[str], read_as: str, message: str) -> None:
    with pytest.raises(TableError, match=message):
        forecast_columns(columns, NAME, read_as, False)  # type: ignore[arg-type]
