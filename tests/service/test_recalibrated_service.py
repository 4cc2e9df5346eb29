"""A service of a recalibrated forecast: what is posted is corrected, as `stakes decide` corrects a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from refusals import refuses
from user_files import past_forecasts

from stakes.artifacts.recalibrations import load_recalibration
from stakes.data.forecasts.layout import ForecastLayout
from stakes.forecasting.parameters import RecalibratorSettings
from stakes.service import schemas
from stakes.service.routes import Service
from stakes.service.schemas import RequestError
from stakes.service.server import ServiceSettings
from stakes.service.sources import open_source
from stakes.workflows import recalibrate
from stakes.workflows.recalibrate import RecalibrateRequest, run_recalibrate

SETTINGS = ServiceSettings(max_rows=200, max_members=20)


@pytest.fixture
def service(recalibrated: Path) -> Service:
    return Service(open_source(recalibrated, None, SETTINGS))


def rows(count: int = 3) -> list[list[float]]:
    return past_forecasts().filter(regex="^m").to_numpy()[:count].tolist()


def decided(service: Service, **asked: Any) -> list[float]:
    answer = service.decide(schemas.DecideRequest.model_validate({"members": rows(), **asked}))
    return [decision.action for decision in answer.decisions]


def test_members_are_corrected_as_a_file_of_them_is(service: Service, recalibrated: Path) -> None:
    expected = load_recalibration(recalibrated).recalibrator.decide(np.array(rows()))
    assert decided(service) == pytest.approx(expected, rel=1e-9)
    assert decided(service, forecast="raw") == pytest.approx(np.sort(rows(), axis=1)[:, 7])
    known = [{"time": "2020-01-01T00:00", "lead": 24}] * 3
    assert decided(service, known=known) == decided(service)
    assert (np.array(decided(service)) > decided(service, cost={"underage": 0.1})).all()


def test_another_unit_and_fewer_members_than_in_the_past_are_noted(service: Service) -> None:
    few, small = [row[:3] for row in rows()], (np.array(rows()) / 1000).tolist()
    for members, said in ((rows(), ""), (few, "has 3 members, "), (small, "check their unit")):
        notes = service.decide(schemas.DecideRequest.model_validate({"members": members})).notes
        assert len(notes) == bool(said)
        assert said in "".join(notes)


def test_what_speaks_against_it_is_repeated(
    recalibrated: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recalibrate, "warning_sentences", lambda told: ("Warning: it underestimates.",))
    old = load_recalibration(recalibrated)
    request = RecalibrateRequest(
        recalibrated.parent / "past.csv", str(old.cost_spec), old.layout, None, old.about.settings
    )
    run_recalibrate(request, tmp_path / "doubted", quiet=True)
    opened = open_source(tmp_path / "doubted", None, SETTINGS)
    said = "Warning: it underestimates"
    assert said in opened.notes
    service = Service(opened)
    assert service.decide(schemas.DecideRequest(members=rows())).notes == [said]
    assert service.decide(schemas.DecideRequest(members=rows(), forecast="raw")).notes == []
    assert [each.warnings for each in service.model().forecasts] == [[said], []]


def test_a_table_is_decided_for_as_the_command_does(service: Service) -> None:
    csv = past_forecasts(5).drop(columns=["power", "done"]).to_csv(index=False)
    answer = service.table(schemas.TableRequest(csv=csv))
    assert answer.columns[:2] == ["time", "action"]
    assert [row[0] for row in answer.rows][:1] == ["2020-01-01T00:00:00Z"]
    members = past_forecasts(5).filter(regex="^m").to_numpy().tolist()
    assert [row[1] for row in answer.rows] == pytest.approx(decided(service, members=members))


def test_curves_of_the_corrected_and_the_raw_forecast(service: Service) -> None:
    answer = service.curve(schemas.CurveRequest.model_validate({"members": rows()[0], "points": 51}))
    assert [curve.forecast for curve in answer.curves] == ["selected", "raw"]
    corrected, raw = answer.curves
    assert corrected.decision.action > raw.decision.action  # the members were too low
    assert len(corrected.density) == len(raw.expected_costs) == 51
    for curve in answer.curves:
        assert min(curve.expected_costs) >= curve.decision.expected_cost - 1e-9


def test_what_is_served_is_told(service: Service) -> None:
    model = service.model()
    assert model.corrects is not None
    assert (model.corrects.form, model.corrects.member_levels, model.corrects.features) == ("members", None, [])
    assert model.targets == ["power"]
    assert model.table_columns == ["time", *(f"m{place}" for place in range(1, 9))]
    assert [forecast.name for forecast in model.forecasts] == ["selected", "raw"]
    assert service.cases().cases == []


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"features": [[1.0]]}, "features"),
        ({"members": None}, "members"),
        ({"member_count": 5}, "member_count"),
        ({"member_levels": [0.1, 0.5, 0.9]}, "member_levels"),
        ({"forecast": "weight_0"}, "forecast"),
        ({"known": [{}]}, "known"),
        ({"known": [{"lead": 1.0}, {}, {}]}, "known.1.lead"),
        ({"known": [{"time": "soon"}] * 3}, "known"),
        ({"known": [{"lead": -1.0}] * 3}, "known"),
        ({"known": [{"features": [1.0]}] * 3}, "known.0.features"),
        ({"members": [[1.0, 2.0], [1.0]]}, "members.1"),
        ({"members": [[1.0]]}, "members"),
    ],
)
def test_requests_that_cannot_be_answered_name_the_field(service: Service, asked: dict[str, Any], field: str) -> None:
    with pytest.raises(RequestError) as refused:
        decided(service, **asked)
    assert refused.value.field == field


def test_quantiles_need_their_levels_and_the_lead_that_errors_depend_on(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    centre, ahead = generator.normal(10, 2, 160), np.tile([24, 48], 80)
    table = pd.DataFrame({"time": pd.date_range("2020-01-01", periods=160), "ahead": ahead})
    table = table.assign(q10=centre - 1, q50=centre, q90=centre + 1, y=centre + ahead / 12 + generator.normal(size=160))
    table.to_csv(tmp_path / "past.csv", index=False)
    request = RecalibrateRequest(
        tmp_path / "past.csv",
        "newsvendor:underage=9,overage=1,upper=40",
        ForecastLayout(outcomes=("y",), columns=("q10:q90",), lead="ahead"),
        settings=RecalibratorSettings(decision_weights=()),
    )
    run_recalibrate(request, tmp_path / "s", quiet=True)
    service = Service(open_source(tmp_path / "s", None, SETTINGS))
    assert service.model().corrects == schemas.CorrectsAnswer(
        form="quantiles", member_levels=[0.1, 0.5, 0.9], known=["lead"], features=[]
    )
    asked = {"members": [[9.0, 10.0, 11.0]], "member_levels": [0.1, 0.5, 0.9]}
    refuses(RequestError, r'\[{"lead": 24}\]', decided, service, **asked)
    near, far = (decided(service, **asked, known=[{"lead": lead}])[0] for lead in (24.0, 48.0))
    assert far == pytest.approx(near + 2, abs=0.5)
    refuses(RequestError, r"0\.1, 0\.5, 0\.9", decided, service, members=asked["members"])


def test_a_decision_about_one_number_has_no_parts(service: Service) -> None:
    refuses(RequestError, "one number", service.parts, schemas.CaseRequest(members=[9.0] * 8))
    assert service.model().cost.parts == []
