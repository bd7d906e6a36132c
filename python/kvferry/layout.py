"""Planes: how one rank describes the cache it holds; and what two instances would send each other, worked out without a connection."""
from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ._memory import array_of, span_of
from ._native import ffi, lib
from ._structs import options, values_of
from .constants import Dtype, Layout, Role, Way
from .errors import check
from .statuses import Invalid

__all__ = ["Flow", "Plane", "RankPlanes", "attention_planes", "compare", "heads_split", "plan"]

DTYPES = {"bfloat16": Dtype.BF16, "float16": Dtype.F16, "float32": Dtype.F32, "float8_e4m3fn": Dtype.FP8_E4M3, "float8_e5m2": Dtype.FP8_E5M2,
          "int8": Dtype.INT8, "uint8": Dtype.UINT8, "bfloat16bit": Dtype.BF16}


@dataclass(frozen=True)
class Plane:
    """One strided array: one role of one layer, the heads of it that this rank owns, in pages. See kvferry/plane.h for each field."""
    layer: int
    role: int
    dtype: int
    heads_total: int
    head_first: int
    head_count: int
    head_bytes: int
    page_tokens: int
    page_count: int
    page_stride_bytes: int
    token_stride_bytes: int
    head_stride_bytes: int
    address: int
    page_list: int = 0
    part: int = 0
    component: int = 0
    entry_tokens: int = 0
    window_tokens: int = 0
    per_request: int = 0
    token_parts: int = 0
    token_part: int = 0
    token_block: int = 0

    @staticmethod
    def from_array(holder: Any, *, layer: int, role: int, heads_total: int, head_first: int = 0, axes: str = "page token head dim",
                   dtype: Optional[int] = None, **more: int) -> Plane:
        """The plane of an array or tensor whose axes are, in memory order, those named in `axes`: a permutation of "page token head dim",
        or without "head" where there is one (MLA). "dim" must be contiguous. `dtype` is told by the array where it can be.
        """
        found = array_of(holder)
        names = axes.split()
        if sorted(names) not in (["dim", "head", "page", "token"], ["dim", "page", "token"]) or len(names) != len(found.shape):
            raise Invalid("axes must name each dimension of the array once", {"axes": axes, "shape": str(found.shape)})
        size, stride = dict(zip(names, found.shape)), dict(zip(names, found.strides_bytes))
        if stride["dim"] != found.item_bytes and size["dim"] != 1:
            raise Invalid("the elements of a head are not contiguous", {"stride_bytes": str(stride["dim"])})
        tag = dtype if dtype is not None else DTYPES.get(found.dtype)
        if tag is None:
            raise Invalid("give the dtype: the array's element type does not tell it", {"dtype": found.dtype})
        head_bytes = size["dim"] * found.item_bytes
        return Plane(layer=layer, role=role, dtype=int(tag), heads_total=heads_total, head_first=head_first, head_count=size.get("head", 1),
                     head_bytes=head_bytes, page_tokens=size["token"], page_count=size["page"], page_stride_bytes=stride["page"],
                     token_stride_bytes=stride["token"], head_stride_bytes=stride.get("head", head_bytes), address=found.address, **more)


def planes_array(planes: Sequence[Plane]) -> Any:
    """A C array of them."""
    return ffi.new("kvf_plane[]", [asdict(plane) for plane in planes])


def heads_split(heads_total: int, rank: int, rank_count: int) -> Tuple[int, int]:
    """(head_first, head_count) that tensor-parallel rank `rank` of `rank_count` holds."""
    first, count, error = ffi.new("uint32_t *"), ffi.new("uint32_t *"), ffi.new("kvf_error **")
    check(lib.kvf_heads_split(heads_total, rank, rank_count, first, count, error), error)
    return int(first[0]), int(count[0])


