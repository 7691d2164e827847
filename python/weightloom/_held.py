"""Objects that values of the library keep alive, where the garbage collector sees them."""

from __future__ import annotations

from itertools import count

_objects: dict[int, object] = {}
_keys = count(1)


def hold(held: object) -> int:
    """Keeps an object until `release` of the key that this gives."""
    key = next(_keys)
    _objects[key] = held
    return key


def release(key: int) -> None:
    """Lets go of what `hold` gave the key for."""
    _objects.pop(key, None)
