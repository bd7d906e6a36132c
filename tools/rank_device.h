/* A rank whose cache is in CUDA memory: its pool is an image of it on the host, where the pattern is written and compared; these carry
 * the pages of a room between the two. On a rank in host memory they do nothing. */
#ifndef TOOLS_RANK_DEVICE_H
#define TOOLS_RANK_DEVICE_H

#include "pages.h"
#include "rank_room.h"

/** Allocate the pool on the device, canary as in the image. */
bool rank_device_open(struct rank *rank);
void rank_device_close(struct rank *rank);
/** What to add to an address in the image for the one on the device. */
uint64_t rank_device_shift(const struct rank *rank);
/** The pages of a room to the device, or back. */
void rank_device_upload(struct rank *rank, const struct pages *pages);
void rank_device_download(struct rank *rank, const struct pages *pages);
/** The whole pool back. */
void rank_device_download_all(struct rank *rank);

#endif
