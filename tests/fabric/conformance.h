/* What every provider must do, run against one of them: the receiving side lives in forked processes, so that it can be killed and
 * stopped. A new provider needs a line in test_conformance.c and in meson.build. */
#ifndef TESTS_FABRIC_CONFORMANCE_H
#define TESTS_FABRIC_CONFORMANCE_H

#include "fabric/fabric.h"

/* The number of failed cases, or 77 when the provider is UNAVAILABLE here. @p settings may be NULL. */
int conformance_run(const struct fabric_ops *ops, const char *settings);

#endif
