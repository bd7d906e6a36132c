"""Where the bytes of an array lie: the address, the length and the kind of memory behind whatever holds it, without copying.

Knows pools of this package, tensors with `data_ptr` (torch), DLPack, CUDA arrays, and everything with the buffer protocol. What it
returns keeps the memory alive.
"""
from __future__ import annotations

import array
import ctypes
from typing import Any, NamedTuple, Sequence, Tuple

from ._native import ffi, lib
from .constants import Memory
from .errors import check
from .statuses import Invalid

__all__ = ["Array", "Pool", "Span", "array_of", "page_numbers", "span_of"]

KIND_FROM_LIBRARY = 0

# Device types of DLPack whose addresses the library can use: kDLCPU and kDLCUDAHost; kDLCUDA and kDLCUDAManaged.
DLPACK_KINDS = {1: KIND_FROM_LIBRARY, 3: KIND_FROM_LIBRARY, 2: int(Memory.CUDA), 13: int(Memory.CUDA)}


class Span(NamedTuple):
    """A stretch of memory, and what keeps it from going away."""
    address: int
    length_bytes: int
    kind: int
    owner: object


class Array(NamedTuple):
    """A strided array in memory. Strides are in bytes; `dtype` is the element type's name as its owner calls it."""
    address: int
    shape: Tuple[int, ...]
    strides_bytes: Tuple[int, ...]
    item_bytes: int
    dtype: str
    kind: int
    owner: object

    def length_bytes(self) -> int:
        """From the first byte to one past the last."""
        if 0 in self.shape:
            return 0
        if any(stride < 0 for stride in self.strides_bytes):
            raise Invalid("an array that runs backwards cannot be used", {"strides": str(self.strides_bytes)})
        return self.item_bytes + sum((count - 1) * stride for count, stride in zip(self.shape, self.strides_bytes))


class Pool:
    """Memory from `kvf_memory_alloc`: zeroed, and other ranks of the host can copy straight into it.

    `numpy.frombuffer(pool.buffer, dtype)` is an array on it. Freed when nothing refers to the pool or its buffer any more.
    """

    def __init__(self, length_bytes: int) -> None:
        memory, error = ffi.new("void **"), ffi.new("kvf_error **")
        check(lib.kvf_memory_alloc(length_bytes, memory, error), error)
        self._memory = ffi.gc(memory[0], lib.kvf_memory_free)
        self.length_bytes = length_bytes
        self.address = int(ffi.cast("uintptr_t", memory[0]))

    @property
    def buffer(self) -> memoryview:
        """The bytes, writable, without a copy; a view keeps the memory alive."""
        return memoryview(ffi.buffer(self._memory, self.length_bytes))

    def __len__(self) -> int:
        return self.length_bytes


class _DlTensor(ctypes.Structure):
    """The head of a DLPack managed tensor, as its specification lays it out."""
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


DLPACK_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat"}


def _row_major(shape: Sequence[int], item_bytes: int) -> Tuple[int, ...]:
    strides = [item_bytes] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        strides[axis] = strides[axis + 1] * shape[axis + 1]
    return tuple(strides)


def _array_from_tensor(tensor: Any) -> Array:
    item_bytes = int(tensor.element_size())
    shape = tuple(int(count) for count in tensor.shape)
    strides = tuple(int(stride) * item_bytes for stride in tensor.stride())
    kind = int(Memory.CUDA) if tensor.device.type == "cuda" else KIND_FROM_LIBRARY
    if tensor.device.type not in ("cpu", "cuda"):
        raise Invalid("this device's memory cannot be used", {"device": str(tensor.device)})
    return Array(int(tensor.data_ptr()), shape, strides, item_bytes, str(tensor.dtype).rpartition(".")[2], kind, tensor)


def _array_from_dlpack(exporter: Any) -> Array:
    # The capsule is kept and never consumed: when it goes, its own destructor gives the tensor back.
    capsule = exporter.__dlpack__()
    pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
    pointer_of.restype, pointer_of.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    tensor = _DlTensor.from_address(pointer_of(capsule, b"dltensor"))
    if tensor.device_type not in DLPACK_KINDS:
        raise Invalid("this device's memory cannot be used", {"dlpack_device": str(tensor.device_type)})
    item_bytes = (tensor.bits * tensor.lanes + 7) // 8
    shape = tuple(tensor.shape[axis] for axis in range(tensor.ndim))
    strides = tuple(tensor.strides[axis] * item_bytes for axis in range(tensor.ndim)) if tensor.strides else _row_major(shape, item_bytes)
    dtype = f"{DLPACK_CODES.get(tensor.code, 'other')}{tensor.bits}"
    return Array((tensor.data or 0) + tensor.byte_offset, shape, strides, item_bytes, dtype, DLPACK_KINDS[tensor.device_type], (exporter, capsule))


