"""`stakes serve`: a fitted forecaster as a web service, with a page to look at its decisions."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stakes.errors import SettingError

__all__ = ["serve"]


def serve(folders: Sequence[Path], cost: str | None, **settings: Any) -> None:
    """Serve one fit, or two to compare, until a signal ends it; the settings are those of `ServiceSettings`."""
    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise SettingError(f'the service needs {" and ".join(missing)}: pip install "stakes[serve]"')
    from stakes.commands.output import notes
    from stakes.serving.settings import ServiceSettings

    chosen = ServiceSettings(**settings)  # before anything is read
    from stakes.serving.app import create_app
    from stakes.serving.forecasts import open_folders
    from stakes.serving.run import run_service
    from stakes.serving.service import Service

    opened = open_folders(folders, cost)
    notes(opened.notes)
    run_service(create_app(Service(opened, chosen), chosen), chosen)
