/* Finds the interface of a local address. UCX is always told its interface: left to itself on a host with several, it may try
 * to connect through one that does not lead there and hang. */
#include "fabric_ucx/device.h"

#include <dirent.h>
#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static bool carries(const struct ifaddrs *interface, const struct sockaddr_storage *wanted) {
  if (!interface->ifa_addr || interface->ifa_addr->sa_family != wanted->ss_family) return false;
  if (wanted->ss_family == AF_INET6)
    return !memcmp(&((const struct sockaddr_in6 *)interface->ifa_addr)->sin6_addr,
                   &((const struct sockaddr_in6 *)wanted)->sin6_addr, 16);
  uint32_t mine = ((const struct sockaddr_in *)interface->ifa_addr)->sin_addr.s_addr;
  uint32_t theirs = ((const struct sockaddr_in *)wanted)->sin_addr.s_addr;
  uint32_t mask = ~0u;
  /* The loopback interface answers for its whole network. */
  if (interface->ifa_flags & IFF_LOOPBACK && interface->ifa_netmask)
    mask = ((const struct sockaddr_in *)interface->ifa_netmask)->sin_addr.s_addr;
  return (mine & mask) == (theirs & mask);
}

static kvf_status read_address(const char *host, struct sockaddr_storage *address_out, kvf_error **error_out) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *found;
  int code = getaddrinfo(host, NULL, &hints, &found);
  if (code) {
    kvf_error *error = BASE_ERROR(KVF_UNAVAILABLE, NULL, "the local address cannot be used: %s", gai_strerror(code));
    return base_error_give(base_error_add(error, "host", "%s", host), error_out);
  }
  memset(address_out, 0, sizeof *address_out);
  memcpy(address_out, found->ai_addr, found->ai_addrlen);
  freeaddrinfo(found);
  return KVF_OK;
}

kvf_status fabric_ucx_device_find(const char *host, char name_out[IF_NAMESIZE], kvf_error **error_out) {
  struct sockaddr_storage address;
  kvf_status status = read_address(host, &address, error_out);
  if (status) return status;
  struct ifaddrs *interfaces;
  if (getifaddrs(&interfaces)) return base_error_give(BASE_ERROR_ERRNO("getifaddrs", errno), error_out);
  const struct ifaddrs *interface = interfaces;
  while (interface && !carries(interface, &address)) interface = interface->ifa_next;
  if (interface) snprintf(name_out, IF_NAMESIZE, "%s", interface->ifa_name);
  bool found = interface != NULL;
  freeifaddrs(interfaces);
  if (found) return KVF_OK;
  kvf_error *error = BASE_ERROR(KVF_UNAVAILABLE, NULL, "no network interface has the local address");
  return base_error_give(base_error_add(error, "host", "%s", host), error_out);
}

bool fabric_ucx_device_exists(const char *folder) {
  DIR *listing = opendir(folder);
  if (!listing) return false;
  const struct dirent *entry = readdir(listing);
  while (entry && entry->d_name[0] == '.') entry = readdir(listing);
  bool found = entry != NULL;
  closedir(listing);
  return found;
}
