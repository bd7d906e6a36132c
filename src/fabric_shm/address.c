/* Who is on the same host: the same boot of the same kernel, in the same network namespace. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/random.h"
#include "fabric_shm/inside.h"

enum { LISTEN_BACKLOG = 1024 };

static bool read_boot_id(char boot_id[40]) {
  int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t got = read(fd, boot_id, 36);
  close(fd);
  return got == 36;
}

kvf_status shm_address_make(const uint8_t incarnation[16], struct shm_address *address_out, kvf_error **error_out) {
  struct stat status;
  uint64_t name[2];
  *address_out = (struct shm_address){.magic = SHM_MAGIC};
  memcpy(address_out->incarnation, incarnation, 16);
  if (!read_boot_id(address_out->boot_id) || stat("/proc/self/ns/net", &status) != 0) {
    kvf_error *error =
        BASE_ERROR(KVF_UNAVAILABLE, BASE_ERROR_ERRNO("/proc", errno), "this host cannot be told from others without /proc");
    return base_error_give(error, error_out);
  }
  address_out->namespace_device = status.st_dev;
  address_out->namespace_inode = status.st_ino;
  int number = base_random_fill(name, sizeof name);
  if (number != 0) return base_error_give(BASE_ERROR_ERRNO("getrandom", number), error_out);
  snprintf(address_out->name, sizeof address_out->name, "kvf-%016" PRIx64 "%016" PRIx64, name[0], name[1]);
  return KVF_OK;
}

kvf_status shm_address_decode(const uint8_t *bytes, size_t length, const struct shm_address *own, struct shm_address *address_out,
                              kvf_error **error_out) {
  bool ok = length == sizeof *address_out;
  if (ok) {
    memcpy(address_out, bytes, sizeof *address_out);
    ok = address_out->magic == SHM_MAGIC && address_out->zero == 0 && address_out->name[0] != '\0' &&
         memchr(address_out->name, '\0', sizeof address_out->name) != NULL;
  }
  if (!ok) return base_error_give(BASE_ERROR(KVF_INVALID, NULL, "the peer's address for shm is malformed"), error_out);
  if (memcmp(address_out->boot_id, own->boot_id, sizeof own->boot_id) != 0)
    return base_error_give(BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer runs on another host"), error_out);
  if (address_out->namespace_device != own->namespace_device || address_out->namespace_inode != own->namespace_inode)
    return base_error_give(BASE_ERROR(KVF_UNREACHABLE, NULL, "the peer runs in another network namespace"), error_out);
  return KVF_OK;
}

int shm_address_socket(const struct shm_address *address, bool listens) {
  struct sockaddr_un name = {.sun_family = AF_UNIX};
  size_t length = strlen(address->name);
  /* The leading NUL makes the name abstract: there is no file to clean up after a kill. */
  memcpy(name.sun_path + 1, address->name, length);
  socklen_t name_bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
  int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  int answer = listens ? bind(fd, (struct sockaddr *)&name, name_bytes) : connect(fd, (struct sockaddr *)&name, name_bytes);
  if (answer == 0 && listens) answer = listen(fd, LISTEN_BACKLOG);
  if (answer == 0) return fd;
  int number = errno;
  close(fd);
  errno = number;
  return -1;
}
