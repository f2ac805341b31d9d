/* Strikes at the nth write, sync, cut, rename or removal below a folder, or records them all.
See tests/faults.py and tests/frontier_model.py.

Preloaded into a process (LD_PRELOAD), asleep until fault_arm() or fault_record(). Sees the calls of
all threads. Memory-mapped writes (SQLite's -shm) are not seen; a kill loses none of them. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
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

/* The record: for each call a line (what, path, offset, bytes, separated by tabs), then the bytes.
The lock is held from before a call until it is recorded, so that their order is that of the calls. */
static int record = -1;
static pthread_mutex_t recording = PTHREAD_MUTEX_INITIALIZER;

void fault_record(const char *below, const char *to) {
  strncpy(folder, below, sizeof folder - 1);
  int fd = open(to, O_WRONLY | O_CREAT | O_APPEND, 0600);
  record = fd;
}

void fault_stop_recording(void) {
  close(record);
  record = -1;
}

static int is_watching(void) { return left >= 0 || record >= 0; }

static int is_below(const char *path) {
  size_t n = strlen(folder);
  if (!is_watching() || strncmp(path, folder, n) != 0) return 0;
  return strstr(path + n, "/diary") == NULL && strstr(path + n, "/log") == NULL;
}

static int path_of(int fd, char *path, size_t size) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, path, size - 1);
  path[n > 0 ? n : 0] = 0;
  return n > 0;
}

static int is_fd_below(int fd) {
  char path[4096];
  return is_watching() && path_of(fd, path, sizeof path) && is_below(path);
}

/* What is to happen at this call; FAIL for all calls of a series. */
static int now(void) {
  if (left < 0) return NOTHING;
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

static ssize_t all_of(int fd, const void *data, size_t n) {
  size_t done = 0;
  while (done < n) {
    ssize_t more = REAL(write)(fd, (const char *)data + done, n - done);
    if (more < 0) abort();
    done += more;
  }
  return n;
}

static void enter(const char *what, const char *path, long at, const void *data, long n) {
  char line[4200];
  int length = snprintf(line, sizeof line, "%s\t%s\t%ld\t%ld\n", what, path, at, n);
  all_of(record, line, length);
  if (n > 0) all_of(record, data, n);
}

static void enter_fd(const char *what, int fd, long at, const void *data, long n) {
  char path[4096];
  if (path_of(fd, path, sizeof path)) enter(what, path, at, data, n);
}

void fault_mark(const char *text) {
  pthread_mutex_lock(&recording);
  enter("mark", text, 0, NULL, 0);
  pthread_mutex_unlock(&recording);
}

/* Make the call that gives `done`, and record it if it succeeded. */
#define RECORDED(call, entry) do { \
    pthread_mutex_lock(&recording); \
    done = call; \
    if (done >= 0) entry; \
    pthread_mutex_unlock(&recording); \
    return done; \
  } while (0)

#define OPEN(name) \
  int name(const char *path, int flags, ...) { \
    va_list rest; \
    va_start(rest, flags); \
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0, done; \
    va_end(rest); \
    if (record < 0 || !(flags & O_CREAT) || !is_below(path) || access(path, F_OK) == 0) \
      return REAL(name)(path, flags, mode); \
    RECORDED(REAL(name)(path, flags, mode), enter("link", path, 0, NULL, 0)); \
  }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *data, size_t n) {
  if (!is_fd_below(fd)) return REAL(write)(fd, data, n);
  if (record >= 0) {
    ssize_t done;
    long at = lseek(fd, 0, SEEK_CUR);
    RECORDED(REAL(write)(fd, data, n), enter_fd("write", fd, at, data, done));
  }
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
    if (record >= 0) { \
      ssize_t done; \
      RECORDED(REAL(name)(fd, data, n, at), enter_fd("write", fd, at, data, done)); \
    } \
    int what = now(); \
    if (FAILED(what)) return -1; \
    ssize_t done = REAL(name)(fd, data, what == KILL_HALFWAY ? n / 2 : n, at); \
    if (what == KILL_HALFWAY) kill(getpid(), SIGKILL); \
    AFTER(what); \
    return done; \
  }
PWRITE(pwrite, off_t)
PWRITE(pwrite64, off64_t)

#define ON_FD(name, parameters, arguments, recorded, size) \
  int name parameters { \
    if (!is_fd_below(fd)) return REAL(name) arguments; \
    if (record >= 0) { \
      int done; \
      RECORDED(REAL(name) arguments, enter_fd(recorded, fd, size, NULL, 0)); \
    } \
    int what = now(); \
    if (FAILED(what)) return -1; \
    int done = REAL(name) arguments; \
    AFTER(what); \
    return done; \
  }
ON_FD(fsync, (int fd), (fd), "sync", 0)
ON_FD(fdatasync, (int fd), (fd), "sync", 0)
ON_FD(ftruncate, (int fd, off_t n), (fd, n), "truncate", n)
ON_FD(ftruncate64, (int fd, off64_t n), (fd, n), "truncate", n)

#define ON_PATH(name, parameters, arguments, recorded, to) \
  int name parameters { \
    if (!is_below(path)) return REAL(name) arguments; \
    if (record >= 0) { \
      int done; \
      RECORDED(REAL(name) arguments, enter(recorded, path, 0, to, strlen(to))); \
    } \
    int what = now(); \
    if (FAILED(what)) return -1; \
    int done = REAL(name) arguments; \
    AFTER(what); \
    return done; \
  }
ON_PATH(rename, (const char *path, const char *to), (path, to), "rename", to)
ON_PATH(unlink, (const char *path), (path), "unlink", "")

int clock_gettime(clockid_t id, struct timespec *time) {
  int done = REAL(clock_gettime)(id, time);
  if (id == CLOCK_REALTIME) time->tv_sec += clock_offset_s;
  return done;
}
