"""Explicit small configs of the models that the general recipe of tiny_configs.py cannot build."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# Class name or model type → what makes a config from the config class.
BY_HAND: dict[str, Callable[[type], Any]] = {}
