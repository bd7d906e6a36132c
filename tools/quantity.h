/* Quantities as people write and read them: sizes with binary units, counts with thousands apart, times. */
#ifndef TOOLS_QUANTITY_H
#define TOOLS_QUANTITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { QUANTITY_TEXT_BYTES = 48 };

/** "4096", "64KiB", "64K", "1MiB", "2G", all binary. False when it is none of these or does not fit 64 bits. */
bool quantity_parse_size(const char *text, uint64_t *bytes_out);
/** Decimal digits only. False otherwise, or when it does not fit 64 bits. */
bool quantity_parse_count(const char *text, uint64_t *count_out);
/** A finite decimal number that is not negative. */
bool quantity_parse_real(const char *text, double *real_out);

/** These write at most QUANTITY_TEXT_BYTES into @p text and return it. */
const char *quantity_format_bytes(double bytes, char *text);
const char *quantity_format_count(uint64_t count, char *text);
const char *quantity_format_seconds(double seconds, char *text);

#endif
