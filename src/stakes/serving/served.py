"""What is served, told by what its folder holds: one fit or two, or a recalibrated forecast."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from stakes.bundle.folder_kinds import is_recalibration
from stakes.bundle.recalibration_folder import Recalibration, load_recalibration
from stakes.cost_text.written_cost import CostSpec
from stakes.errors import SettingError
from stakes.serving.recalibrated_service import RecalibratedService
from stakes.serving.served_forecasts import ServedFits, open_fits
from stakes.serving.service import Service
from stakes.serving.settings import ServiceSettings

__all__ = ["ServedRecalibration", "open_served", "service_of"]


@dataclass(frozen=True, eq=False)
class ServedRecalibration:
    """A recalibrated forecast.

    Attributes:
        name: Of its folder.
        opened: The forecast.
    """

    name: str
    opened: Recalibration

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences for whoever starts the service."""
        return self.opened.notes


def open_served(folders: Sequence[Path], cost: str | None) -> ServedFits | ServedRecalibration:
    """Read what is to be served.

    Args:
        folders: Of a fit, of two to compare, or of a recalibrated forecast.
        cost: In words; None takes that of the first folder.
    """
    recalibrated = [folder for folder in folders if is_recalibration(folder)]
    if not recalibrated:
        return open_fits(folders, cost)
    if len(folders) > 1:
        raise SettingError(f"{recalibrated[0]} is a recalibrated forecast, which is served by itself, without a second")
    opened = load_recalibration(folders[0], None if cost is None else CostSpec.parse(cost))
    return ServedRecalibration(folders[0].resolve().name, opened)


def service_of(served: ServedFits | ServedRecalibration, settings: ServiceSettings) -> Service | RecalibratedService:
    """What answers requests.

    Args:
        served: What is served.
        settings: The bounds on requests.
    """
    if isinstance(served, ServedRecalibration):
        return RecalibratedService(served.name, served.opened, settings)
    return Service(served, settings)
