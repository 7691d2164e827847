"""Scenarios of saves in which one rank comes to harm; they are run by trainer_ranks.py."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from rank_program import Told, refused
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from weightloom.torch import Saver, save_hub


def interrupted_save(folder: Path, victim: int, harm: Any) -> Told:
    """Overwrites a checkpoint; at the sixth exchange of the save one rank comes to harm."""
    state = {"w": distributed_rows(1.0)}
    save_hub(state, folder / "out", mapping="none")
    state = {"w": distributed_rows(2.0)}
    saver = Saver(state, mapping="none", overwrite=True)
    transport, count = saver._transport, 0
    exchange = transport.exchange

    def harmed(*messages: Any) -> Any:
        nonlocal count
        count += 1
        return harm(saver) if count == 6 else exchange(*messages)

    if dist.get_rank() == victim:
        transport.exchange = harmed
    told = refused(lambda: saver.save(folder / "out"))
    told["again"] = refused(lambda: saver.save(folder / "out"))
    saver.close()
    return told


def distributed_rows(value: float) -> torch.Tensor:
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    return distribute_tensor(torch.full((400, 300), value), mesh, [Shard(0)])


def killed(folder: Path) -> Told:
    return interrupted_save(folder, 2, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def killed_leader(folder: Path) -> Told:
    return interrupted_save(folder, 0, lambda _: os.kill(os.getpid(), signal.SIGKILL))


def raising(folder: Path) -> Told:
    def fail(_: Saver) -> None:
        raise ValueError("out of order")

    return interrupted_save(folder, 1, fail)


def interrupted(folder: Path) -> Told:
    """Ctrl-C on one rank, which is in an exchange."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored

    def interrupt(saver: Saver) -> Any:
        ended, abort = threading.Event(), saver._transport.abort

        def noted(reason: Any) -> Any:
            told = abort(reason)
            ended.set()
            return told

        saver._transport.abort = noted
        os.kill(os.getpid(), signal.SIGINT)
        ended.wait()
        return saver._transport._line.reason

    return interrupted_save(folder, 3, interrupt)
