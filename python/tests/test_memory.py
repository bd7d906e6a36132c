"""Arrays, tensors and buffers as regions, planes and page lists, without copies."""
import array
import ctypes
import gc
import mmap

import numpy as np
import pytest

import kvferry
from kvferry._memory import array_of, page_numbers, span_of
from kvferry._native import ffi


class OnlyDlpack:
    """Hides everything of an array but its DLPack side."""

    def __init__(self, holder):
        self.holder = holder

    def __dlpack__(self, **options):
        return self.holder.__dlpack__(**options)


class Cuda:
    """What a CUDA array says of itself."""
    __cuda_array_interface__ = {"shape": (4, 8), "typestr": "<f2", "data": (0x7F0000000000, False), "version": 3, "strides": None}


def test_strided_arrays_reach_from_first_to_last_byte():
    whole = np.zeros((4, 6, 8), np.float16)
    part = whole[1:3, ::2, 2:5]
    for holder in (part, OnlyDlpack(part)):
        span = span_of(holder)
        assert span.address == part.ctypes.data
        assert span.length_bytes == np.lib.array_utils.byte_bounds(part)[1] - part.ctypes.data if hasattr(np.lib, "array_utils") else True
    assert array_of(OnlyDlpack(part))[:4] == array_of(part)[:4]
    assert span_of(np.zeros((0, 3))).length_bytes == 0


def test_other_holders():
    held = bytearray(100)
    assert span_of(held).address == ctypes.addressof((ctypes.c_char * 100).from_buffer(held))
    with mmap.mmap(-1, 8192) as mapping:
        span = span_of(mapping)
        assert span.length_bytes == 8192
        del span
    pool = kvferry.Pool(4096)
    assert span_of(pool)[:2] == (pool.address, 4096) == span_of(np.frombuffer(pool.buffer, np.uint8))[:2]
    assert span_of((pool.address, 10))[:2] == (pool.address, 10)
    assert span_of(Cuda())[:3] == (0x7F0000000000, 64, kvferry.Memory.CUDA)


@pytest.mark.parametrize("holder", [b"read only", np.arange(3)[::-1], "text", memoryview(b"read only"), np.frombuffer(b"read", np.uint8)])
def test_refused(holder):
    with pytest.raises(kvferry.Invalid):
        span_of(holder)


def test_torch_tensors():
    torch = pytest.importorskip("torch")
    tensor = torch.zeros(5, 4, 2, 16, dtype=torch.bfloat16)[:, :, 1:]
    plane = kvferry.Plane.from_array(tensor, layer=0, role=kvferry.Role.K, heads_total=2, head_first=1)
    assert (plane.address, plane.dtype, plane.head_count, plane.head_bytes) == (tensor.data_ptr(), kvferry.Dtype.BF16, 1, 32)
    assert page_numbers(torch.tensor([3, 1], dtype=torch.int32))[1] == 2


def test_a_pool_lives_as_long_as_a_view_of_it():
    view = np.frombuffer(kvferry.Pool(1 << 20).buffer, np.uint8)
    gc.collect()
    view[:] = 7
    assert view.sum() == 7 << 20


def test_plane_of_an_array_equals_the_library_s_own():
    layers, heads, dim, page_tokens, pages = 2, 6, 8, 4, 5
    for layout, axes, shape in ((kvferry.Layout.NHD, "page token head dim", (pages, page_tokens, 2, dim)),
                                (kvferry.Layout.HND, "page head token dim", (pages, 2, page_tokens, dim))):
        pool = np.zeros((layers, 2, *shape), np.float16)
        planes, pool_bytes = kvferry.attention_planes(layer_count=layers, heads_total=heads, head_bytes=2 * dim, page_count=pages, page_tokens=page_tokens,
                                                      pool=pool, rank=1, rank_count=3, dtype=kvferry.Dtype.F16, layout=layout)
        assert pool_bytes == pool.nbytes
        own = [kvferry.Plane.from_array(pool[layer, side], layer=layer, role=role, heads_total=heads, head_first=2, axes=axes)
               for layer in range(layers) for side, role in enumerate((kvferry.Role.K, kvferry.Role.V))]
        assert own == planes


def test_page_numbers_without_a_copy():
    numbers = np.array([4, 2, 9], np.int32)
    for holder in (numbers, numbers.view(np.uint32), OnlyDlpack(numbers)):
        pointer, count = page_numbers(holder)
        assert count == 3 and int(ffi.cast("uintptr_t", pointer)) == numbers.ctypes.data
    held = array.array("I", [4, 2, 9])
    assert int(ffi.cast("uintptr_t", page_numbers(held)[0])) == held.buffer_info()[0]


@pytest.mark.parametrize("holder", [[4, 2, 9], (4, 2, 9), np.array([4, 2, 9]), np.array([4, 0, 2, 0, 9], np.int32)[::2], array.array("Q", [4, 2, 9]),
                                    np.array([4, 2, 9], np.uint8)])
def test_page_numbers_of_other_sequences(holder):
    pointer, count = page_numbers(holder)
    assert [pointer[index] for index in range(count)] == [4, 2, 9]


@pytest.mark.parametrize("holder", [[-1], [1 << 32], ["a"], [1.5]])
def test_page_numbers_refused(holder):
    with pytest.raises(kvferry.Invalid):
        page_numbers(holder)


def test_a_region_keeps_its_memory(tmp_path):
    with kvferry.Engine() as engine:
        region, = engine.register(np.ones(4096, np.uint8))
        gc.collect()
        assert engine.stats()["region_bytes"] == 4096
        with pytest.raises(kvferry.Overlap):
            engine.register((region.address + 10, 4096))
        region.close()
        region.close()
        assert engine.stats()["regions"] == 0