def attention_planes(*, layer_count: int, heads_total: int, head_bytes: int, page_count: int, page_tokens: int = 16, pool: Any = None, rank: int = 0,
                     rank_count: int = 1, dtype: int = Dtype.BF16, layout: int = Layout.NHD, layer_first: int = 0, page_list: int = 0,
                     mla: bool = False) -> Tuple[List[Plane], int]:
    """The usual attention cache of one rank: its planes, and the bytes of the pool that they need.

    The pool lies layer after layer, K then V, without padding. Call it without `pool` to learn the size, then with it.
    """
    given, borrowed = options("kvf_planes_options", dict(
        layer_first=layer_first, layer_count=layer_count, heads_total=heads_total, rank=rank, rank_count=rank_count, head_bytes=head_bytes, dtype=dtype,
        layout=layout, page_tokens=page_tokens, page_count=page_count, page_list=page_list, mla=int(mla),
        address=0 if pool is None else span_of(pool).address))
    count, pool_bytes, error = ffi.new("uint32_t *"), ffi.new("uint64_t *"), ffi.new("kvf_error **")
    check(lib.kvf_planes_fill(given, ffi.NULL, 0, count, pool_bytes, error), error)
    filled = ffi.new("kvf_plane[]", count[0])
    check(lib.kvf_planes_fill(given, filled, count[0], count, pool_bytes, error), error)
    del borrowed
    return [Plane(**values_of(filled[index])) for index in range(count[0])], int(pool_bytes[0])


@dataclass(frozen=True)
class RankPlanes:
    """The planes of one rank of an instance, for comparing and planning."""
    planes: Sequence[Plane]
    stage: int = 0


def _rank_planes(ranks: Sequence[RankPlanes]) -> Tuple[Any, List[object]]:
    arrays = [planes_array(rank.planes) for rank in ranks]
    given = ffi.new("kvf_rank_planes[]", [{"planes": planes, "plane_count": len(rank.planes), "stage": rank.stage}
                                          for planes, rank in zip(arrays, ranks)])
    return given, list(arrays)


def compare(sources: Sequence[RankPlanes], target: RankPlanes, target_rank: int = 0) -> None:
    """Would `target` accept `sources`? Raises Incompatible or NotCovered, which name every difference."""
    senders, kept_senders = _rank_planes(sources)
    receiver, kept_receiver = _rank_planes([target])
    error = ffi.new("kvf_error **")
    check(lib.kvf_layout_compare(senders, len(sources), receiver, target_rank, error), error)
    del kept_senders, kept_receiver


@dataclass(frozen=True)
class Flow:
    """What one source would send to the target for one request."""
    source: int
    way: Way
    reason: str
    bytes: int
    pieces: int
    slices: int
    direct_writes: int
    row_bytes: int
    layer_first: int
    layer_end: int


def plan(sources: Sequence[RankPlanes], target: RankPlanes, *, token_end: int, token_first: int = 0, target_rank: int = 0,
         piece_bytes: int = 0, direct_min_row_bytes: int = 0, way: Way = Way.AUTO) -> List[Flow]:
    """What each source would send to `target` for tokens [token_first, token_end) of a request."""
    senders, kept_senders = _rank_planes(sources)
    receiver, kept_receiver = _rank_planes([target])
    given, _ = options("kvf_plan_options", dict(token_first=token_first, token_end=token_end, piece_bytes=piece_bytes,
                                                direct_min_row_bytes=direct_min_row_bytes, way=int(way)))
    given.flow_bytes = ffi.sizeof("kvf_plan_flow")
    flows, error = ffi.new("kvf_plan_flow[]", max(1, len(sources))), ffi.new("kvf_error **")
    check(lib.kvf_plan_summarise(senders, len(sources), receiver, target_rank, given, flows, error), error)
    del kept_senders, kept_receiver
    return [_flow_of(flows[index]) for index in range(len(sources))]


def _flow_of(flow: Any) -> Flow:
    values: Dict[str, Any] = values_of(flow)
    values["way"] = Way(values["way"])
    return Flow(**{name: values[name] for name in Flow.__dataclass_fields__})
