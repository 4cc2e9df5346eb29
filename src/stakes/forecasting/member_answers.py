"""What any forecast of members answers: mean, quantiles, intervals, variance, and a distribution of skpro."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from stakes.costs.member_weights import member_quantiles
from stakes.errors import SettingError

Floats = NDArray[np.float64]
MemberPart = tuple[NDArray[Any], NDArray[Any] | None]
"""Members (n, M, D) of some rows, and what each weighs, (M,) or (n, M); None for equal weights."""


class _WhereSkproIs:
    """A method that instances have where skpro is installed."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method, self.__doc__ = method, method.__doc__

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is not None and find_spec("skpro") is None:
            raise AttributeError("predict_proba returns a distribution of skpro, which is not installed")
        return self._method.__get__(instance, owner)


class MemberAnswers(ABC):
    """Answers from members, within an estimator; results lack the last axis where there is a single outcome."""

    @abstractmethod
    def _member_parts(self, X: Any, **beside: Any) -> Iterator[MemberPart]:
        """Members of the rows, some after the other."""

    @property
    @abstractmethod
    def _single_output(self) -> bool:
        """Whether outcomes come without an axis of their own."""

    def predict(self, X: Any, **beside: Any) -> Floats:
        """The mean of the forecast, shaped as y.

        Args:
            X: Rows to forecast, as in `sample`.
            beside: What `sample` takes beside them.
        """
        return self._as_outcome([_mean(*part) for part in self._member_parts(X, **beside)])

    def predict_quantiles(self, X: Any, alpha: ArrayLike, **beside: Any) -> Floats:
        """Quantiles of the forecast: (n, Q), or (n, Q, D) for several outcomes.

        Args:
            X: Rows to forecast, as in `sample`.
            alpha: Their levels (Q,), between 0 and 1.
            beside: What `sample` takes beside them.
        """
        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        if levels.ndim != 1 or not ((levels >= 0) & (levels <= 1)).all():
            raise SettingError(f"alpha must be levels between 0 and 1, got {alpha!r}")
        return self._as_outcome(
            [
                member_quantiles(members.astype(np.float64), levels.tolist(), weights)
                for members, weights in self._member_parts(X, **beside)
            ]
        )

    def predict_interval(self, X: Any, coverage: float = 0.9, **beside: Any) -> Floats:
        """The central interval that the forecast expects to hold so often: (n, 2), or (n, 2, D) for several outcomes.

        Args:
            X: Rows to forecast, as in `sample`.
            coverage: How often, between 0 and 1.
            beside: What `sample` takes beside them.
        """
        if isinstance(coverage, bool) or not isinstance(coverage, int | float) or not 0 < coverage < 1:
            raise SettingError(f"coverage must lie between 0 and 1, got {coverage!r}")
        return self.predict_quantiles(X, [(1 - coverage) / 2, (1 + coverage) / 2], **beside)

    def predict_var(self, X: Any, **beside: Any) -> Floats:
        """The variance of the forecast, shaped as y.

        Args:
            X: Rows to forecast, as in `sample`.
            beside: What `sample` takes beside them.
        """
        parts = (
            (members - _mean(members, weights)[:, None], weights)
            for members, weights in self._member_parts(X, **beside)
        )
        return self._as_outcome([_mean(apart**2, weights) for apart, weights in parts])

    @_WhereSkproIs
    def predict_proba(self, X: Any, **beside: Any) -> Any:
        """The forecast as an `Empirical` distribution of skpro, for its metrics; there where skpro is installed.

        Args:
            X: Rows to forecast, as in `sample`.
            beside: What `sample` takes beside them.
        """
        import pandas as pd
        from skpro.distributions import Empirical  # type: ignore[import-not-found]

        parts = list(self._member_parts(X, **beside))
        members = np.concatenate([part for part, _ in parts]).astype(np.float64)
        rows, count, width = members.shape
        columns = [str(name) for name in getattr(self, "target_names_", [f"y{place}" for place in range(width)])]
        labels = getattr(X, "index", None)
        index = pd.RangeIndex(rows) if labels is None or len(labels) != rows else pd.Index(labels)
        keys = pd.MultiIndex.from_product([range(count), index])
        values = pd.DataFrame(np.swapaxes(members, 0, 1).reshape(-1, width), keys, columns)
        weights = None
        if parts[0][1] is not None:
            shares = np.concatenate([np.broadcast_to(each, part.shape[:2]) for part, each in parts])  # type: ignore[arg-type]
            weights = pd.Series(shares.T.ravel(), keys)
        return Empirical(values, weights=weights, index=index, columns=pd.Index(columns))

    def _as_outcome(self, parts: Sequence[NDArray[Any]]) -> Floats:
        """Values (..., D) of some rows after the other, shaped as y."""
        values = np.concatenate(parts).astype(np.float64)
        return values[..., 0] if self._single_output else values


def _mean(members: NDArray[Any], weights: NDArray[Any] | None) -> Floats:
    """The mean (n, D) of members (n, M, D)."""
    values = members.astype(np.float64)
    if weights is None:
        return values.mean(1)
    shares = np.broadcast_to(weights, values.shape[:2])[..., None]
    return np.asarray((values * shares).sum(1) / shares.sum(1))
