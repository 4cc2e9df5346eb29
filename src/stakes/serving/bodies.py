"""Bodies of requests: read only where a request may be answered, and within bounds of size, time and memory."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import ClientDisconnect, Request

from stakes.serving.refusals import RefusedError
from stakes.serving.settings import ServiceSettings

__all__ = ["Bodies"]

_PATIENCE = 4  # of a body that is too large so many times the limit is read, so that its sender comes to read why
_AT_ONCE = 8  # bodies of the largest size that may be in memory together


class Bodies:
    """All bodies that are in memory.

    Args:
        settings: How large a body may be, and how long it may take.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._settings = settings
        self._held = 0  # bytes

    @asynccontextmanager
    async def body(self, request: Request) -> AsyncIterator[bytearray]:
        """The whole body of a request, whatever length was announced, for as long as it is needed.

        Args:
            request: What may be answered.
        """
        content = bytearray()
        try:
            await self._read(request, content)
            yield content
        finally:
            self._held -= len(content)

    async def _read(self, request: Request, content: bytearray) -> None:
        length = request.headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > _PATIENCE * self._settings.max_body:
            raise self._too_large()
        try:
            async with asyncio.timeout(self._settings.timeout):
                await self._receive(request, content)
        except TimeoutError:
            raise RefusedError("", f"the body did not arrive within {self._settings.timeout:g} seconds", 408) from None
        except ClientDisconnect:
            raise RefusedError("", "the body ended before its length", 400) from None

    async def _receive(self, request: Request, content: bytearray) -> None:
        size = 0
        async for part in request.stream():
            size += len(part)
            if size > _PATIENCE * self._settings.max_body:
                break
            if size <= self._settings.max_body:
                self._keep(part, content)
            else:  # nothing of it is kept
                self._held -= len(content)
                content.clear()
        if size > self._settings.max_body:
            raise self._too_large()

    def _keep(self, part: bytes, content: bytearray) -> None:
        if self._held + len(part) > _AT_ONCE * self._settings.max_body:
            raise RefusedError("", "too much is being sent at once; ask again later", 503)
        content += part
        self._held += len(part)

    def _too_large(self) -> RefusedError:
        return RefusedError("", f"the body must be at most {self._settings.max_body_mb:g} MiB", 413)
