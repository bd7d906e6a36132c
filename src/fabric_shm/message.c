/* Messages and descriptors over the socket. Every call is non-blocking by its flags, whatever the descriptor's mode. */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric_shm/inside.h"

union control_buffer {
  struct cmsghdr align;
  char bytes[CMSG_SPACE(SHM_MESSAGE_FDS * sizeof(int))];
};

int shm_message_send(int fd, const struct shm_message *message, const int *fds, size_t fd_count) {
  union control_buffer control = {0};
  struct iovec iov = {(void *)message, sizeof *message};
  struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1};
  if (fd_count > 0) {
    header.msg_control = control.bytes;
    header.msg_controllen = CMSG_SPACE(fd_count * sizeof(int));
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fd_count * sizeof(int));
    memcpy(CMSG_DATA(rights), fds, fd_count * sizeof(int));
  }
  while (sendmsg(fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

static void take_fds(struct msghdr *header, int fds_out[SHM_MESSAGE_FDS], size_t *fd_count_out) {
  for (struct cmsghdr *each = CMSG_FIRSTHDR(header); each; each = CMSG_NXTHDR(header, each)) {
    if (each->cmsg_level != SOL_SOCKET || each->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (each->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      memcpy(&fd, CMSG_DATA(each) + i * sizeof fd, sizeof fd);
      if (*fd_count_out < SHM_MESSAGE_FDS)
        fds_out[(*fd_count_out)++] = fd;
      else
        close(fd);
    }
  }
}

enum shm_receipt shm_message_receive(int fd, struct shm_message *message_out, int fds_out[SHM_MESSAGE_FDS], size_t *fd_count_out) {
  union control_buffer control;
  struct iovec iov = {message_out, sizeof *message_out};
  struct msghdr header = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof control.bytes};
  ssize_t got;
  *fd_count_out = 0;
  do {
    got = recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  if (got < 0 && errno == EAGAIN) return SHM_RECEIPT_NONE;
  if (got == 0) errno = 0;
  if (got <= 0) return SHM_RECEIPT_ENDED;
  take_fds(&header, fds_out, fd_count_out);
  if (got == sizeof *message_out && !(header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) && message_out->magic == SHM_MAGIC)
    return SHM_RECEIPT_MESSAGE;
  while (*fd_count_out > 0) close(fds_out[--*fd_count_out]);
  return SHM_RECEIPT_MALFORMED;
}
