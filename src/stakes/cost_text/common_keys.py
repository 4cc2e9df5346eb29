"""The keys that any cost in words takes, besides its own parameters."""

__all__ = ["COMMON_KEYS", "RISK_KEYS", "UNIT_KEYS"]

UNIT_KEYS = ("unit", "action_unit")
"""The units of the cost and of what is decided."""

RISK_KEYS = {"cvar_level": "level", "cvar_mix": "mix"}
"""Aversion to risk: the keys, and the fields of `stakes.CVaRCost` that they are."""

COMMON_KEYS = (*RISK_KEYS, *UNIT_KEYS)
"""All of them."""