def _array_from_interface(face: Any, kind: int, owner: object) -> Array:
    letter, item_bytes = face["typestr"][1], int(face["typestr"][2:])
    shape = tuple(int(count) for count in face["shape"])
    address, read_only = face["data"]
    if read_only:
        raise Invalid("the memory is read-only", {"type": type(owner).__name__})
    strides = face.get("strides") or _row_major(shape, item_bytes)
    name = {"f": "float", "i": "int", "u": "uint"}.get(letter, "other")
    return Array(int(address), shape, tuple(strides), item_bytes, f"{name}{item_bytes * 8}", kind, owner)


def _array_from_buffer(holder: Any) -> Array:
    try:
        pointer = ffi.from_buffer("unsigned char[]", holder, require_writable=True)
    except (TypeError, BufferError, ValueError) as fault:
        raise Invalid("neither a tensor, an array nor a writable contiguous buffer", {"type": type(holder).__name__}) from fault
    view = memoryview(holder)
    return Array(int(ffi.cast("uintptr_t", pointer)), tuple(view.shape or ()), tuple(view.strides or ()), view.itemsize, view.format,
                 KIND_FROM_LIBRARY, pointer)


def array_of(holder: Any) -> Array:
    """The strided array that `holder` is or wraps."""
    if isinstance(holder, Pool):
        return Array(holder.address, (holder.length_bytes,), (1,), 1, "uint8", KIND_FROM_LIBRARY, holder)
    if hasattr(holder, "data_ptr"):
        return _array_from_tensor(holder)
    if hasattr(holder, "__cuda_array_interface__"):
        return _array_from_interface(holder.__cuda_array_interface__, int(Memory.CUDA), holder)
    if hasattr(holder, "__array_interface__"):
        return _array_from_interface(holder.__array_interface__, KIND_FROM_LIBRARY, holder)
    if hasattr(holder, "__dlpack__"):
        return _array_from_dlpack(holder)
    return _array_from_buffer(holder)


def span_of(holder: Any) -> Span:
    """The stretch of memory from the first to the last byte of `holder`; or of an (address, length_bytes) pair, whose memory the
    caller keeps alive."""
    if isinstance(holder, tuple) and len(holder) == 2:
        return Span(int(holder[0]), int(holder[1]), KIND_FROM_LIBRARY, None)
    found = array_of(holder)
    return Span(found.address, found.length_bytes(), found.kind, found.owner)


def page_numbers(pages: Any) -> Tuple[Any, int]:
    """A `uint32_t *` to page numbers and their count. Contiguous arrays of 4-byte integers on the host are used as they are;
    other sequences are copied. The pointer keeps what it points to alive."""
    if isinstance(pages, (list, tuple, range)):
        return _pages_from_numbers(pages)
    found = array_of(pages) if not isinstance(pages, (bytes, memoryview, array.array)) else None
    if found is None:
        view = memoryview(pages)
        if view.itemsize == 4 and view.format in ("I", "i", "L", "l") and view.contiguous:
            pointer = ffi.from_buffer("uint32_t[]", view)
            return pointer, len(pointer)
        return _pages_from_numbers(view.tolist())
    if found.item_bytes == 4 and found.dtype in ("int32", "uint32") and len(found.shape) == 1 and found.kind != Memory.CUDA:
        if not found.shape[0]:
            return ffi.NULL, 0
        if found.strides_bytes == (4,):
            pointer = ffi.cast("uint32_t *", found.address)
            return ffi.gc(pointer, lambda _pointer, owner=found.owner: None), found.shape[0]
    return _pages_from_numbers(pages.tolist())


def _pages_from_numbers(pages: Sequence[int]) -> Tuple[Any, int]:
    try:
        return ffi.new("uint32_t[]", pages if isinstance(pages, (list, tuple)) else list(pages)), len(pages)
    except (OverflowError, TypeError) as fault:
        raise Invalid("a page number is not an integer from 0 to 4294967295", {"cause": str(fault)}) from fault
