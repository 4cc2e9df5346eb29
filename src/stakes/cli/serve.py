"""`stakes serve`."""

from functools import partial
from importlib.util import find_spec
from typing import Annotated

from cyclopts import App, Group, Parameter

from stakes.cli import flags as flag
from stakes.cli.flags import whole
from stakes.errors import SettingError

_SERVICE = Group("Service", sort_key=1)

app = App(
    name="serve",
    help_epilogue=flag.examples("stakes serve load --port 9000", "STAKES_TOKEN=... stakes serve load --host ::"),
)


@app.default
def serve(
    folder: flag.Folder,
    /,
    *,
    host: Annotated[
        str, Parameter(group=_SERVICE, help="address to listen on; any but localhost needs --token")
    ] = "127.0.0.1",
    port: Annotated[int, whole("port; 0 takes a free one", _SERVICE)] = 8000,
    token: Annotated[
        str | None,
        Parameter(
            group=_SERVICE, help="token that requests must send as Authorization: Bearer", env_var="STAKES_TOKEN"
        ),
    ] = None,
    cost: flag.CostWords = None,
    max_rows: Annotated[int, whole("maximum rows of a request", _SERVICE)] = 10_000,
    max_members: Annotated[int, whole("maximum members of a forecast", _SERVICE)] = 2000,
    max_body_mb: Annotated[float, Parameter(group=_SERVICE, help="maximum size of a request in MiB")] = 16.0,
    timeout: Annotated[float, Parameter(group=_SERVICE, help="seconds after which a request is aborted")] = 30.0,
) -> None:
    if missing := [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]:
        raise SettingError(f'the service needs {" and ".join(missing)}: pip install "stakes[serve]"')
    from stakes.service.server import ServiceSettings

    settings = ServiceSettings(  # before anything is read
        host=host,
        port=port,
        token=token,
        max_rows=max_rows,
        max_members=max_members,
        max_body_mb=max_body_mb,
        timeout=timeout,
    )
    from stakes.cli.output import print_notes
    from stakes.service.app import create_app
    from stakes.service.server import run_service
    from stakes.service.sources import open_source

    source = open_source(folder, cost, settings)
    print_notes(source.notes)
    run_service(partial(create_app, source), settings)
