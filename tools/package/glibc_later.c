/* What the libstdc++ of GCC 12 calls of glibc 2.32 and later, for programs that run on glibc 2.31 (sysroot.sh). */
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

/* False means that there may be other threads, which is always right. */
char __libc_single_threaded;

uint32_t arc4random(void) {
  uint32_t number;
  if (getrandom(&number, sizeof number, 0) != (ssize_t)sizeof number) abort();
  return number;
}
