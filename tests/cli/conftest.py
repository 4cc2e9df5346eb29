"""Every test works in a folder of its own, with small files of a user."""

from user_files import elsewhere, fitted, quick_fits, recalibrated  # noqa: F401  fixtures
