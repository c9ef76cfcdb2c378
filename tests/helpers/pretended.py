"""A device that is only pretended, to see what would pass between a GPU and the CPU: `with Pretended() as seen: …`.

Its tensors hold tensors on the CPU, but say that they are on `DEVICE`, and every operation of torch on them passes
through `Pretended`. An operation on tensors of both devices is refused, as it is by a GPU. Counted are copies from one
device to the other, and waits: operations for which the CPU needs to know a value, such as the size of a result.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch.device("lazy")
"""A device that torch knows everywhere; nothing else that it does is used here."""
CPU = torch.device("cpu")
OURS = re.compile(r"(ele_\w+|tests)/(?!helpers/pretended|numerics/tensors).*\.py$")
"""The files whose functions are named as the place of a copy."""
aten = torch.ops.aten
WAITS = {
    *(aten._local_scalar_dense, aten.equal),  # the result is a number of Python
    *(aten.nonzero, aten.masked_select, aten._unique2, aten.unique_dim, aten.unique_consecutive),
    *(aten.bincount, aten.repeat_interleave),  # the values say how many entries the result has
}
PLACES = {aten.index, aten.index_put, aten.index_put_, aten._index_put_impl_}
"""Operations that take places, which may be on the CPU, or a mask."""


class OnDevice(Tensor):
    """A tensor on the CPU that says it is on `DEVICE`."""

    inner: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, inner: Tensor) -> OnDevice:
        made = Tensor._make_wrapper_subclass(
            cls, inner.size(), inner.stride(), inner.storage_offset(), dtype=inner.dtype, device=DEVICE
        )
        made.inner = inner
        return made

    def tolist(self) -> Any:
        return self.cpu().tolist()  # which torch does not do for other tensors than its own

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        raise AssertionError(f"{func} on the pretended device, outside of it")


class Pretended(TorchDispatchMode):
    """Everything inside the block; then `copies` and `waits` say what passed between the devices."""

    def __init__(self) -> None:
        super().__init__()
        self.copies: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()

    def __enter__(self) -> Pretended:
        torch._C._set_only_lift_cpu_tensors(True)  # so that `torch.tensor(…, device=DEVICE)` is seen
        return super().__enter__()

    def __exit__(self, *reason: Any) -> None:
        torch._C._set_only_lift_cpu_tensors(False)
        super().__exit__(*reason)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        known = [each for each in tree_flatten((args, kwargs))[0] if isinstance(each, Tensor)]
        here = [each for each in known if isinstance(each, OnDevice)]
        packet, asked = func.overloadpacket, kwargs.get("device")
        if packet is aten._to_copy or packet is aten.copy_:
            return self._copied(func, args, kwargs, asked)
        if known and len(here) < len(known) and here:
            self._mixed(func, known, here)
        if here and (packet in WAITS or takes_mask(packet, args)):
            self._count(self.waits, packet.__name__)
        return self._run(func, args, kwargs, bool(here) if asked is None else torch.device(asked).type == DEVICE.type)

    @staticmethod
    def _count(counter: Counter[str], what: str) -> None:
        frame, place = sys._getframe(2), None
        while frame is not None and place is None:
            place, function, frame = OURS.search(frame.f_code.co_filename), frame.f_code.co_name, frame.f_back
        counter[f"{what}, {place[0]}, {function}" if place else what] += 1

    def _run(self, func, args, kwargs, wrapped: bool) -> Any:
        plain_args, plain = tree_map(inner, args), tree_map(inner, kwargs)
        if "device" in plain:
            plain["device"] = CPU
        found = func(*plain_args, **plain)
        if not wrapped:
            return found
        found = tree_map(lambda each: OnDevice(each) if isinstance(each, Tensor) else each, found)
        return return_and_correct_aliasing(func, args, kwargs, found)

    def _copied(self, func, args, kwargs, asked) -> Any:
        """A copy, perhaps to the other device: that of `asked`, or of the tensor that is written to."""
        into = func.overloadpacket is aten.copy_
        source = args[1] if into else args[0]
        target = args[0].device if into else source.device if asked is None else torch.device(asked)
        if source.device.type != target.type:
            self._count(self.copies, "to the CPU" if target.type == "cpu" else "to the device")
        return self._run(func, args, kwargs, target.type == DEVICE.type)

    def _mixed(self, func, known, here) -> None:
        """Refuse tensors of both devices, as a GPU does, except for numbers and places."""
        others = [each for each in known if not isinstance(each, OnDevice) and each.dim()]
        if others and func.overloadpacket in PLACES:
            self._count(self.copies, "to the device")
        elif others:
            raise RuntimeError(f"{func}: tensors on the CPU and on the device")


def inner(each: Any) -> Any:
    return each.inner if isinstance(each, OnDevice) else each


def takes_mask(packet, args) -> bool:
    """Whether rows are chosen by a mask: how many there are must be known."""
    if packet not in PLACES:
        return False
    return any(each is not None and each.dtype is torch.bool for each in args[1])
