/* The providers: which are opened, in which order, and their place in the loop.
 *
 *   "auto"       shm, rdma (when a device is there), tcp
 *   "a,b(c=d)"   exactly these; "ucx" stands for rdma when a device is there, and for UCX messages otherwise; settings in parentheses */
#include <stdio.h>
#include <string.h>

#include "engine/inside.h"
#include "fabric_fault/fault.h"
#include "fabric_shm/shm.h"
#include "fabric_tcp/tcp.h"
#include "fabric_ucx/ucx.h"

static const struct fabric_ops *const known_ops[] = {&fabric_shm_ops, &fabric_rdma_ops, &fabric_tcp_ops, &fabric_ucx_ops, &fabric_fault_ops};

static const struct fabric_ops *find_ops(const char *name) {
  for (size_t i = 0; i < sizeof known_ops / sizeof *known_ops; i++) {
    if (strcmp(known_ops[i]->name, name) == 0) return known_ops[i];
  }
  return NULL;
}

static kvf_status open_fabric(kvf_engine *engine, const char *name, const char *settings, kvf_error **error_out) {
  const struct fabric_ops *ops = find_ops(name);
  if (!ops) {
    kvf_error *error = BASE_ERROR(KVF_INVALID, NULL, "there is no fabric called %s", name);
    return base_error_give(base_error_add(error, "known", "auto, shm, tcp, ucx, rdma"), error_out);
  }
  if (engine->fabric_count == ENGINE_FABRIC_LIMIT) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "too many fabrics"), error_out);
  struct control_host_port bound;
  if (control_address_parse(engine->address, false, &bound, error_out) != KVF_OK) return KVF_BAD_ADDRESS;
  struct fabric_options options = {
      .host = bound.host, .settings = settings, .log = engine->log, .callbacks = transfer_fabric_callbacks(engine->transfer)};
  memcpy(options.incarnation, engine->incarnation, sizeof options.incarnation);
  struct engine_fabric *slot = &engine->fabrics[engine->fabric_count];
  kvf_status status = ops->open(&options, &slot->fabric, error_out);
  if (status != KVF_OK) return status;
  slot->engine = engine;
  engine->fabric_count++;
  return KVF_OK;
}

/* Opened when it can be; why not is only of interest to people who look for it. */
static void open_if_present(kvf_engine *engine, const char *name) {
  kvf_error *error = NULL;
  if (open_fabric(engine, name, NULL, &error) == KVF_OK) return;
  base_log_write(&engine->log, KVF_LOG_DEBUG, "fabric %s is not used: %s", name, kvf_error_message(error));
  kvf_error_free(error);
}

/* One entry of the list, "name" or "name(settings)". */
static kvf_status open_entry(kvf_engine *engine, char *entry, kvf_error **error_out) {
  char *settings = strchr(entry, '(');
  if (settings) {
    char *end = strrchr(settings, ')');
    if (!end || end[1] != '\0') return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "fabric %s: no closing parenthesis", entry), error_out);
    *settings++ = '\0';
    *end = '\0';
  }
  if (strcmp(entry, "ucx") == 0 && !settings) open_if_present(engine, "rdma");
  return open_fabric(engine, entry, settings, error_out);
}

static kvf_status open_list(kvf_engine *engine, char *list, kvf_error **error_out) {
  int depth = 0;
  char *entry = list;
  for (char *at = list;; at++) {
    if (*at == '(') depth++;
    if (*at == ')') depth--;
    if (*at != '\0' && (*at != ',' || depth)) continue;
    bool last = *at == '\0';
    *at = '\0';
    kvf_status status = open_entry(engine, entry, error_out);
    if (status != KVF_OK || last) return status;
    entry = at + 1;
  }
}

kvf_status engine_fabrics_open(kvf_engine *engine, kvf_error **error_out) {
  fabric_fault_offer(known_ops, sizeof known_ops / sizeof *known_ops);
  if (strcmp(engine->config.fabrics, "auto") == 0) {
    open_if_present(engine, "shm");
    open_if_present(engine, "rdma");
    return open_fabric(engine, "tcp", NULL, error_out);
  }
  char *list = base_strdup(engine->config.fabrics);
  if (!list) return base_error_give(BASE_ERROR(KVF_NO_MEMORY, NULL, "no memory for the fabric list"), error_out);
  kvf_status status = open_list(engine, list, error_out);
  base_free(list);
  return status;
}

void engine_fabrics_close(kvf_engine *engine) {
  for (uint32_t i = 0; i < engine->fabric_count; i++) engine->fabrics[i].fabric->ops->close(engine->fabrics[i].fabric);
  engine->fabric_count = 0;
}

bool engine_fabrics_progress(kvf_engine *engine) {
  bool did = false;
  for (uint32_t i = 0; i < engine->fabric_count; i++) did = engine->fabrics[i].fabric->ops->progress(engine->fabrics[i].fabric) || did;
  return did;
}

bool engine_fabrics_arm(kvf_engine *engine) {
  bool armed = true;
  for (uint32_t i = 0; i < engine->fabric_count; i++) {
    struct fabric *fabric = engine->fabrics[i].fabric;
    if (fabric->ops->arm && !fabric->ops->arm(fabric)) armed = false;
  }
  return armed;
}

/* Waking up is all that is asked of it: the prepare step makes the progress. */
static void became_readable(uv_poll_t *poll, int status, int events) {}

void engine_fabrics_watch(kvf_engine *engine) {
  for (uint32_t i = 0; i < engine->fabric_count; i++) {
    struct engine_fabric *slot = &engine->fabrics[i];
    int fd = slot->fabric->ops->event_fd(slot->fabric);
    if (fd < 0 || uv_poll_init(&engine->loop, &slot->poll, fd) != 0) continue;
    slot->polled = true;
    uv_poll_start(&slot->poll, UV_READABLE, became_readable);
  }
}

void engine_fabrics_unwatch(kvf_engine *engine) {
  for (uint32_t i = 0; i < engine->fabric_count; i++) {
    if (engine->fabrics[i].polled) uv_close((uv_handle_t *)&engine->fabrics[i].poll, NULL);
    engine->fabrics[i].polled = false;
  }
}
