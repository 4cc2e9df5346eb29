"""The service as an ASGI application: its routes, and what stands before them."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import numpy as np
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

import stakes
from stakes.serving import schemas
from stakes.serving.admission import Admission
from stakes.serving.page import page
from stakes.serving.refusals import ErrorAnswer, RefusedError, refusal, refused, unknown_route, unreadable
from stakes.serving.service import Service
from stakes.serving.settings import ServiceSettings
from stakes.serving.worker_pool import GoOn, WorkerPool

__all__ = ["create_app"]

Asked = TypeVar("Asked", bound=BaseModel)
_ABOUT = "Decisions, forecasts and expected costs of a fitted forecaster."
_WORDS = {
    400: "the request cannot be read",
    401: "the token is missing or wrong",
    408: "the body took too long to arrive",
    413: "the body is too large",
    415: "the body does not say that it is JSON",
    422: "a field cannot be used; the error names it",
    500: "a fault of the service",
    503: "too many requests are waiting",
    504: "no answer in time",
}
_READ = (400, 401, 500)


def create_app(service: Service, settings: ServiceSettings) -> ASGIApp:
    """The application; it ends its threads when the server does.

    Args:
        service: What answers, without a word of HTTP.
        settings: The token, and the bounds on requests.
    """
    pool = WorkerPool(settings)

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[None]:
        yield
        pool.close()

    app = FastAPI(
        title="stakes",
        description=_ABOUT,
        version=stakes.__version__,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to an address that the request's Host would decide
        lifespan=closing,
        dependencies=[] if settings.token is None else [Depends(HTTPBearer(auto_error=False))],  # for the schema alone
        exception_handlers={
            RefusedError: refused,
            RequestValidationError: unreadable,
            HTTPException: unknown_route,
            Exception: _failed,
        },
    )

    async def answer(work: Callable[[Asked, GoOn], BaseModel], request: Asked) -> Response:
        def content(go_on: GoOn) -> bytes:
            with np.errstate(all="ignore"):  # what is not finite is refused
                return work(request, go_on).model_dump_json().encode()

        return Response(await pool.run(content), media_type="application/json")

    @app.post("/v1/decide", response_model=schemas.DecideAnswer, responses=_refusals(*_WORDS))
    async def decide(request: schemas.DecideRequest) -> Response:
        """The action of least expected cost for every row, with its certificate."""
        return await answer(service.decide, request)

    @app.post("/v1/forecast", response_model=schemas.ForecastAnswer, responses=_refusals(*_WORDS))
    async def forecast(request: schemas.ForecastRequest) -> Response:
        """Mean and quantiles of every row, and the members on request."""
        return await answer(service.forecast, request)

    @app.post("/v1/curve", response_model=schemas.CurveAnswer, responses=_refusals(*_WORDS))
    async def curve(request: schemas.CurveRequest) -> Response:
        """One case: the expected cost over the action, the best action, and the density of the members."""
        return await answer(service.curve, request)

    @app.post("/v1/table", response_model=schemas.TableAnswer, responses=_refusals(*_WORDS))
    async def table(request: schemas.TableRequest) -> Response:
        """A decision for every row of a table, as `stakes decide` makes them."""
        return await answer(service.table, request)

    @app.get("/v1/model", responses=_refusals(*_READ))
    async def model() -> schemas.ModelAnswer:
        """Features, targets, cost, forecasts and fits that are served."""
        return service.model()

    @app.get("/v1/cases", responses=_refusals(*_READ))
    async def cases() -> schemas.CasesAnswer:
        """Cases that the forecaster was judged by, where the fit kept some."""
        return service.cases()

    @app.get("/healthz", responses=_refusals(400, 500))
    async def health() -> schemas.HealthAnswer:
        """Whether the service is there."""
        return schemas.HealthAnswer(status="ok", pending=pool.pending)

    @app.get("/", include_in_schema=False)
    async def index() -> Response:
        return page(settings.token is not None)

    return Admission(app, settings)


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: {"model": ErrorAnswer, "description": _WORDS[status]} for status in statuses}


async def _failed(request: Request, error: Exception) -> Response:
    return refusal(500, "", "something went wrong in the service; its log says what")
