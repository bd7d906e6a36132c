/* Socket options, epoll and the one timer. */
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

#include "fabric_tcp/inside.h"

/* Options that a kernel lacks are done without. The buffers are left to the kernel's own tuning, which a fixed size would switch
 * off. */
void tcp_socket_tune(int fd, uint64_t user_timeout_ms) {
  const int on = 1, idle_s = 5, interval_s = 2, probes = 3;
  const unsigned user_timeout = (unsigned)user_timeout_ms;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &user_timeout, sizeof user_timeout);
}

bool tcp_socket_watch(struct tcp_fabric *fabric, int fd, uint32_t events, enum tcp_watch *watch) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  return epoll_ctl(fabric->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

void tcp_socket_rewatch(struct tcp_fabric *fabric, int fd, uint32_t events, enum tcp_watch *watch) {
  struct epoll_event event = {.events = events, .data.ptr = watch};
  epoll_ctl(fabric->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

void tcp_socket_tick(struct tcp_fabric *fabric, bool ticking) {
  if (fabric->ticking == ticking) return;
  const struct timespec every = {.tv_nsec = ticking ? 100000000 : 0};
  const struct itimerspec timer = {.it_interval = every, .it_value = every};
  if (timerfd_settime(fabric->timer_fd, 0, &timer, NULL) == 0) fabric->ticking = ticking;
}
