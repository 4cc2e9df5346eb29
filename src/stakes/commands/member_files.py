"""The ensemble that a user already has, as the flags describe it."""

from pathlib import Path

from stakes.commands.arguments import Files, names
from stakes.data.members import MembersFile, read_members
from stakes.errors import SettingError

__all__ = ["members_of", "require_targets"]


def members_of(files: Files, targets: tuple[str, ...]) -> MembersFile:
    """The ensemble that is given; a long table may have several `targets`."""
    assert files.members is not None
    columns = names(files.columns)
    read = {"time": files.time, "variable": files.variable, **files.text}
    return read_members(files.members, columns=columns, targets=targets, **read)


def require_targets(found: MembersFile, target: tuple[str, ...], path: Path) -> None:
    """Raise if targets are wanted that the members have not."""
    if target and target != found.targets:
        raise SettingError(
            f"--target must name columns of values in a long table, got {', '.join(target)}; {str(path)!r} has "
            f"{', '.join(found.targets)}"
        )
