/* The version of the library: MAJOR.MINOR.PATCH, one source for the build file, the soname and the handshake. */
#ifndef KVFERRY_VERSION_H
#define KVFERRY_VERSION_H

#include <stdint.h>

#include <kvferry/visibility.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KVF_VERSION_MAJOR 0
#define KVF_VERSION_MINOR 1
#define KVF_VERSION_PATCH 0

/** The version of the loaded library, as text. */
KVF_API const char *kvf_version(void);

#ifdef __cplusplus
}
#endif
#endif
