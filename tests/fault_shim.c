/* Strikes at the nth write, sync, cut, rename or removal below a folder. See tests/faults.py.

Preloaded into a process (LD_PRELOAD), asleep until fault_arm(). Counts the calls of all threads.
Memory-mapped writes (SQLite's -shm) are not seen; a kill loses none of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <sys/types.h>

enum { NOTHING, KILL_BEFORE, KILL_AFTER, KILL_HALFWAY, FAIL, CLOCK };

static char folder[4096];
static atomic_long left = -1, failing = 0;
static atomic_int action = NOTHING, error_number = 0;
static atomic_long clock_offset_s = 0, jump_s = 0;
static atomic_int struck = 0;

/* at: strike at this call, counted from 1. n_failing: for how many calls FAIL goes on. */
void fault_arm(const char *below, long at, int what, int errno_, long n_failing, long seconds) {
  strncpy(folder, below, sizeof folder - 1);
  error_number = errno_;
  failing = n_failing;
  jump_s = seconds;
  action = what;
  left = at;
}

int fault_struck(void) { return struck; }

static int is_below(const char *path) {
  size_t n = strlen(folder);
  if (left < 0 || strncmp(path, folder, n) != 0) return 0;
  return strstr(path + n, "/diary") == NULL && strstr(path + n, "/log") == NULL;
}

static int is_fd_below(int fd) {
  char link[64], path[4096];
  if (left < 0) return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, sizeof path - 1);
  if (n <= 0) return 0;
  path[n] = 0;
  return is_below(path);
}

/* What is to happen at this call; FAIL for all calls of a series. */
static int now(void) {
  long rest = atomic_fetch_sub(&left, 1) - 1;
  if (rest > 0) return NOTHING;
  if (action == FAIL) {
    struck = 1;
    left = 0;
    return atomic_fetch_sub(&failing, 1) > 0 ? FAIL : NOTHING;
  }
  if (rest < 0) { left = 0; return NOTHING; }
  struck = 1;
  left = 0;
  if (action == CLOCK) clock_offset_s = jump_s;
  if (action == KILL_BEFORE) kill(getpid(), SIGKILL);
  return action;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define AFTER(what) do { if ((what) == KILL_AFTER) kill(getpid(), SIGKILL); } while (0)
#define FAILED(what) ((what) == FAIL ? (errno = error_number, 1) : 0)

ssize_t write(int fd, const void *data, size_t n) {
  if (!is_fd_below(fd)) return REAL(write)(fd, data, n);
  int what = now();
  if (FAILED(what)) return -1;
  ssize_t done = REAL(write)(fd, data, what == KILL_HALFWAY ? n / 2 : n);
  if (what == KILL_HALFWAY) kill(getpid(), SIGKILL);
  AFTER(what);
  return done;
}

#define PWRITE(name, offset_type) \
  ssize_t name(int fd, const void *data, size_t n, offset_type at) { \
    if (!is_fd_below(fd)) return REAL(name)(fd, data, n, at); \
    int what = now(); \
    if (FAILED(what)) return -1; \
    ssize_t done = REAL(name)(fd, data, what == KILL_HALFWAY ? n / 2 : n, at); \
    if (what == KILL_HALFWAY) kill(getpid(), SIGKILL); \
    AFTER(what); \
    return done; \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FD(name, parameters, arguments) \
  int name parameters { \
    if (!is_fd_below(fd)) return REAL(name) arguments; \
    int what = now(); \
    if (FAILED(what)) return -1; \
    int done = REAL(name) arguments; \
    AFTER(what); \
    return done; \
  }
ON_FD(fsync, (int fd), (fd))
ON_FD(fdatasync, (int fd), (fd))
ON_FD(ftruncate, (int fd, off_t n), (fd, n))
ON_FD(ftruncate64, (int fd, off64_t n), (fd, n))

#define ON_PATH(name, parameters, arguments) \
  int name parameters { \
    if (!is_below(path)) return REAL(name) arguments; \
    int what = now(); \
    if (FAILED(what)) return -1; \
    int done = REAL(name) arguments; \
    AFTER(what); \
    return done; \
  }
ON_PATH(rename, (const char *path, const char *to), (path, to))
ON_PATH(unlink, (const char *path), (path))

int clock_gettime(clockid_t id, struct timespec *time) {
  int done = REAL(clock_gettime)(id, time);
  if (id == CLOCK_REALTIME) time->tv_sec += clock_offset_s;
  return done;
}
