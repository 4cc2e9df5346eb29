"""One browser for all tests of reports."""

from browsers import chrome  # noqa: F401  a fixture
