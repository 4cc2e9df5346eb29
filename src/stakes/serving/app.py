"""The service as an ASGI application: its routes, and what stands before them."""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.routing import APIRoute
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

import stakes
from stakes.serving import schemas
from stakes.serving.admission import Admission
from stakes.serving.answers import QUESTIONS, Answers
from stakes.serving.bodies import Bodies
from stakes.serving.page import page
from stakes.serving.refusals import ErrorAnswer, RefusedError, refusal, refused, require_json, unknown_route
from stakes.serving.served import ServedRecalibration, service_of
from stakes.serving.served_forecasts import ServedFits
from stakes.serving.settings import ServiceSettings
from stakes.serving.worker_pool import WorkerPool
from stakes.serving.worker_processes import Answering

__all__ = ["create_app"]

_ABOUT = "Decisions, forecasts and expected costs of a fitted forecaster."
_WORDS = {
    400: "the request cannot be read",
    401: "the token is missing or wrong",
    408: "the body took too long to arrive",
    413: "the body is too large",
    415: "the body does not say that it is JSON, or is packed",
    422: "a field cannot be used; the error names it",
    500: "a fault of the service",
    503: "too many requests are waiting, or too much is being sent at once",
    504: "no answer in time",
}
_READ = (400, 401, 500)


def create_app(
    served: ServedFits | ServedRecalibration, settings: ServiceSettings, make: Callable[[], Answering] | None = None
) -> ASGIApp:
    """The application; its workers are there when it is, and end with the server.

    Args:
        served: What is served.
        settings: The token, and the bounds on requests.
        make: Makes what answers requests, in a process of its own; None for answers from what is served.
    """
    service, bodies = service_of(served, settings), Bodies(settings)
    pool = WorkerPool(make or partial(Answers, served, settings), settings)

    @asynccontextmanager
    async def closing(app: FastAPI) -> AsyncIterator[None]:
        yield
        pool.close()

    class Asked(APIRoute):
        """A question for a worker: its body goes there as it is, and nothing of it is parsed here."""

        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            async def answer(request: Request) -> Response:
                require_json(request.headers)
                async with bodies.body(request) as content:
                    reply = await pool.ask(self.name, content)
                if reply.fault:
                    raise RuntimeError(reply.fault)
                return Response(reply.content, reply.status, media_type="application/json")

            return answer

    app = FastAPI(
        title="stakes",
        description=_ABOUT,
        version=stakes.__version__,
        docs_url=None,  # those pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,  # to an address that the request's Host would decide
        lifespan=closing,
        dependencies=[] if settings.token is None else [Depends(HTTPBearer(auto_error=False))],  # for the schema alone
        exception_handlers={RefusedError: refused, HTTPException: unknown_route, Exception: _failed},
    )
    questions = APIRouter(route_class=Asked)
    for name in QUESTIONS:
        questions.add_api_route(f"/v1/{name}", getattr(service, name), methods=["POST"], responses=_refusals(*_WORDS))
    app.include_router(questions)

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
