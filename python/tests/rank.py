"""Ranks with pools whose every element tells where it belongs, in this process or in another one."""
import subprocess
import sys

import numpy as np

import kvferry

LAYERS, HEADS, DIM, PAGE_TOKENS, PAGES = 3, 4, 8, 4, 32
TIMEOUT = 20


class Rank:
    """An engine with a pool [layer][k, v][page][token][head][dim] of 16-bit elements, and its planes open."""

    def __init__(self, rank=0, rank_count=1, label=None, **options):
        self.head_first, self.head_count = kvferry.heads_split(HEADS, rank, rank_count)
        shape = (LAYERS, 2, PAGES, PAGE_TOKENS, self.head_count, DIM)
        self.memory = kvferry.Pool(2 * int(np.prod(shape)))
        self.pool = np.frombuffer(self.memory.buffer, np.uint16).reshape(shape)
        self.engine = kvferry.Engine(label=label, **options)
        self.regions = self.engine.register(self.memory)
        planes, pool_bytes = kvferry.attention_planes(layer_count=LAYERS, heads_total=HEADS, head_bytes=2 * DIM, page_count=PAGES,
                                                      page_tokens=PAGE_TOKENS, pool=self.memory, rank=rank, rank_count=rank_count)
        assert pool_bytes == self.memory.length_bytes
        self.planes = planes
        self.engine.open_cache(planes, rank=rank, rank_count=rank_count)

    def expected(self, seed, tokens):
        """[layer][k, v][token][head][dim] of this rank's heads."""
        layer, side, token, head, element = np.ogrid[:LAYERS, :2, :tokens, self.head_first:self.head_first + self.head_count, :DIM]
        return ((((layer * 2 + side) * 1031 + token) * 37 + head) * 11 + element + seed).astype(np.uint16)

    def fill(self, seed, pages, tokens):
        values = self.expected(seed, tokens)
        for token in range(tokens):
            self.pool[:, :, pages[token // PAGE_TOKENS], token % PAGE_TOKENS] = values[:, :, token]

    def received(self, pages, tokens):
        return np.stack([self.pool[:, :, pages[token // PAGE_TOKENS], token % PAGE_TOKENS] for token in range(tokens)], axis=2)


def main():
    rank, rank_count, rooms, tokens = map(int, sys.argv[1:5])
    own = Rank(rank, rank_count, label=f"prefill-{rank}", fabrics=sys.argv[5])
    print(own.engine.address, flush=True)
    pages = np.random.default_rng(rank).permutation(PAGES)[:-(-tokens // PAGE_TOKENS)].astype(np.uint32)
    own.fill(7, pages, tokens)
    sends = [own.engine.send(room) for room in range(1, rooms + 1)]
    half = tokens // 2 // PAGE_TOKENS * PAGE_TOKENS
    for send in sends:
        send.post((0, half), pages)
        send.post((half, tokens), pages, final=True, aux=b"token %d" % rank)
    for send in sends:
        send.wait(TIMEOUT)
    own.engine.close()


def start(rank, rank_count, rooms, tokens, fabrics):
    """Such a process and its address."""
    process = subprocess.Popen([sys.executable, "-B", __file__, *map(str, (rank, rank_count, rooms, tokens)), fabrics], stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


if __name__ == "__main__":
    main()
