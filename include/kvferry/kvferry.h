/* All of kvferry. */
#ifndef KVFERRY_KVFERRY_H
#define KVFERRY_KVFERRY_H

#include <kvferry/cache.h>
#include <kvferry/engine.h>
#include <kvferry/error.h>
#include <kvferry/event.h>
#include <kvferry/log.h>
#include <kvferry/peer.h>
#include <kvferry/plan.h>
#include <kvferry/plane.h>
#include <kvferry/recv.h>
#include <kvferry/region.h>
#include <kvferry/send.h>
#include <kvferry/status.h>
#include <kvferry/version.h>

#endif
