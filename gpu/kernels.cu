// The copy kernels: one launch copies all tiles of a piece, all layers, K and V, whatever ranks they go to. One warp takes one tile;
// where its lanes read and write is decided in copy/tile.h, which the CPU tests run as it is. One kernel for each width of vectors,
// named kvferry_copy_<bytes>. Nothing here allocates, branches on data, or synchronizes.
#include "copy/tile.h"

namespace {

constexpr int kAhead = 8;  // loads a lane has under way before it stores the first

// Pages and staging are read once and written once: neither is worth a place in the caches.
template <typename Vector>
__device__ __forceinline__ Vector Load(uint64_t address) {
  return __ldcs(reinterpret_cast<const Vector *>(address));
}

template <typename Vector>
__device__ __forceinline__ void Store(uint64_t address, Vector value) {
  __stcs(reinterpret_cast<Vector *>(address), value);
}

template <typename Vector, uint32_t kShift>
__device__ __forceinline__ void CopyTiles(const copy_tile *tiles, uint32_t tile_count) {
  static_assert(sizeof(Vector) == 1u << kShift, "a vector is as wide as its shift says");
  const uint32_t index = (blockIdx.x * blockDim.x + threadIdx.x) / COPY_TILE_LANES;
  if (index >= tile_count) return;
  const copy_tile tile = tiles[index];
  copy_tile_cursor cursor = copy_tile_begin(&tile, threadIdx.x % COPY_TILE_LANES, kShift);
  while (cursor.left >= kAhead) {
    Vector values[kAhead];
    uint64_t targets[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; i++) {
      values[i] = Load<Vector>(cursor.source);
      targets[i] = cursor.target;
      copy_tile_next(&cursor);
    }
#pragma unroll
    for (int i = 0; i < kAhead; i++) Store<Vector>(targets[i], values[i]);
  }
  for (; cursor.left; copy_tile_next(&cursor)) Store<Vector>(cursor.target, Load<Vector>(cursor.source));
}

}  // namespace

#define KERNEL(bytes, vector, shift)                                                                           \
  extern "C" __global__ void __launch_bounds__(256) kvferry_copy_##bytes(const copy_tile *tiles, uint32_t tile_count) { \
    CopyTiles<vector, shift>(tiles, tile_count);                                                               \
  }

KERNEL(16, uint4, 4)
KERNEL(8, uint2, 3)
KERNEL(4, unsigned int, 2)
KERNEL(2, unsigned short, 1)
KERNEL(1, unsigned char, 0)
