"""Recalibrations for a cost whose prices stand in columns: each case is judged and decided at its own."""

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from calls import called, complaint

import stakes
from stakes.artifacts.recalibrations import load_recalibration
from stakes.data.forecasts.forecast_set import ForecastSet
from stakes.service import schemas
from stakes.service.routes import Service
from stakes.service.schemas import RequestError
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source

MEMBERS = [f"m{place}" for place in range(1, 9)]
ASKED = ("--forecast", "m1:m8", "--outcome", "demand", "--lead", "24", "--decision-weights", "none")
PRICES = {"@margin": "own", "1": "cheap", "9": "dear"}


def past(cases: int = 160, seed: int = 0) -> pd.DataFrame:
    """Forecasts that are too low and too narrow, of cases that cost 1 and 9 in turn."""
    random = np.random.default_rng(seed)
    known = random.normal(100, 10, cases)
    table = pd.DataFrame(known[:, None] + 2 * random.normal(size=(cases, 8)), columns=MEMBERS)
    return table.assign(
        date=pd.date_range("2025-01-01", periods=cases),
        demand=known + 5 + 6 * random.normal(size=cases),
        margin=np.resize([1.0, 9.0], cases),
    )


def cost(price: str) -> str:
    return f"newsvendor:underage={price},overage=1,upper=300"


