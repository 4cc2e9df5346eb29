"""Where the service listens, who may ask, and how much at once."""

import ipaddress
import os
from dataclasses import dataclass, field

from stakes.argument_checks import require_count, require_positive
from stakes.errors import SettingError

_MEBIBYTE = 1 << 20
_MOST_WORKERS = 4
_PORTS = 1 << 16


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach the address.

    >>> [is_loopback(host) for host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "example.org")]
    [True, True, True, False, False]
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _can_be_sent(token: str) -> bool:
    """Whether a header brings it here as it is."""
    return token.isascii() and token.isprintable() and token.strip() == token != ""


@dataclass(frozen=True)
class ServiceSettings:
    """Where the service listens, who may ask, and how much at once. An address that others can reach needs a token."""

    host: str = "127.0.0.1"  # the address that is listened to
    port: int = 8000  # the port; 0 takes a free one
    token: str | None = field(default=None, repr=False)  # what every request must bring; None asks for none
    max_rows: int = 10_000  # rows of one request at most
    max_members: int = 2000  # members of each row at most
    max_body_mb: float = 16.0  # size of the body of a request at most, in MiB
    timeout: float = 30.0  # seconds after which a request is given up, and for reading its body
    workers: int = field(default_factory=lambda: min(_MOST_WORKERS, os.cpu_count() or 1))
    waiting: int = 100  # requests that may wait for a thread; one more is refused

    def __post_init__(self) -> None:
        for name in ("max_rows", "max_members", "workers"):
            require_count(name, getattr(self, name))
        require_count("waiting", self.waiting, 0)
        for name in ("max_body_mb", "timeout"):
            require_positive(name, getattr(self, name))
        if not 0 <= self.port < _PORTS:
            raise SettingError(f"port must lie between 0, any free one, and {_PORTS - 1}, got {self.port}")
        if self.token is not None and not _can_be_sent(self.token):
            raise SettingError("token must be printable ASCII text, not empty and without spaces around it")
        if self.token is None and not is_loopback(self.host):
            raise SettingError(
                f"the address {self.host!r} can be reached by others; give a token, --token or STAKES_TOKEN, that "
                "everyone who asks must know"
            )

    @property
    def max_body(self) -> int:
        """How large the body of a request may be, in bytes."""
        return int(self.max_body_mb * _MEBIBYTE)

    @property
    def threads_each(self) -> int:
        """The threads of torch in every worker: all workers together use no more cores than there are."""
        return max(1, (os.cpu_count() or 1) // self.workers)
