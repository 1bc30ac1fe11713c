/* Calls of the C library that fail on purpose, and a clock that jumps. Loaded with LD_PRELOAD.
 *
 * FAULT_CALL (open, write, fsync or rename) on a path that holds FAULT_PATH fails with FAULT_ERRNO
 * after it was made FAULT_AFTER times. The clock of the day is FAULT_CLOCK seconds off from its second reading on.
 * The environment is read at every call, so that a forked child can ask for other faults.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int fails(const char *call, const char *path)
{
    static int seen;
    const char *wanted = getenv("FAULT_CALL"), *part = getenv("FAULT_PATH"), *after = getenv("FAULT_AFTER");
    if (!wanted || !part || strcmp(wanted, call) || !strstr(path, part) || seen++ < (after ? atoi(after) : 0))
        return 0;
    errno = atoi(getenv("FAULT_ERRNO"));
    return 1;
}

static int fails_on(const char *call, int descriptor)
{
    char link[64], path[4096] = "";
    if (!getenv("FAULT_CALL"))
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    return fails(call, path);
}

#define OPEN(name)                                              \
    int name(const char *path, int flags, ...)                  \
    {                                                           \
        va_list rest;                                           \
        va_start(rest, flags);                                  \
        mode_t mode = flags & O_CREAT ? va_arg(rest, mode_t) : 0; \
        va_end(rest);                                           \
        return fails("open", path) ? -1 : REAL(name)(path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int descriptor, const void *data, size_t size)
{
    return fails_on("write", descriptor) ? -1 : REAL(write)(descriptor, data, size);
}

int fsync(int descriptor)
{
    return fails_on("fsync", descriptor) ? -1 : REAL(fsync)(descriptor);
}

int rename(const char *from, const char *to)
{
    return fails("rename", from) ? -1 : REAL(rename)(from, to);
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    static int read_before;
    int code = REAL(clock_gettime)(clock, now);
    const char *off = getenv("FAULT_CLOCK");
    if (off && clock == CLOCK_REALTIME && read_before++)
        now->tv_sec += atol(off);
    return code;
}
