"""The layout algebra once more, in plain Python: a second oracle beside numpy.

A region is a strided copy: element ``target + sum(k_i * target_stride_i)`` of the result comes from
``source_offset + sum(k_i * source_stride_i)`` of a source. Two primitives carry every operation:
``factor`` splits a region so that no offset carries out of its block of m elements, and ``clip``
keeps the part of a factored region whose place in the block lies in a window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np

PAD = -1
Axis = tuple[int, int, int]  # extent, target stride, source stride


@dataclass(frozen=True)
class Region:
    source: int
    pad_value: int
    source_offset: int
    target_offset: int
    axes: tuple[Axis, ...]


@dataclass(frozen=True)
class Layout:
    shape: tuple[int, ...]
    regions: tuple[Region, ...]


def row_major_strides(shape: Sequence[int]) -> list[int]:
    return [prod(shape[i + 1 :]) for i in range(len(shape))]


def remainder(region: Region, m: int) -> tuple[int, list[Axis], int]:
    """Where the region begins in its block, the axes that move in blocks, and their reach."""
    axes = [a for a in region.axes if a[0] > 1 and a[1] % m]
    return region.target_offset % m, axes, sum((n - 1) * t for n, t, _ in axes)


def steps(region: Region, axis: Axis, first: int, count: int, length: int, period: int) -> Region:
    """`count` runs, a period apart, of `length` steps of one axis, which `region` still has."""
    _, t, s = axis
    axes = list(region.axes)
    axes.remove(axis)
    axes += [(count, period * t, period * s), (length, t, s)]
    return replace(
        region,
        source_offset=region.source_offset + first * s,
        target_offset=region.target_offset + first * t,
        axes=tuple(a for a in axes if a[0] > 1),
    )


def factor(region: Region, m: int) -> Iterator[Region]:
    begin, axes, span = remainder(region, m)
    if begin + span < m:
        yield region
        return
    axis = max(axes, key=lambda a: a[1])
    n, t, _ = axis
    inner = span - (n - 1) * t
    period = m // gcd(t, m)

    def run_from(position: int) -> int:
        return max(0, (m - 1 - inner - position) // t + 1)

    k = min(run_from(begin), n) if n > period and begin >= t else 0
    if k:
        yield steps(region, axis, 0, 1, k, 0)
    end = min(n, k + period)
    while k < end:
        run = min(max(1, run_from((begin + k * t) % m)), end - k)
        count = (n - k - run) // period + 1
        yield from factor(steps(region, axis, k, count, run, period), m)
        tail = k + count * period
        if tail < n:
            yield from factor(steps(region, axis, tail, 1, n - tail, 0), m)
        k += run


def clip(region: Region, m: int, lo: int, hi: int) -> Iterator[Region]:
    begin, axes, span = remainder(region, m)
    if begin >= hi or begin + span < lo:
        return
    if begin >= lo and begin + span < hi:
        yield region
        return
    axis = max(axes, key=lambda a: a[1])
    for k in range(axis[0]):  # step by step: slow and plain
        yield from clip(steps(region, axis, k, 1, 1, 0), m, lo, hi)


def identity(source: int, shape: Sequence[int], pad_value: int = 0) -> Layout:
    size = prod(shape)
    axes = ((size, 1, 0 if source == PAD else 1),) if size > 1 else ()
    return Layout(tuple(shape), (Region(source, pad_value, 0, 0, axes),) if size else ())


def reshape(layout: Layout, shape: Sequence[int]) -> Layout:
    assert prod(shape) == prod(layout.shape)
    return Layout(tuple(shape), layout.regions)


def reblocked(region: Region, m: int, new_m: int, shift: int) -> Region:
    axes = tuple((n, t // m * new_m if t % m == 0 else t, s) for n, t, s in region.axes)
    offset = region.target_offset // m * new_m + region.target_offset % m + shift
    return replace(region, target_offset=offset, axes=axes)


def slice_(layout: Layout, dim: int, begin: int, end: int) -> Layout:
    shape = (*layout.shape[:dim], end - begin, *layout.shape[dim + 1 :])
    if prod(shape) == 0:
        return Layout(shape, ())
    stride = row_major_strides(layout.shape)[dim]
    m = stride * layout.shape[dim]
    return Layout(
        shape,
        tuple(
            reblocked(part, m, stride * (end - begin), -begin * stride)
            for region in layout.regions
            for piece in factor(region, m)
            for part in clip(piece, m, begin * stride, end * stride)
        ),
    )


def concat(parts: Sequence[Layout], dim: int) -> Layout:
    rows = sum(part.shape[dim] for part in parts)
    shape = (*parts[0].shape[:dim], rows, *parts[0].shape[dim + 1 :])
    stride = prod(shape[dim + 1 :])
    regions, row = [], 0
    for part in parts:
        m = stride * part.shape[dim]
        for region in part.regions:
            for piece in factor(region, m):
                regions.append(reblocked(piece, m, stride * rows, row * stride))
        row += part.shape[dim]
    return Layout(shape, tuple(regions))


def stack(parts: Sequence[Layout], dim: int) -> Layout:
    return concat([reshape(p, (*p.shape[:dim], 1, *p.shape[dim:])) for p in parts], dim)


def take(layout: Layout, dim: int, index: int) -> Layout:
    row = slice_(layout, dim, index, index + 1)
    return reshape(row, layout.shape[:dim] + layout.shape[dim + 1 :])


def permute(layout: Layout, order: Sequence[int]) -> Layout:
    """Factors by every dim's stride, then moves each axis to its dim's new stride."""
    shape = tuple(layout.shape[d] for d in order)
    if prod(shape) == 0:
        return Layout(shape, ())
    old = row_major_strides(layout.shape)
    new = dict(zip(order, row_major_strides(shape), strict=True))
    dims = [d for d in range(len(old)) if layout.shape[d] > 1]
    regions = list(layout.regions)
    for d in dims:
        regions = [piece for region in regions for piece in factor(region, old[d])]

    def moved(region: Region) -> Region:
        offset = sum(region.target_offset // old[d] % layout.shape[d] * new[d] for d in dims)
        axes = []
        for n, t, s in region.axes:
            # An axis may go through several dims whose blocks adjoin only if nothing carried.
            d = next(d for d in dims if t % old[d] == 0 and t < old[d] * layout.shape[d])
            axes.append((n, t // old[d] * new[d], s))
        return replace(region, target_offset=offset, axes=tuple(axes))

    return Layout(shape, tuple(moved(region) for region in regions))


def interleave(layout: Layout, dim: int, ways: int, inverse: bool) -> Layout:
    n = layout.shape[dim] // ways
    two = (ways, n) if inverse else (n, ways)
    split = reshape(layout, (*layout.shape[:dim], *two, *layout.shape[dim + 1 :]))
    order = list(range(len(split.shape)))
    order[dim], order[dim + 1] = order[dim + 1], order[dim]
    return reshape(permute(split, order), layout.shape)


def pad(layout: Layout, dim: int, before: int, after: int, value: int) -> Layout:
    def rows(n: int) -> Layout:
        return identity(PAD, (*layout.shape[:dim], n, *layout.shape[dim + 1 :]), value)

    return concat([rows(before), layout, rows(after)], dim)


def offsets(first: int, axes: Sequence[tuple[int, int]]) -> np.ndarray:
    result = np.array([first], dtype=np.int64)
    for extent, stride in axes:
        result = np.add.outer(result, np.arange(extent) * stride).ravel()
    return result


def origins(layout: Layout) -> np.ndarray:
    """For each element its (source, offset in it), or (PAD, value); each must be there once."""
    result = np.zeros((prod(layout.shape), 2), dtype=np.int64)
    times = np.zeros(prod(layout.shape), dtype=np.int64)
    for region in layout.regions:
        target = offsets(region.target_offset, [(n, t) for n, t, _ in region.axes])
        np.add.at(times, target, 1)
        result[target, 0] = region.source
        result[target, 1] = (
            region.pad_value
            if region.source == PAD
            else offsets(region.source_offset, [(n, s) for n, _, s in region.axes])
        )
    assert (times == 1).all(), f"covered {times.tolist()} times"
    return result


def gather(layout: Layout, sources: Sequence[np.ndarray]) -> np.ndarray:
    values = [
        offset if source == PAD else sources[source].ravel()[offset]
        for source, offset in origins(layout)
    ]
    return np.array(values, dtype=np.int64).reshape(layout.shape)


REGION = re.compile(r"(\d+)<-(?:s(\d+)\+(\d+)|pad\((-?\d+)\))(?: \(([^)]*)\))?")


def parse(text: str) -> Layout:
    """Reads the notation that the library prints."""
    dims, regions = re.fullmatch(r"\(([^)]*)\):\[(.*)\]", text).groups()
    return Layout(
        tuple(int(n) for n in dims.split(",") if n.strip()),
        tuple(parse_region(region) for region in regions.split("; ") if region),
    )


def parse_region(text: str) -> Region:
    target, source, offset, value, axes = REGION.fullmatch(text).groups()
    numbers = (
        [[int(n) for n in re.split(r":|<-", axis)] for axis in axes.split(", ")] if axes else []
    )
    return Region(
        PAD if source is None else int(source),
        int(value or 0),
        int(offset or 0),
        int(target),
        tuple((a[0], a[1], a[2] if len(a) > 2 else 0) for a in numbers),
    )
