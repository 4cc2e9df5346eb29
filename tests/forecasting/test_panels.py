"""Many series in one long table: from the table to a decision for each, in Python and by the commands."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from refusals import refuses

from stakes import PanelForecaster, load_panel, save_panel
from stakes.cli import ALARM, main
from stakes.cost_spec.spec import CostSpec
from stakes.data.tables.panels import Panel, PanelLayout
from stakes.errors import CostError, SettingError, StakesError, TableError
from stakes.forecasting.panels import decide_cases, money

COST = "newsvendor:underage=@margin,overage=@waste,unit=EUR"
LAYOUT: dict[str, Any] = {
    "target": "demand",
    "series": ["shop", "item"],
    "time": "date",
    "lags": ["0d", "6d"],
    "windows": ["7d"],
    "leads": ["1d"],
    "known": ["promotion"],
    "categorical": ["item"],
    "calendar": ["weekday"],
}
DAYS = 120


def sales(shops: int = 6, days: int = DAYS, seed: int = 0, counts: bool = False) -> pd.DataFrame:
    """Shops of different sizes, with a week, promotions that double the demand, and a margin and a waste of each."""
    random = np.random.default_rng(seed)
    dates = pd.date_range("2024-01-01", periods=days)
    parts = []
    for shop in range(shops):
        for item in ("bread", "cake"):
            size = (0.3 if counts else 5.0) * 2.0**shop * (1 if item == "bread" else 0.5)
            promotion = (random.random(days) < 0.1).astype(float)
            mean = size * (1 + 0.3 * np.sin(2 * np.pi * np.arange(days) / 7)) * (1 + promotion)
            demand = random.poisson(mean).astype(float) if counts else mean * random.gamma(25, 1 / 25, days)
            own = {"shop": f"s{shop}", "item": item, "date": dates, "demand": demand, "promotion": promotion}
            parts.append(pd.DataFrame({**own, "margin": 1.0 + shop, "waste": 2.0 if item == "cake" else 0.5}))
    return pd.concat(parts, ignore_index=True)


@pytest.fixture(scope="module")
def fitted() -> PanelForecaster:
    return _fit(sales())


def _fit(table: Any, cost: str = COST, **others: Any) -> PanelForecaster:
    settings = {"model": "linear", "members": 50, **others}
    layout = {name: settings.pop(name, value) for name, value in LAYOUT.items()}
    return PanelForecaster(cost, **layout, **settings).fit(table)


def _layout(**others: Any) -> PanelLayout:
    made: dict[str, Any] = {"series": ("shop", "item"), "target": "demand", "time": "date", "lags": (0.0, 144.0)}
    return PanelLayout(**{**made, "leads": (24.0,), "windows": (168.0,), "known": ("promotion",), **others})


def _cases(table: pd.DataFrame, **others: Any) -> tuple[Panel, Any]:
    panel = Panel.read(table, _layout(**others))
    return panel, panel.cases(panel.scale(), 0, panel.last + 1)


def test_features_are_those_of_pandas() -> None:
    table = sales(3)
    panel, cases = _cases(table)
    grouped = table.sort_values(["shop", "item", "date"]).groupby(["shop", "item"])["demand"]
    expected = {
        "demand@0h": grouped.shift(1),
        "demand@-144h": grouped.shift(7),
        "demand mean 168h": grouped.transform(lambda own: own.shift(1).rolling(7, min_periods=1).mean()),
        "demand season": grouped.transform(lambda own: sum(own.shift(7 * k).fillna(0) for k in range(1, 5)))
        / grouped.transform(lambda own: sum(own.shift(7 * k).notna() for k in range(1, 5))),
    }
    for place, (name, values) in enumerate(expected.items()):
        assert panel.layout.feature_names[place] == name
        np.testing.assert_allclose(cases.features[:, place] * cases.level, values, rtol=2e-5, err_msg=name)
    np.testing.assert_allclose(cases.features[:, panel.layout.feature_names.index("promotion")], table["promotion"])


def test_nothing_that_is_reported_after_the_issue_time_is_seen() -> None:
    table, day = sales(2), pd.Timestamp("2024-03-01")
    _, before = _cases(table, leads=(48.0,), reported_after=24.0, lags=(24.0, 144.0))
    changed = table.assign(demand=np.where(table["date"] > day, 1000.0 + table["demand"], table["demand"]))
    panel, after = _cases(changed, leads=(48.0,), reported_after=24.0, lags=(24.0, 144.0))
    scale = Panel.read(table, panel.layout).scale()
    seen = panel.times(before.step) <= day + pd.Timedelta(days=3)  # issued two days before, reports one day older
    own = panel.cases(scale, 0, panel.last + 1)
    np.testing.assert_array_equal(before.features[seen], own.features[seen])
    np.testing.assert_array_equal(before.level[seen], own.level[seen])
    next_day = panel.times(before.step) == day + pd.Timedelta(days=4)
    assert (before.features[next_day] != own.features[next_day]).any()
    assert len(after) == len(own)


def test_gaps_masks_and_late_starts_leave_out_their_own_values_only() -> None:
    table = sales(2)
    late = (table["shop"] == "s1") & (table["date"] < "2024-02-01")
    gap = (table["shop"] == "s0") & (table["date"] == "2024-03-03")
    table = table[~(late | gap)].assign(open=lambda own: (own["date"].dt.day_of_week != 6).astype(float))
    table.loc[table["open"] == 0, "demand"] = 0.0
    panel, cases = _cases(table, mask="open")
    days = pd.DatetimeIndex(panel.times(cases.step))
    assert (days.day_of_week != 6).all()
    assert len(cases) == int(table["open"].sum())
    monday = days.day_of_week == 0
    assert np.isnan(cases.features[monday, 0]).all()  # the day before, a Sunday
    assert np.isfinite(cases.features[~monday & (days > "2024-02-12"), 1]).all()


def test_every_series_gets_its_own_order(fitted: PanelForecaster) -> None:
    orders = fitted.decide(sales(), last=True)
    assert len(orders) == 12
    assert (orders["date"] == pd.Timestamp("2024-04-30")).all()
    assert orders["certified"].all()
    evaluation = fitted.evaluation_
    assert evaluation is not None
    table = evaluation.table.set_index("decided by")["mean cost"]
    assert table["forecast"] < 0.9 * table["the level with pooled errors"]
    share = (evaluation.cases["outcome"] <= evaluation.cases["action"]).groupby(evaluation.cases["series"]).mean()
    assert share["s5/bread"] > 0.75 > 0.7 > share["s0/cake"]  # prices of 6 : 0.5 and 1 : 2
    assert 0.8 < evaluation.cases["expected_cost"].mean() / table["forecast"] < 1.2


def test_orders_do_not_depend_on_their_company_or_on_the_kind_of_table(fitted: PanelForecaster) -> None:
    table = sales()
    every = fitted.decide(table, last=True).set_index(["shop", "item"])
    one = fitted.decide(table[table["shop"] == "s3"].iloc[::-1], last=True).set_index(["shop", "item"])
    np.testing.assert_allclose(one["action"], every.loc[one.index, "action"], rtol=1e-6)
    views = pa.schema([(name, pa.string_view()) for name in ("shop", "item")])
    arrow = pa.Table.from_pandas(table, preserve_index=False)
    for place, name in enumerate(("shop", "item")):  # as polars has words
        arrow = arrow.set_column(place, name, arrow[name].cast(views.field(name).type))
    by_arrow = fitted.decide(arrow, last=True)
    assert isinstance(by_arrow, pa.Table)
    pd.testing.assert_frame_equal(by_arrow.to_pandas().set_index(["shop", "item"]), every, check_dtype=False)
    polars = pytest.importorskip("polars")
    by_polars = fitted.decide(polars.from_pandas(table), last=True)
    assert isinstance(by_polars, polars.DataFrame)
    pd.testing.assert_frame_equal(by_polars.to_pandas().set_index(["shop", "item"]), every, check_dtype=False)


def test_keys_that_are_numbers_are_the_same_in_every_file(tmp_path: Path) -> None:
    table = sales(3).assign(shop=lambda own: own["shop"].str[1:].astype(int))
    fit = _fit(table)
    expected = fit.decide(table, last=True)
    table.to_csv(tmp_path / "newest.csv", index=False)
    for other in (tmp_path / "newest.csv", table.astype({"shop": float}), table.astype({"shop": "category"})):
        np.testing.assert_allclose(fit.decide(other, last=True)["action"], expected["action"], rtol=1e-6)
        assert not any("words" in note for note in fit.notes_)
        assert any("promotion are unknown" in note for note in fit.notes_)


def test_past_and_coming_times_of_several_leads() -> None:
    table = sales(3)
    fit = _fit(table, leads=["1d", "2d"])
    ahead = table[table["date"] == table["date"].max()].assign(date=pd.Timestamp("2024-04-30"), demand=np.nan)
    orders = fit.decide(pd.concat([table, ahead]), last=True)
    assert sorted(orders["lead_hours"].unique()) == [24.0, 48.0]
    assert orders.groupby("lead_hours")["date"].unique().tolist() == [
        [pd.Timestamp("2024-04-30")],
        [pd.Timestamp("2024-05-01")],
    ]
    every = fit.decide(table)
    assert every.groupby(["shop", "item", "date", "lead_hours"]).size().max() == 1
    assert every["date"].min() == pd.Timestamp("2024-01-01") + pd.Timedelta(days=9)  # a week and two days of history


def test_a_gap_at_the_end_loses_no_order_and_a_series_that_has_ended_gets_none(fitted: PanelForecaster) -> None:
    table = sales()
    newest = table["date"].max()
    gap = (table["shop"] == "s2") & (table["date"] > newest - pd.Timedelta(days=3))
    ended = (table["shop"] == "s4") & (table["date"] > newest - pd.Timedelta(days=8))
    ahead = table[(table["date"] == newest) & (table["shop"] == "s0")].assign(date=newest + pd.Timedelta(days=1))
    orders = fitted.decide(pd.concat([table[~gap & ~ended], ahead.assign(demand=np.nan)]), last=True)
    assert sorted(set(orders["shop"])) == ["s0", "s1", "s2", "s3", "s5"]
    assert "2 of 12 series have ended" in " ".join(fitted.notes_)


def test_times_between_the_newest_report_and_the_issue_time_move_all_leads() -> None:
    table = sales(3)
    fit = _fit(table, leads=["1d", "2d"], lags=["2d", "6d"], reported_after="2d")
    orders = fit.decide(table, last=True)
    newest = table["date"].max()
    assert sorted((orders["date"] - newest).dt.days.unique()) == [3, 4]
    assert len(orders) == 12


def test_what_is_new_is_said_and_decided_for(fitted: PanelForecaster) -> None:
    table = sales()
    ahead = table[table["date"] == table["date"].max()]
    new = ahead[ahead["shop"] == "s0"].assign(shop="s9", demand=np.nan)
    strange = ahead[(ahead["shop"] == "s1") & (ahead["item"] == "cake")].assign(shop="s8", item="pie", demand=np.nan)
    orders = fitted.decide(pd.concat([table, new, strange]), last=True).set_index(["shop", "item"])
    assert any("3 of 15 series have no outcome yet" in note for note in fitted.notes_)
    assert any("'item'" in note for note in fitted.notes_)
    assert orders.loc[("s9", "bread"), "action"] > orders.loc[("s9", "cake"), "action"] > 0


def test_a_series_whose_errors_are_wilder_has_wider_members() -> None:
    table, random = sales(3), np.random.default_rng(1)
    wild = (table["shop"] == "s1") & (table["item"] == "bread")
    table["demand"] *= np.where(wild, random.gamma(4, 1 / 4, len(table)), 1.0)
    judged = _fit(table).evaluation_
    assert judged is not None
    spread = (judged.cases["spread"] / judged.cases["level"]).groupby(judged.cases["series"]).mean()
    assert spread["s1/bread"] > 1.5 * spread.drop("s1/bread").max()


def test_a_table_without_lags_is_forecast_by_what_is_known_beforehand() -> None:
    table = sales(3)
    fit = _fit(table, lags=(), windows=())
    orders = fit.decide(table.assign(promotion=1.0), last=False).merge(
        fit.decide(table.assign(promotion=0.0)), on=["shop", "item", "date"]
    )
    assert (orders["action_x"] > 1.5 * orders["action_y"]).mean() > 0.9


def test_series_of_another_frequency_and_of_few_rows_are_told() -> None:
    table = sales(3)
    weekly = (table["shop"] != "s1") | (table["date"].dt.day_of_week == 0)
    short = (table["shop"] != "s2") | (table["date"] >= "2024-04-28")
    notes = Panel.read(table[weekly & short], _layout()).notes()
    assert any("2 of 6" in note and "24 h" in note for note in notes)
    assert any("2 of 6" in note and "fewer than" in note for note in notes)


def test_a_forecast_of_counts_has_whole_members_and_takes_whole_actions() -> None:
    table = sales(4, counts=True)
    fit = _fit(table, integer=True)
    assert fit.fitted_ is not None
    assert fit.fitted_.state.whole
    panel = fit.read(table)
    cases = panel.cases(fit.fitted_.state.scale, 100, panel.last + 1)
    members = fit.fitted_.sample(cases)
    assert (members >= 0).all()
    assert (members == np.rint(members)).all()
    orders = fit.decide(table, last=True)
    assert (orders["action"] == np.rint(orders["action"])).all()
    real = members + 0.4  # where the best action is no whole number
    spec = CostSpec.parse("newsvendor:underage=3,overage=1")
    whole = decide_cases(spec, real, {}, True)
    tried = np.arange(0, 200.0)
    paid = 3 * np.maximum(real[:, None] - tried[:, None], 0) + np.maximum(tried[:, None] - real[:, None], 0)
    np.testing.assert_allclose(whole.expected_cost, paid.mean(2).min(1), rtol=1e-6)


def test_one_budget_is_shared_by_members_that_are_joint_across_series() -> None:
    random, table = np.random.default_rng(1), sales(3)
    shock = pd.Series(random.normal(1, 0.25, DAYS).clip(0.2), index=pd.date_range("2024-01-01", periods=DAYS))
    table["demand"] *= table["date"].map(shock)  # all shops have good and bad days together
    fit = _fit(table, "allocation:short=@margin,long=@waste,budget=60")
    orders = fit.decide(table, last=True)
    assert orders["action"].sum() <= 60 * (1 + 1e-6)
    assert orders["joint_expected_cost"].nunique() == 1
    fitted, panel = fit.fitted_, fit.read(table)
    assert fitted is not None
    cases = panel.cases(fitted.state.scale, panel.last, panel.last + 1)
    alone = fitted.sample(cases)
    joint = fitted.vectors(alone, fitted.places(panel.key_texts())[cases.series])
    np.testing.assert_allclose(np.sort(joint, axis=0), np.sort(alone.T, axis=0))  # the same members for each series
    assert np.corrcoef(joint.T)[np.triu_indices(6, 1)].mean() > 0.5
    free = _fit(table, "allocation:short=@margin,long=@waste,budget=1000000").decide(table, last=True)
    assert free["action"].sum() > orders["action"].sum()


def test_a_case_counts_by_what_its_errors_cost() -> None:
    table = sales(3)
    panel, cases = _cases(table, parameters=("margin", "waste"))
    weight = money(CostSpec.parse(COST), cases)
    prices = cases.level * (cases.parameters["margin"] + cases.parameters["waste"])
    np.testing.assert_allclose(weight, prices / prices.mean(), rtol=1e-5)
    assert panel.count == 6


def test_the_calendar_is_that_of_its_zone() -> None:
    hours = pd.date_range("2024-03-30", "2024-04-02", freq="h", inclusive="left")
    table = pd.DataFrame({"shop": "a", "item": "b", "date": hours, "demand": 1.0, "promotion": 0.0})
    layout = {"lags": (0.0,), "windows": (), "leads": (1.0,), "calendar": ("hour",)}
    _, utc = _cases(table, **layout)
    _, madrid = _cases(table, **layout, calendar_zone="Europe/Madrid")
    winter, summer = 5, 60  # an hour ahead, then two
    np.testing.assert_allclose(madrid.features[winter, -2:], utc.features[winter + 1, -2:], atol=1e-6)
    np.testing.assert_allclose(madrid.features[summer, -2:], utc.features[summer + 2, -2:], atol=1e-6)


def test_trees_are_saved_and_forecast_the_same(tmp_path: Path) -> None:
    pytest.importorskip("lightgbm")
    table = sales(4)
    table.to_parquet(tmp_path / "sales.parquet")
    words = "--series shop,item --target demand --time date --lags 0d,6d --windows 7d --lead 1d --known promotion"
    fit = ["fit", str(tmp_path / "sales.parquet"), *words.split(), "--cost", COST, "--quiet"]
    assert main([*fit, "--out", str(tmp_path / "shops")]) == 0
    newest = str(tmp_path / "sales.parquet")
    assert main(["decide", str(tmp_path / "shops"), newest, "--out", str(tmp_path / "orders.parquet"), "--last"]) == 0
    orders = pd.read_parquet(tmp_path / "orders.parquet")
    loaded = load_panel(tmp_path / "shops")
    assert loaded.forecaster.fitted_ is not None
    assert loaded.forecaster.fitted_.state.candidate.model in ("linear", "trees")
    again = loaded.forecaster.decide(table, last=True, quantiles=(0.1, 0.5, 0.9))
    np.testing.assert_allclose(orders["action"], again["action"])
    assert main(["evaluate", str(tmp_path / "shops"), newest, "--quiet"]) == 0
    assert main(["decide", str(tmp_path / "shops"), newest, "--out", str(tmp_path / "all.csv"), "--quiet"]) == 0
    assert main(["report", str(tmp_path / "shops"), "--out", str(tmp_path / "page.html")]) == 0
    page = (tmp_path / "page.html").read_text()
    assert "Decisions for 8 series" in page
    assert "s3/bread" in page
    text = (tmp_path / "shops" / "state.json").read_text()
    (tmp_path / "shops" / "state.json").write_text(f"{text} ")
    refuses(StakesError, "state.json", load_panel, tmp_path / "shops")


def test_parts_of_a_folder_are_one_table(tmp_path: Path, fitted: PanelForecaster) -> None:
    table = sales()
    for shop, own in table.groupby("shop"):
        (tmp_path / f"shop={shop}").mkdir()
        own.drop(columns="shop").to_parquet(tmp_path / f"shop={shop}" / "part.parquet")
    orders = fitted.decide(tmp_path, last=True)
    expected = fitted.decide(table, last=True)
    np.testing.assert_allclose(orders["action"], expected["action"])


@pytest.mark.parametrize(
    ("change", "others", "error", "said"),
    [
        (lambda table: pd.concat([table, table.iloc[[5]]]), {}, TableError, "'s0/bread' has two rows of 2024-01-06"),
        (
            lambda table: table.assign(date=table["date"] + pd.to_timedelta((table["shop"] == "s1") * 7, unit="h")),
            {},
            TableError,
            "mixed frequencies",
        ),
        (lambda table: table.assign(margin=np.nan), {}, TableError, "'margin'"),
        (lambda table: table.assign(waste=-1.0), {}, TableError, "'waste'"),
        (lambda table: table.drop(columns="margin"), {}, TableError, "'margin'"),
        (lambda table: table.groupby(["shop", "item"]).head(2), {}, TableError, "expected at least 20"),
        (
            lambda table: table.assign(code=np.arange(len(table)).astype(str)),
            {"categorical": ["code"]},
            TableError,
            "'code'",
        ),
        (lambda table: table, {"leads": ["5h"]}, SettingError, "lead.* must be a multiple of the step"),
        (lambda table: table, {"leads": ["0d"]}, SettingError, "lead"),
        (lambda table: table, {"leads": ["400d"]}, SettingError, "leads"),
        (lambda table: table, {"lags": ["0d"], "reported_after": "1d"}, SettingError, "lags.*reported_after"),
        (
            lambda table: table.assign(demand="many"),
            {},
            TableError,
            "'demand' must hold numbers, got 'many' in data row 1",
        ),
        (lambda table: table.assign(date="1 May 2024"), {}, TableError, "'date'.* got '1 May 2024' in data row 1"),
        (lambda table: table.drop(columns="shop"), {}, TableError, "'shop'"),
        (lambda table: table.rename(columns={"demand": "Demand"}), {}, TableError, "did you mean 'Demand'"),
        (lambda table: table, {"calendar_zone": "Europe/Atlantis"}, SettingError, "calendar_zone"),
        (lambda table: table, {"cost": "imbalance:short=@margin,long=1,upper=9,cvar_level=0.9"}, CostError, "column"),
        (lambda table: table, {"cost": "schedule:short=2,long=1"}, CostError, "only allocation"),
    ],
)
def test_bad_tables_are_refused_in_one_line(
    change: Any, others: dict[str, Any], error: type[StakesError], said: str
) -> None:
    said_line = refuses(error, said, _fit, change(sales()), **others)
    assert "\n" not in said_line


def test_flags_of_long_tables_belong_to_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sales(2).to_csv(tmp_path / "sales.csv", index=False)
    start = ["fit", str(tmp_path / "sales.csv"), "--target", "demand", "--time", "date", "--out", str(tmp_path / "out")]
    cost = ["--cost", "newsvendor:underage=3,overage=1"]
    for more, said in (
        (["--windows", "7d", *cost], "--windows is for a long table"),
        (["--series", "shop,item", "--lags", "0d", *cost], "--series needs --lead"),
        (["--series", "shop,item", "--lags", "0d", "--lead", "1d", "--conditioned", *cost], "--conditioned does not"),
        (
            ["--series", "shop,item", "--lags", "0d", "--lead", "1d", "--model", "diffusion", *cost],
            "diffusion does not",
        ),
        (["--lags", "0d", "--lead", "1d", "--cost", COST], "without --series, has two rows"),
        (["--cost", COST], "@margin needs --lead"),
    ):
        assert main([*start, *more]) != 0
        assert said in capsys.readouterr().err
    assert not (tmp_path / "out" / "bundle.json").exists()


def test_a_table_of_one_series_has_prices_of_each_row_and_words(tmp_path: Path) -> None:
    table = sales(5)
    one = table[(table["shop"] == "s4") & (table["item"] == "bread")].drop(columns=["shop", "item"])
    one = one.assign(margin=np.where(np.arange(len(one)) % 2, 9.0, 0.1), day=one["date"].dt.day_name())
    one.to_csv(tmp_path / "one.csv", index=False)
    data, folder, orders = (str(tmp_path / name) for name in ("one.csv", "one", "orders.csv"))
    words = "--target demand --lags 0d,6d --lead 1d --categorical day --model linear --quiet"
    assert main(["fit", data, *words.split(), "--cost", COST, "--out", folder]) == 0
    assert main(["decide", folder, data, "--out", orders, "--quiet"]) == 0
    decided = pd.read_csv(orders)
    assert set(decided["margin"]) == {9.0, 0.1}
    dear, cheap = (decided.loc[decided["margin"] == price, "action"].mean() for price in (9.0, 0.1))
    assert dear > 1.2 * cheap
    python = PanelForecaster(
        COST, target="demand", series=None, lags=["0d", "6d"], leads="1d", categorical=["day"], model="linear"
    )
    again = python.fit(one).decide(one)
    np.testing.assert_allclose(again["action"], decided["action"], rtol=1e-5)


def test_a_scale_of_newsvendors_is_kept_by_the_forecast() -> None:
    """A hundred times larger series have a hundred times larger orders: members are scaled by the level."""
    table = sales(3)
    large = table.assign(demand=100 * table["demand"])
    small_orders, large_orders = (_fit(each).decide(each, last=True)["action"] for each in (table, large))
    np.testing.assert_allclose(large_orders, 100 * small_orders, rtol=1e-3)


def test_the_service_answers_for_one_series_by_its_key(tmp_path: Path) -> None:
    testclient = pytest.importorskip("fastapi.testclient")
    from stakes.service.app import create_app
    from stakes.service.server import ServiceSettings
    from stakes.service.sources import open_source

    table = sales(3)
    table.to_parquet(tmp_path / "sales.parquet")
    words = "--series shop,item --target demand --time date --lags 0d,6d --windows 7d --lead 1d --known promotion"
    fit = ["fit", str(tmp_path / "sales.parquet"), *words.split(), "--cost", COST, "--quiet", "--model", "linear"]
    assert main([*fit, "--out", str(tmp_path / "shops")]) == 0
    loaded = load_panel(tmp_path / "shops").forecaster
    app = create_app(open_source(tmp_path / "shops", None, ServiceSettings()))
    with testclient.TestClient(app, base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/series", json={"series": "s1/bread"}).json()
        row = dict(zip(answer["columns"], answer["rows"][0], strict=True))
        orders = loaded.decide(table, last=True).set_index(["shop", "item"])
        assert row["action"] == pytest.approx(orders.loc[("s1", "bread"), "action"], rel=1e-6)
        newer = "date,demand,promotion,margin,waste\n2024-04-30,31,0,9,1\n"
        answer = client.post("/v1/series", json={"series": "s1/bread", "csv": newer}).json()
        row = dict(zip(answer["columns"], answer["rows"][0], strict=True))
        assert row["date"].startswith("2024-05-01")
        assert row["margin"] == 9
        unknown = client.post("/v1/series", json={"series": "s1/bred"})
        assert unknown.status_code == 422
        assert "did you mean 's1/bread'" in unknown.text
        assert client.post("/v1/decide", json={"features": [[1.0]]}).status_code == 422
        assert client.get("/v1/model").json()["targets"] == ["demand"]


def test_flags_that_a_folder_of_many_series_cannot_heed_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sales(2).to_csv(tmp_path / "sales.csv", index=False)
    data, folder = str(tmp_path / "sales.csv"), str(tmp_path / "shops")
    words = "--series shop,item --target demand --time date --lags 0d,6d --lead 1d --model linear --quiet"
    assert main(["fit", data, *words.split(), "--cost", COST, "--out", folder]) == 0
    for line, said in (
        (["evaluate", folder, data, "--block", "3"], "--block is not for a long table"),
        (["decide", folder, data, "--separator", ","], "--separator is not for a long table"),
        (["refit", folder, data, "--forecast", data, "--out", str(tmp_path / "again")], "forecasts itself"),
        (["monitor", folder, data, "--forecast", data], "its newer rows only"),
        (["report", folder, "--series", "s0/bread"], "--out"),
        (["report", folder, "--series", "s0/bred", "--out", str(tmp_path / "s.html")], "did you mean 's0/bread'"),
    ):
        assert main(line) != 0, line
        assert said in capsys.readouterr().err
    cases = tmp_path / "cases.csv"
    assert main(["evaluate", folder, data, "--cases", str(cases), "--json"]) == 0
    assert "cases were part of the fit" in capsys.readouterr().err
    assert set(pd.read_csv(cases)["series"]) == {"s0/bread", "s0/cake", "s1/bread", "s1/cake"}
    dear = ["decide", folder, data, "--cost", "newsvendor:underage=99,overage=1", "--last", "--json"]
    assert main(dear) == 0
    assert "decisions are for" in capsys.readouterr().out


@pytest.mark.usefixtures("workers")
def test_a_fit_is_made_again_watched_and_tested_as_time_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    table = sales(3, days=500)
    table.to_parquet(tmp_path / "all.parquet")
    table[table["date"] < "2025-02-01"].to_parquet(tmp_path / "early.parquet")
    early, data, folder = (str(tmp_path / name) for name in ("early.parquet", "all.parquet", "shops"))
    words = "--series shop,item --target demand --time date --lags 0d,6d --lead 1d --model linear --quiet"
    fit = [*words.split(), "--cost", COST]
    assert main(["fit", early, *fit, "--out", folder]) == 0
    assert main(["refit", folder, data, "--out", str(tmp_path / "again"), "--quiet"]) == 0
    told = capsys.readouterr().out
    assert "newer than the old fit the new forecast" in told
    again, fresh = load_panel(tmp_path / "again"), _fit(table, known=(), windows=(), calendar=(), members=100)
    decided = [each.decide(table, last=True)["action"] for each in (again.forecaster, fresh)]
    np.testing.assert_allclose(*decided, rtol=1e-6)
    assert main(["monitor", folder, early, "--quiet"]) == 0
    assert "no new case" in capsys.readouterr().out
    assert main(["monitor", folder, data, "--quiet"]) == 0
    later = (table["date"] >= "2025-02-01") & (table["date"].dt.day % 2 == 0)
    wrong = table.assign(demand=np.where(later, 3.0, 1.0) * table["demand"])
    wrong.to_parquet(tmp_path / "wrong.parquet")
    assert main(["monitor", folder, str(tmp_path / "wrong.parquet"), "--quiet"]) == ALARM
    backtest = ["backtest", data, *fit, "--origins", "2", "--out", str(tmp_path / "backtest")]
    assert main(backtest) == 0
    first = (tmp_path / "backtest" / "origin-1.parquet").stat().st_mtime_ns
    assert main(backtest) == 0  # all is there already
    assert (tmp_path / "backtest" / "origin-1.parquet").stat().st_mtime_ns == first
    rows = pd.read_csv(tmp_path / "backtest" / "table.csv")
    assert main([*backtest[:-1], str(tmp_path / "apart"), "--engine", "processes", "--workers", "2"]) == 0
    here, apart = (pd.read_parquet(tmp_path / name / "origin-2.parquet") for name in ("backtest", "apart"))
    pd.testing.assert_frame_equal(here, apart)
    assert rows["origin"].tolist() == ["1", "1", "2", "2", "all", "all"]
    assert rows["last"][0] < rows["first"][2]


def test_a_fit_of_python_is_saved_and_every_command_goes_on_from_it(tmp_path: Path, fitted: PanelForecaster) -> None:
    table = sales()
    table.to_parquet(tmp_path / "sales.parquet")
    folder = str(save_panel(tmp_path / "shops", fitted))
    loaded = load_panel(folder).forecaster
    pd.testing.assert_frame_equal(loaded.decide(table, last=True), fitted.decide(table, last=True))
    page = tmp_path / "bread.html"
    assert main(["report", folder]) == 0
    assert main(["report", folder, "--series", "s3/bread", "--out", str(page)]) == 0
    assert "Decisions for the series s3/bread" in page.read_text()
    orders = tmp_path / "orders"
    assert main(["decide", folder, str(tmp_path / "sales.parquet"), "--last", "--out", str(orders)]) == 0
    np.testing.assert_allclose(pd.read_parquet(orders)["action"], fitted.decide(table, last=True)["action"])
    assert main(["decide", folder, str(tmp_path / "sales.parquet"), "--last", "--out", str(orders)]) != 0
    refuses(
        SettingError, "must be fitted", save_panel, tmp_path / "none", PanelForecaster(COST, target="y", leads="1d")
    )


def test_no_result_depends_on_where_parts_are_worked_on(
    fitted: PanelForecaster, workers: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Panel.batches, "__defaults__", (700,))
    table = sales()
    alone = fitted.decide(table), fitted.evaluate(table).cases
    monkeypatch.setattr(fitted, "settings", replace(fitted.settings, engine="processes", workers=2))
    assert len(list(fitted.read(table).parts())) > 1
    for here, apart in zip(alone, (fitted.decide(table), fitted.evaluate(table).cases), strict=True):
        pd.testing.assert_frame_equal(here, apart)
    assert len(workers) == 4  # two for each
    refuses(SettingError, "engine", PanelForecaster, COST, target="demand", leads="1d", engine="cloud")


def test_forecasts_that_are_given_are_decided_for_at_the_prices_of_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random, members = np.random.default_rng(0), [f"m{place}" for place in range(20)]
    table = pd.DataFrame(random.normal(100, 10, (6, 20)), columns=members)
    table = table.assign(date=pd.date_range("2025-01-01", periods=6), margin=[1.0, 9.0] * 3)
    table.to_csv(tmp_path / "members.csv", index=False)
    start = ["decide", "--members", str(tmp_path / "members.csv"), "--columns", "m0:m19", "--quiet", "--cost"]
    decided = {}
    for price in ("@margin", "1", "9"):
        out = tmp_path / f"{price}.csv"
        assert main([*start, f"newsvendor:underage={price},overage=1", "--out", str(out)]) == 0
        decided[price] = pd.read_csv(out)
    own, cheap, dear = (decided[price][["action", "expected_cost"]] for price in ("@margin", "1", "9"))
    pd.testing.assert_frame_equal(own.iloc[::2], cheap.iloc[::2])
    pd.testing.assert_frame_equal(own.iloc[1::2], dear.iloc[1::2])
    assert decided["@margin"]["margin"].tolist() == [1.0, 9.0] * 3
    assert main([*start, "newsvendor:underage=@margin,overage=1", "--reduce", "3"]) != 0
    assert "one cost for all cases" in capsys.readouterr().err
    table.assign(margin=-1.0).to_csv(tmp_path / "members.csv", index=False)
    assert main([*start, "newsvendor:underage=@margin,overage=1"]) != 0
    assert "from 0 on in every row, got -1" in capsys.readouterr().err


def test_forecasts_that_are_given_are_judged_at_the_prices_of_their_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    random, members = np.random.default_rng(0), [f"m{place}" for place in range(20)]
    dates = pd.date_range("2025-01-01", periods=40)
    table = pd.DataFrame(random.normal(100, 10, (40, 20)), columns=members)
    table = table.assign(date=dates, margin=[1.0, 9.0] * 20)
    table.to_csv(tmp_path / "members.csv", index=False)
    seen = random.normal(100, 10, 40)
    pd.DataFrame({"date": dates, "demand": seen, "ours": 105.0}).to_csv(tmp_path / "seen.csv", index=False)
    start = ["evaluate", "--members", str(tmp_path / "members.csv"), "--columns", "m0:m19", "--outcomes"]
    start += [str(tmp_path / "seen.csv"), "--target", "demand", "--baseline-action", "ours", "--quiet", "--cost"]
    judged = {}
    for price in ("@margin", "1", "9"):
        out = tmp_path / f"cases{price}.csv"
        assert main([*start, f"newsvendor:underage={price},overage=1", "--cases", str(out), "--force"]) == 0
        judged[price] = pd.read_csv(out)
    names = ["action", "cost", "expected_cost", "foresight_regret", "today_cost", "climatology_cost"]
    own, cheap, dear = (judged[price][names] for price in ("@margin", "1", "9"))
    pd.testing.assert_frame_equal(own.iloc[::2], cheap.iloc[::2])
    pd.testing.assert_frame_equal(own.iloc[1::2], dear.iloc[1::2])
    for bad, got in ((-1.0, "-1"), (np.nan, "nan")):
        margins = table["margin"].where(table.index != 3, bad)
        table.assign(margin=margins).to_csv(tmp_path / "members.csv", index=False)
        assert main([*start, "newsvendor:underage=@margin,overage=1"]) != 0
        assert f"'margin' must have a number from 0 on in every row, got {got}" in capsys.readouterr().err
    table.to_csv(tmp_path / "members.csv", index=False)
    assert main([*start, "allocation:short=@margin,long=1,budget=9"]) != 0
    assert "prices of each case" in capsys.readouterr().err
