"""From the body of a request to that of its response, in a worker: read, checked, answered and written there."""

import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ValidationError

from stakes.artifacts.folder import read_manifest
from stakes.artifacts.recalibrations import Recalibration, load_recalibration
from stakes.cost_spec.spec import CostSpec
from stakes.errors import SettingError
from stakes.service import schemas
from stakes.service.fits import Service
from stakes.service.forecasts import ServedFits, open_fits
from stakes.service.recalibrations import RecalibratedService
from stakes.service.refusals import RequestError, against_schema, refused_response
from stakes.service.settings import ServiceSettings
from stakes.service.workers import Reply


@dataclass(frozen=True, eq=False)
class ServedRecalibration:
    """A recalibrated forecast."""

    name: str  # of its folder
    opened: Recalibration  # the forecast

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for whoever starts the service."""
        return self.opened.notes


def open_served(folders: Sequence[Path], cost: str | None) -> ServedFits | ServedRecalibration:
    """Read what is to be served."""
    recalibrated = [folder for folder in folders if read_manifest(folder).kind == "recalibration"]
    if not recalibrated:
        return open_fits(folders, cost)
    if len(folders) > 1:
        raise SettingError(f"{recalibrated[0]} is a recalibrated forecast, which is served by itself, without a second")
    opened = load_recalibration(folders[0], None if cost is None else CostSpec.parse(cost))
    return ServedRecalibration(folders[0].resolve().name, opened)


def service_of(served: ServedFits | ServedRecalibration, settings: ServiceSettings) -> Service | RecalibratedService:
    """What answers requests."""
    if isinstance(served, ServedRecalibration):
        return RecalibratedService(served.name, served.opened, settings)
    return Service(served, settings)


ROUTES: dict[str, type[BaseModel]] = {
    "decide": schemas.DecideRequest,
    "forecast": schemas.ForecastRequest,
    "curve": schemas.CurveRequest,
    "parts": schemas.CaseRequest,
    "table": schemas.TableRequest,
}
"""What can be asked, by the name of the method of `Service` that answers it, and of which form a request is."""


class Answers:
    """Replies to requests."""

    def __init__(self, served: ServedFits | ServedRecalibration, settings: ServiceSettings) -> None:
        torch.set_num_threads(1)  # this process is forked, which threads would not survive
        self._service, self._threads = service_of(served, settings), settings.threads_each

    def __call__(self, name: str, content: bytes) -> Reply:
        """The answer, or a refusal that names the field."""
        torch.set_num_threads(self._threads)
        try:
            request = ROUTES[name].model_validate_json(content)
            with np.errstate(all="ignore"):  # what is not finite is refused
                answer: Any = getattr(self._service, name)(request)
            return Reply(200, answer.model_dump_json().encode())
        except ValidationError as error:
            return _reply(against_schema(error))
        except RequestError as error:
            return _reply(error)
        except Exception:
            return Reply(500, b"", traceback.format_exc())


def _reply(error: RequestError) -> Reply:
    response = refused_response(error)
    return Reply(response.status_code, bytes(response.body))
