"""What a folder holds, told by a file of a known name."""

from pathlib import Path

__all__ = ["RECALIBRATION", "is_recalibration"]

RECALIBRATION = "recalibration.json"
"""The file by which the folder of a recalibrated forecast is known."""


def is_recalibration(folder: Path) -> bool:
    """Whether the folder holds a recalibrated forecast; whether it can be read is for `load_recalibration` to say.

    Args:
        folder: The folder.
    """
    return (folder / RECALIBRATION).is_file()
