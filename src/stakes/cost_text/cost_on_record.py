"""The cost of a fit, when a command goes on with that fit: taken from its record, or given again and compared."""

from dataclasses import replace

from stakes.cost_text.written_cost import CostSpec
from stakes.errors import SettingError

__all__ = ["cost_again"]


def cost_again(kept: CostSpec, given: str | None) -> CostSpec:
    """The cost on record; a user's own must be given again and be the same, and none may take its place.

    Args:
        kept: The cost as the record of the fit has it.
        given: The cost in words, as in --cost; None where the user gave none.
    """
    if given is None:
        kept.build()  # which refuses a user's own, and says how it is given
        return kept
    spec = CostSpec.parse(given)
    spec = replace(spec, unit=spec.unit or kept.unit, action_unit=spec.action_unit or kept.action_unit)
    now, before = spec.record(), kept.record()
    if now == before:
        return spec
    if now | {"sha256": ""} == before | {"sha256": ""}:
        raise SettingError(f"the file of the cost {kept.name!r} has changed since the fit: its SHA-256 is another")
    example = f"PATH/{kept}" if kept.is_own else str(kept)
    raise SettingError(f"the cost must be that of the fit, as in --cost {example}, got {given!r}")