def made(price: str) -> tuple[int, str, str]:
    return called("recalibrate", "past.csv", *ASKED, "--cost", cost(price), "--out", PRICES[price], "--quiet")


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with past.csv and `own`, a recalibration at the price of each case; read it only."""
    folder = tmp_path_factory.mktemp("priced")
    past().to_csv(folder / "past.csv", index=False)
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(folder)
        code, _, errors = made("@margin")
    assert code == 0, errors
    return folder


@pytest.fixture
def here(own: Path, elsewhere: None) -> None:
    """All of it where the test runs."""
    shutil.copytree(own, ".", dirs_exist_ok=True)


@pytest.mark.usefixtures("here")
def test_every_case_is_judged_and_decided_at_its_own_price() -> None:
    past(40, 1).assign(date=pd.date_range("2026-01-01", periods=40)).to_csv("new.csv", index=False)
    told, judged, decided, later = {}, {}, {}, {}
    for price, folder in PRICES.items():
        if folder != "own":
            assert made(price)[0] == 0
        told[folder] = load_recalibration(Path(folder))
        measured = told[folder].judged
        assert measured is not None
        judged[folder] = measured.cases
        assert called("decide", folder, "new.csv", "--out", f"{folder}.csv", "--quiet")[0] == 0
        decided[folder] = pd.read_csv(f"{folder}.csv")
        assert called("evaluate", folder, "new.csv", "--cases", f"{folder}-cases.csv", "--quiet")[0] == 0
        later[folder] = pd.read_csv(f"{folder}-cases.csv")
    names = ["raw_cost", "raw_expected_cost", "foresight_cost", "climatology_cost"]
    margins = past().set_index("date")["margin"].loc[judged["own"]["time"]].to_numpy()
    for every, price in ((0, "cheap"), (1, "dear")):
        rows = judged["own"].index[margins == (1.0, 9.0)[every]]
        pd.testing.assert_frame_equal(judged["own"].loc[rows, names], judged[price].loc[rows, names])
        expected = later[price].loc[every::2, ["raw_cost", "raw_expected_cost", "climatology_cost"]]
        pd.testing.assert_frame_equal(later["own"].loc[every::2, expected.columns], expected)
    assert decided["own"]["margin"].tolist() == [1.0, 9.0] * 20
    assert told["own"].cost_spec.columns == {"underage": "margin"}
    newer = past(60, 2).assign(date=pd.date_range("2026-03-01", periods=60))
    newer.to_csv("newer.csv", index=False)
    assert called("monitor", "own", "newer.csv")[0] == 0
    pd.concat([past(), newer]).to_csv("all.csv", index=False)
    code, output, errors = called("refit", "own", "all.csv", "--out", "again", "--quiet")
    assert code == 0, errors
    assert "newer than the old correction" in output


def test_a_correction_is_selected_and_trained_at_the_prices_of_its_cases() -> None:
    table = past()
    members, outcomes = table[MEMBERS].to_numpy()[:, :, None], table[["demand"]].to_numpy()
    base = stakes.NewsvendorCost(1.0, 1.0, 0.0, 300.0)
    priced = ForecastSet(members, outcomes=outcomes, prices=pd.DataFrame({"underage": table["margin"]}))
    same = ForecastSet(members, outcomes=outcomes, prices=pd.DataFrame({"underage": np.full(len(table), 9.0)}))
    found = stakes.Recalibrator(base, decision_weights=(0.5,)).fit(priced)
    dear = stakes.Recalibrator(base, decision_weights=(0.5,)).fit(same)
    alone = stakes.Recalibrator(stakes.NewsvendorCost(9.0, 1.0, 0.0, 300.0), decision_weights=(0.5,))
    alone.fit(ForecastSet(members, outcomes=outcomes))
    costs = [[each.cost for each in fitted.selection_.candidates] for fitted in (found, dear, alone)]
    assert costs[1] == pytest.approx(costs[2], rel=1e-9)
    assert costs[0] != pytest.approx(costs[1], rel=1e-3)
    new = priced.rows(slice(0, 6))
    state = stakes.Recalibrator(stakes.NewsvendorCost(9.0, 1.0, 0.0, 300.0))
    state.state_ = found.state_
    plain = ForecastSet(members[:6])
    assert found.decide(new)[1::2] == pytest.approx(state.decide(plain)[1::2])
    assert (found.decide(new)[::2] < state.decide(plain)[::2]).all()


@pytest.mark.usefixtures("here")
def test_prices_that_cannot_be_are_refused_in_one_line() -> None:
    for bad, got in ((-1.0, "-1"), (np.nan, "nan")):
        table = past()
        table.assign(margin=table["margin"].where(table.index != 7, bad)).to_csv("past.csv", index=False)
        assert complaint("recalibrate", "past.csv", *ASKED, "--cost", cost("@margin"), "--out", "new") == (
            f"the cost column 'margin' must have a number from 0 on in every row, got {got}"
        )
    past().to_csv("past.csv", index=False)
    assert "profit" in complaint("recalibrate", "past.csv", *ASKED, "--cost", cost("@profit"), "--out", "new")
    past(9).drop(columns="margin").to_csv("new.csv", index=False)
    assert "margin" in complaint("decide", "own", "new.csv")


@pytest.mark.usefixtures("here")
def test_the_service_takes_the_price_of_each_row_by_its_name_or_from_its_column() -> None:
    new = past(4, 1).drop(columns="demand").assign(date=pd.date_range("2026-01-01", periods=4))
    new.to_csv("new.csv", index=False)
    assert called("decide", "own", "new.csv", "--out", "own.csv", "--quiet")[0] == 0
    expected = pd.read_csv("own.csv")
    service = Service(open_source(Path("own"), None, ServiceSettings()))
    known = [{"time": f"{date:%Y-%m-%dT%H:%M}", "lead": 24} for date in new["date"]]
    asked = {"members": new[MEMBERS].to_numpy().tolist(), "known": known}

    def actions(**cost: float | list[float]) -> list[float | list[float] | None]:
        answer = service.decide(schemas.DecideRequest.model_validate({**asked, "cost": cost}))
        return [decision.action for decision in answer.decisions]

    assert actions(underage=[1, 9, 1, 9]) == pytest.approx(expected["action"].tolist())
    assert actions(underage=9)[1::2] == pytest.approx(expected["action"].tolist()[1::2])
    answer = service.table(schemas.TableRequest(csv=new.to_csv(index=False)))
    table = pd.DataFrame(answer.rows, columns=answer.columns)
    assert table["action"].tolist() == pytest.approx(expected["action"].tolist())
    assert table["margin"].tolist() == [1, 9, 1, 9]
    assert {"margin"} <= set(service.model().table_columns)
    for cost, said in (
        ({}, "one number, or one for each of the 4 rows"),
        ({"underage": [1, 9]}, "got 2"),
        ({"underage": -1}, "got -1"),
        ({"underage": 1, "overrage": 2}, "overage"),
    ):
        with pytest.raises(RequestError, match=said):
            actions(**cost)
    with pytest.raises(RequestError, match="leave it out"):
        service.table(schemas.TableRequest(csv="", cost={"underage": 1}))
    case = schemas.CurveRequest.model_validate(
        {"members": asked["members"][0], "known": known[0], "cost": {"underage": 9}}
    )
    assert service.curve(case).curves[0].decision.action == pytest.approx(actions(underage=9)[0])
