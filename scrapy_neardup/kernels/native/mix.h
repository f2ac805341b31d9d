/* MurmurHash3's 64-bit finaliser, and the step that visits every 64-bit number. */
#ifndef NEARDUP_MIX_H
#define NEARDUP_MIX_H

#include <stdint.h>

#include "simd.h"

#define GOLDEN ((uint64_t)0x9E3779B97F4A7C15) /* 2**64 / golden ratio, odd */

/* A macro, for vectors and for single words alike. */
#define FMIX64(x)                                         \
    do {                                                  \
        x = (x ^ x >> 33) * (uint64_t)0xFF51AFD7ED558CCD; \
        x = (x ^ x >> 33) * (uint64_t)0xC4CEB9FE1A85EC53; \
        x = x ^ x >> 33;                                  \
    } while (0)

/* A bijection; every bit of the result depends on all bits of x. */
INLINE uint64_t fmix64(uint64_t x) {
    FMIX64(x);
    return x;
}

#endif
