/* Listening, and the address that peers are given: numeric texts, because a peer's bytes must not make us ask a name server.
 *
 *   version 1 | count 1 | incarnation 16 | count times: length 1, "host:port" */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fabric_tcp/inside.h"

enum { ADDRESS_VERSION = 1, ADDRESS_FIXED_BYTES = 18, TEXT_BYTES = 80, LISTEN_BACKLOG = 256 };

void tcp_address_render(const struct tcp_address *address, char *text) {
  char host[64], port[8];
  if (getnameinfo((const struct sockaddr *)&address->socket, address->length, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    snprintf(text, TEXT_BYTES, "?");
    return;
  }
  bool is_v6 = address->socket.ss_family == AF_INET6;
  snprintf(text, TEXT_BYTES, "%s%s%s:%s", is_v6 ? "[" : "", host, is_v6 ? "]" : "", port);
}

static bool is_wildcard(const struct tcp_address *address) {
  if (address->socket.ss_family == AF_INET) return ((const struct sockaddr_in *)&address->socket)->sin_addr.s_addr == INADDR_ANY;
  return IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)&address->socket)->sin6_addr);
}

static uint16_t port_of(const struct tcp_address *address) {
  if (address->socket.ss_family == AF_INET) return ((const struct sockaddr_in *)&address->socket)->sin_port;
  return ((const struct sockaddr_in6 *)&address->socket)->sin6_port;
}

static void append(uint8_t *bytes, size_t *used, const struct tcp_address *address) {
  char text[TEXT_BYTES];
  tcp_address_render(address, text);
  size_t length = strlen(text);
  if (bytes[1] == TCP_ADDRESS_LIMIT || *used + 1 + length > FABRIC_ADDRESS_LIMIT_BYTES) return;
  bytes[1]++;
  bytes[(*used)++] = (uint8_t)length;
  memcpy(bytes + *used, text, length);
  *used += length;
}

/* One address of an interface, with the listener's port; link-local ones mean nothing to other hosts. */
static bool take_interface(const struct ifaddrs *interface, const struct tcp_address *bound, bool loopback,
                           struct tcp_address *address_out) {
  if (!interface->ifa_addr || !(interface->ifa_flags & IFF_UP)) return false;
  if (loopback != ((interface->ifa_flags & IFF_LOOPBACK) != 0)) return false;
  int family = interface->ifa_addr->sa_family;
  *address_out = (struct tcp_address){0};
  if (family == AF_INET) {
    struct sockaddr_in socket = *(const struct sockaddr_in *)interface->ifa_addr;
    socket.sin_port = port_of(bound);
    memcpy(&address_out->socket, &socket, sizeof socket);
    address_out->length = sizeof socket;
    return true;
  }
  if (family != AF_INET6 || bound->socket.ss_family != AF_INET6) return false;
  struct sockaddr_in6 socket = *(const struct sockaddr_in6 *)interface->ifa_addr;
  if (IN6_IS_ADDR_LINKLOCAL(&socket.sin6_addr)) return false;
  socket.sin6_port = port_of(bound);
  memcpy(&address_out->socket, &socket, sizeof socket);
  address_out->length = sizeof socket;
  return true;
}

/* Bound to every address: name them all, loopback last. */
static void append_interfaces(uint8_t *bytes, size_t *used, const struct tcp_address *bound) {
  struct ifaddrs *interfaces = NULL;
  if (getifaddrs(&interfaces) != 0) return;
  for (int loopback = 0; loopback <= 1; loopback++) {
    for (const struct ifaddrs *interface = interfaces; interface; interface = interface->ifa_next) {
      struct tcp_address address;
      if (take_interface(interface, bound, loopback, &address)) append(bytes, used, &address);
    }
  }
  freeifaddrs(interfaces);
}

static kvf_error *listen_on(const struct addrinfo *found, int *fd_out) {
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
  if (fd < 0) return BASE_ERROR_ERRNO("socket", errno);
  const char *call = "bind";
  if (bind(fd, found->ai_addr, found->ai_addrlen) == 0) {
    call = "listen";
    if (listen(fd, LISTEN_BACKLOG) == 0) {
      *fd_out = fd;
      return NULL;
    }
  }
  kvf_error *error = BASE_ERROR_ERRNO(call, errno);
  close(fd);
  return error;
}

kvf_status tcp_address_listen(const char *host, const uint8_t incarnation[16], int *fd_out, uint8_t *address,
                              size_t *address_bytes_out, kvf_error **error_out) {
  const struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  int answer = getaddrinfo(host, "0", &hints, &found);
  kvf_error *error = NULL;
  if (answer != 0) error = BASE_ERROR(KVF_SYSTEM, NULL, "getaddrinfo: %s", gai_strerror(answer));
  int fd = -1;
  for (const struct addrinfo *each = found; each && fd < 0; each = each->ai_next) {
    kvf_error_free(error);
    error = listen_on(each, &fd);
  }
  if (found) freeaddrinfo(found);
  if (error) {
    error = BASE_ERROR(KVF_SYSTEM, error, "cannot listen for pieces on %s", host);
    return base_error_give(base_error_add(error, "local", "%s", host), error_out);
  }
  struct tcp_address bound = {.length = sizeof bound.socket};
  getsockname(fd, (struct sockaddr *)&bound.socket, &bound.length);
  address[0] = ADDRESS_VERSION;
  address[1] = 0;
  memcpy(address + 2, incarnation, 16);
  *address_bytes_out = ADDRESS_FIXED_BYTES;
  if (is_wildcard(&bound))
    append_interfaces(address, address_bytes_out, &bound);
  else
    append(address, address_bytes_out, &bound);
  *fd_out = fd;
  return KVF_OK;
}

/* "host:port" or "[host]:port", numbers only. */
static bool parse_text(const uint8_t *bytes, size_t length, struct tcp_address *address_out) {
  char text[TEXT_BYTES];
  if (length == 0 || length >= sizeof text) return false;
  memcpy(text, bytes, length);
  text[length] = '\0';
  char *colon = strrchr(text, ':');
  if (!colon || strlen(text) != length) return false;
  *colon = '\0';
  char *host = text;
  if (*host == '[' && colon[-1] == ']') {
    colon[-1] = '\0';
    host++;
  }
  const struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  if (!*host || !colon[1] || getaddrinfo(host, colon + 1, &hints, &found) != 0) return false;
  memcpy(&address_out->socket, found->ai_addr, found->ai_addrlen);
  address_out->length = found->ai_addrlen;
  freeaddrinfo(found);
  return true;
}

kvf_status tcp_address_decode(const uint8_t *address, size_t address_bytes, struct tcp_addresses *addresses_out,
                              kvf_error **error_out) {
  bool ok = address_bytes >= ADDRESS_FIXED_BYTES && address_bytes <= FABRIC_ADDRESS_LIMIT_BYTES && address[0] == ADDRESS_VERSION &&
            address[1] >= 1 && address[1] <= TCP_ADDRESS_LIMIT;
  size_t used = ADDRESS_FIXED_BYTES;
  for (uint8_t i = 0; ok && i < address[1]; i++) {
    ok = used < address_bytes && address[used] <= address_bytes - used - 1 &&
         parse_text(address + used + 1, address[used], &addresses_out->entries[i]);
    if (ok) used += 1u + address[used];
  }
  if (!ok || used != address_bytes)
    return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the peer's address for tcp is malformed"), error_out);
  addresses_out->count = address[1];
  memcpy(addresses_out->incarnation, address + 2, 16);
  return KVF_OK;
}
