/* Page lists: a pool's allocator gives pages in runs, so runs are what travels; a lone page costs no length.
 *
 *   4 lists | each: 4 page_list, 8 first_token, 4 page_count, blob of runs
 *   run: varint(zigzag(first page - page after the run before) << 1 | longer), and if longer: varint(length - 2)
 *
 * 3 bytes for a page anywhere within a million pages, 4 within 64 million, whatever the order. The runs of every list are walked
 * and counted before memory is taken for any, so what is allocated is bounded by WIRE_PAGE_LIMIT however long a run claims to be.
 */
#include "wire/codec.h"

enum { LIST_BYTES_MIN = 20 };

static uint64_t zigzag(int64_t value) {
  return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}
static int64_t unzigzag(uint64_t value) {
  return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Pages in the run that starts at pages[0]. */
static uint32_t count_run(const uint32_t *pages, uint32_t page_count) {
  uint32_t length = 1;
  while (length < page_count && pages[length] == (uint64_t)pages[length - 1] + 1) length++;
  return length;
}

static void put_runs(struct wire_buffer *buffer, const uint32_t *pages, uint32_t page_count) {
  int64_t expected = 0;
  for (uint32_t at = 0, length; at < page_count; at += length) {
    length = count_run(pages + at, page_count - at);
    wire_put_varint(buffer, zigzag((int64_t)pages[at] - expected) << 1 | (length > 1));
    if (length > 1) wire_put_varint(buffer, length - 2);
    expected = (int64_t)pages[at] + length;
  }
}

void wire_put_page_lists(struct wire_buffer *buffer, const kvf_page_list *lists, uint32_t count) {
  uint64_t total = 0;
  if (!wire_put_count(buffer, count, KVF_PAGE_LIST_LIMIT)) return;
  for (uint32_t i = 0; i < count; i++) {
    total += lists[i].page_count;
    if (total > WIRE_PAGE_LIMIT) buffer->failed = true;
    if (buffer->failed) return;
    wire_put_u32(buffer, lists[i].page_list);
    wire_put_u64(buffer, lists[i].first_token);
    wire_put_u32(buffer, lists[i].page_count);
    size_t blob_at = wire_put_blob_begin(buffer);
    put_runs(buffer, lists[i].pages, lists[i].page_count);
    wire_put_blob_end(buffer, blob_at);
  }
}

/* Read one run; false, and a refusal, unless its pages are 32-bit numbers and no more than @p limit. */
static bool get_run(struct wire_reader *runs, int64_t expected, uint64_t limit, uint32_t *first_out, uint64_t *length_out) {
  uint64_t head = wire_get_varint(runs, "page_lists");
  uint64_t more = head & 1 ? wire_get_varint(runs, "page_lists") : 0;
  int64_t delta = unzigzag(head >> 1);
  if (runs->error) return false;
  if (delta < -(int64_t)UINT32_MAX - 1 || delta > (int64_t)UINT32_MAX || expected + delta < 0 ||
      expected + delta > (int64_t)UINT32_MAX) {
    wire_reader_refuse(runs, "page_lists", "a page is out of range");
    return false;
  }
  uint64_t length = head & 1 ? more + 2 : 1; /* a varint has 63 bits */
  if (length > limit || length - 1 > (uint64_t)(UINT32_MAX - (expected + delta))) {
    wire_reader_refuse(runs, "page_lists", "a run is too long");
    return false;
  }
  *first_out = (uint32_t)(expected + delta);
  *length_out = length;
  return true;
}

/* Walk the runs of a list of @p page_count pages; with @p pages_out NULL only to check them. */
static void get_runs(struct wire_reader *runs, uint32_t page_count, uint32_t *pages_out) {
  int64_t expected = 0;
  for (uint64_t at = 0, length; at < page_count; at += length) {
    uint32_t first;
    if (!get_run(runs, expected, page_count - at, &first, &length)) return;
    for (uint64_t i = 0; pages_out && i < length; i++) pages_out[at + i] = (uint32_t)(first + i);
    expected = (int64_t)first + (int64_t)length;
  }
}

/* A reader over one list's blob; its failure is moved to the message's reader. */
static void get_list_runs(struct wire_reader *reader, struct wire_text blob, uint32_t page_count, uint32_t *pages_out) {
  struct wire_reader runs = wire_reader_open(reader->message, (const uint8_t *)blob.text, blob.length, NULL);
  if (reader->error) return;
  get_runs(&runs, page_count, pages_out);
  reader->error = runs.error;
}

uint32_t wire_get_page_lists(struct wire_reader *reader, kvf_page_list *lists_out, const char *field) {
  struct wire_text blobs[KVF_PAGE_LIST_LIMIT];
  uint32_t count = wire_get_count(reader, KVF_PAGE_LIST_LIMIT, LIST_BYTES_MIN, field);
  uint64_t total = 0;
  for (uint32_t i = 0; i < count; i++) {
    kvf_page_list *list = &lists_out[i];
    list->page_list = wire_get_u32(reader, field);
    list->first_token = wire_get_u64(reader, field);
    list->page_count = wire_get_u32(reader, field);
    blobs[i] = wire_get_text(reader, WIRE_PAYLOAD_LIMIT_BYTES, field);
    total += list->page_count;
    if (total > WIRE_PAGE_LIMIT) wire_reader_refuse(reader, field, "too many pages");
    get_list_runs(reader, blobs[i], list->page_count, NULL);
  }
  uint32_t *pages = wire_reader_alloc(reader, total, sizeof *pages);
  for (uint32_t i = 0; !reader->error && i < count; i++) {
    lists_out[i].pages = pages;
    get_list_runs(reader, blobs[i], lists_out[i].page_count, pages);
    if (pages) pages += lists_out[i].page_count;
  }
  return reader->error ? 0 : count;
}
