"""From the body of a request to that of its response, in a worker: read, checked, answered and written there."""

import traceback
from typing import Any

import numpy as np
import torch
from pydantic import BaseModel, ValidationError

from stakes.serving import schemas
from stakes.serving.refusals import RefusedError, against_schema, refused_response
from stakes.serving.served import ServedRecalibration, service_of
from stakes.serving.served_forecasts import ServedFits
from stakes.serving.settings import ServiceSettings
from stakes.serving.worker_processes import Reply

__all__ = ["QUESTIONS", "Answers"]

QUESTIONS: dict[str, type[BaseModel]] = {
    "decide": schemas.DecideRequest,
    "forecast": schemas.ForecastRequest,
    "curve": schemas.CurveRequest,
    "parts": schemas.CaseRequest,
    "table": schemas.TableRequest,
}
"""What can be asked, by the name of the method of `Service` that answers it, and of which form a request is."""


class Answers:
    """Replies to requests.

    Args:
        served: What is served.
        settings: The bounds on requests.
    """

    def __init__(self, served: ServedFits | ServedRecalibration, settings: ServiceSettings) -> None:
        torch.set_num_threads(1)  # this process is forked, which threads would not survive
        self._service, self._threads = service_of(served, settings), settings.threads_each

    def __call__(self, name: str, content: bytes) -> Reply:
        """The answer, or a refusal that names the field.

        Args:
            name: One of `QUESTIONS`.
            content: The body of the request.
        """
        torch.set_num_threads(self._threads)
        try:
            request = QUESTIONS[name].model_validate_json(content)
            with np.errstate(all="ignore"):  # what is not finite is refused
                answer: Any = getattr(self._service, name)(request)
            return Reply(200, answer.model_dump_json().encode())
        except ValidationError as error:
            return _reply(against_schema(error))
        except RefusedError as error:
            return _reply(error)
        except Exception:
            return Reply(500, b"", traceback.format_exc())


def _reply(error: RefusedError) -> Reply:
    response = refused_response(error)
    return Reply(response.status_code, bytes(response.body))
