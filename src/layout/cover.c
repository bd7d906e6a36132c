/* Fitting shares together. Most layers have the same ones, so the last good comparison is kept. */
#include "layout/cover.h"

#include <string.h>

#include "base/alloc.h"
#include "base/error.h"
#include "layout/name.h"

bool layout_cover_init(struct layout_cover *cover, uint64_t holding_count) {
  *cover = (struct layout_cover){0};
  cover->writers = base_alloc((size_t)(holding_count + 1) * sizeof *cover->writers);
  cover->shares = base_alloc((size_t)(holding_count + 1) * sizeof *cover->shares);
  cover->kept = base_alloc((size_t)(holding_count + 1) * sizeof *cover->kept);
  return cover->writers && cover->shares && cover->kept;
}

void layout_cover_fini(struct layout_cover *cover) {
  base_free(cover->writers);
  base_free(cover->shares);
  base_free(cover->kept);
}

/* Number @p target_rank % n of the n holdings that have the share of holding number @p at; NULL when an earlier one has it too. */
static const struct layout_holding *find_writer(const struct layout_holding *const *holdings, uint64_t holding_count, uint64_t at,
                                                uint32_t target_rank) {
  const struct layout_share share = layout_share_of(holdings[at]->plane);
  uint64_t replicas = 0, wanted;
  for (uint64_t i = 0; i < holding_count; i++) {
    const struct layout_share other = layout_share_of(holdings[i]->plane);
    if (!layout_share_equal(&share, &other)) continue;
    if (i < at) return NULL;
    replicas++;
  }
  wanted = target_rank % replicas;
  for (uint64_t i = at;; i++) {
    const struct layout_share other = layout_share_of(holdings[i]->plane);
    if (layout_share_equal(&share, &other) && wanted-- == 0) return holdings[i];
  }
}

static kvf_error *join_periods(const struct layout_cover *cover, uint64_t share_count, const kvf_plane *mine,
                               uint64_t *period_out) {
  uint64_t period = 1;
  for (uint64_t i = 0; i < share_count; i++) {
    if (layout_period_join(period, cover->shares[i].period, &period)) continue;
    char array[64];
    kvf_error *error = BASE_ERROR(KVF_TOO_LARGE, NULL, "the token parts of both sides repeat after too many entries");
    base_error_add(error, "property", "%s token_parts", layout_array_name(mine, array));
    return base_error_add(error, "limit", "%d", LAYOUT_PERIOD_LIMIT);
  }
  *period_out = period;
  return NULL;
}

/* What becomes of the entries from @p entry on: how many shares beside the wanted one hold them, and for how long that is so. */
static uint64_t count_holders(const struct layout_cover *cover, uint64_t share_count, uint64_t entry, uint64_t *row_out) {
  uint64_t holders = 0, row = layout_share_row(&cover->shares[0], entry);
  for (uint64_t i = 1; i < share_count; i++) {
    const struct layout_share *share = &cover->shares[i];
    uint64_t ahead = layout_share_ahead(share, entry);
    holders += ahead == 0;
    row = base_min_u64(row, ahead ? ahead : layout_share_row(share, entry));
  }
  *row_out = row;
  return holders;
}

/* Over one period: true when each wanted entry has one holder. The first gap and the first double cover are complained about. */
static bool fit_shares(const struct layout_cover *cover, uint64_t share_count, uint64_t period,
                       const struct layout_interval *interval, struct layout_complaints *complaints) {
  bool gap = false, twice = false;
  for (uint64_t entry = layout_share_ahead(&cover->shares[0], 0), row; entry < period;
       entry += row, entry += layout_share_ahead(&cover->shares[0], entry)) {
    uint64_t holders = count_holders(cover, share_count, entry, &row);
    row = base_min_u64(row, period - entry);
    struct layout_interval wrong = *interval;
    wrong.entry_first = entry;
    wrong.entry_end = entry + row;
    wrong.period = period;
    if (holders == 0 && !gap) layout_intervals_add(&complaints->gaps, &wrong);
    if (holders > 1 && !twice) layout_intervals_add(&complaints->doubles, &wrong);
    gap = gap || holders == 0;
    twice = twice || holders > 1;
  }
  return !gap && !twice;
}

static bool is_kept(const struct layout_cover *cover, uint64_t share_count) {
  bool same = share_count == cover->kept_count;
  for (uint64_t i = 0; same && i < share_count; i++) same = layout_share_equal(&cover->shares[i], &cover->kept[i]);
  return same;
}

kvf_error *layout_cover_settle(struct layout_cover *cover, const kvf_plane *mine, const struct layout_holding *const *holdings,
                               uint64_t holding_count, uint32_t target_rank, const struct layout_interval *interval,
                               struct layout_complaints *complaints) {
  uint64_t period = 0, share_count = 1;
  cover->shares[0] = layout_share_of(mine);
  cover->writer_count = 0;
  for (uint64_t i = 0; i < holding_count; i++) {
    const struct layout_holding *writer = find_writer(holdings, holding_count, i, target_rank);
    if (!writer) continue;
    cover->shares[share_count++] = layout_share_of(writer->plane);
    cover->writers[cover->writer_count++] = writer;
  }
  if (!is_kept(cover, share_count)) {
    kvf_error *error = join_periods(cover, share_count, mine, &period);
    if (error) return error;
    if (fit_shares(cover, share_count, period, interval, complaints)) {
      memcpy(cover->kept, cover->shares, (size_t)share_count * sizeof *cover->kept);
      cover->kept_count = share_count;
    }
  }
  /* A share may have nothing that is wanted. */
  uint64_t given = 0;
  for (uint64_t i = 0; i < cover->writer_count; i++) {
    struct layout_overlap overlap;
    if (!layout_overlap_open(&cover->shares[0], &cover->shares[i + 1], &overlap) || overlap.period_entries == 0) continue;
    cover->writers[given++] = cover->writers[i];
  }
  cover->writer_count = given;
  return NULL;
}
