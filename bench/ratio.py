"""Quotients of what was measured, and what they should be."""

from __future__ import annotations

from dataclasses import dataclass

from measure import Row

MIB, GIB = 1 << 20, 1 << 30


@dataclass(frozen=True)
class Ratio:
    """A quotient of two numbers, and what it should be."""

    text: str
    value: float
    wanted: str
    good: bool


def at_most(text: str, value: float, limit: float) -> Ratio:
    """Good up to `limit`."""
    return Ratio(text, value, f"≤ {limit:g}", value <= limit)


def at_least(text: str, value: float, limit: float) -> Ratio:
    """Good from `limit` on."""
    return Ratio(text, value, f"≥ {limit:g}", value >= limit)


def read_ratio(row: Row) -> tuple[float, float]:
    """Bytes read per byte needed, and its limit."""
    told = row.json
    return told["bytes_read"] / told["bytes_needed"], 1.01
