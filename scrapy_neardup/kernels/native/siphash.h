/* SipHash-1-3 of words (Aumasson and Bernstein 2012), LANES words at once: the keyed hash of
 * the sketches. A word of up to 15 bytes is one or two blocks, made by whoever finds it.
 */
#ifndef NEARDUP_SIPHASH_H
#define NEARDUP_SIPHASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

#if defined(__GNUC__)
typedef uint64_t Lanes __attribute__((vector_size(64)));
typedef uint64_t FourLanes __attribute__((vector_size(32)));
typedef uint64_t TwoLanes __attribute__((vector_size(16)));
#define LANES 8
#else
typedef uint64_t Lanes, FourLanes, TwoLanes;
#define LANES 1
#endif

#define SIP_MAX 15 /* bytes of a word that two blocks hold, with the length */

/* A macro, for vectors and for single words alike. */
#define SIP_ROTATE(x, by) ((x) << (by) | (x) >> (64 - (by)))
#define SIP_ROUND(v0, v1, v2, v3)                                             \
    do {                                                                      \
        v0 += v1, v1 = SIP_ROTATE(v1, 13), v1 ^= v0, v0 = SIP_ROTATE(v0, 32); \
        v2 += v3, v3 = SIP_ROTATE(v3, 16), v3 ^= v2;                          \
        v0 += v3, v3 = SIP_ROTATE(v3, 21), v3 ^= v0;                          \
        v2 += v1, v1 = SIP_ROTATE(v1, 17), v1 ^= v2, v2 = SIP_ROTATE(v2, 32); \
    } while (0)

#define SIP_BLOCK(block, v0, v1, v2, v3) \
    do {                                 \
        v3 ^= block;                     \
        SIP_ROUND(v0, v1, v2, v3);       \
        v0 ^= block;                     \
    } while (0)

#define SIP_V0 ((uint64_t)0x736F6D6570736575)
#define SIP_V1 ((uint64_t)0x646F72616E646F6D)
#define SIP_V2 ((uint64_t)0x6C7967656E657261)
#define SIP_V3 ((uint64_t)0x7465646279746573)

/* SipHash of n words, out[i] of the block first[i] for words of eight bytes and more, and of the
 * block last[i], which ends with the length. May write up to LANES - 1 more. As many words at
 * once as a Vector has lanes: more than there are registers for is slower. */
#define DEFINE_SIP_SHORT(name, Vector)                                                             \
    INLINE void name(const uint64_t *first, const uint64_t *last, size_t n, const uint64_t key[2], \
                     uint64_t *out) {                                                              \
        const Vector zero = {0}, k0 = zero + (key[0] ^ SIP_V0), k1 = zero + (key[1] ^ SIP_V1);     \
        const Vector k2 = zero + (key[0] ^ SIP_V2), k3 = zero + (key[1] ^ SIP_V3);                 \
        for (size_t i = 0; i < n; i += sizeof(Vector) / 8) {                                       \
            Vector v0 = k0, v1 = k1, v2 = k2, v3 = k3, block, end, two;                            \
            memcpy(&block, first + i, sizeof block);                                               \
            memcpy(&end, last + i, sizeof end);                                                    \
            two = zero - (end >> 59 & 1); /* a length of 8 to 15 */                                \
            if (sizeof(Vector) > 8 || last[i] >> 59 & 1) {                                         \
                SIP_BLOCK(block, v0, v1, v2, v3);                                                  \
                v0 = (v0 & two) | (k0 & ~two), v1 = (v1 & two) | (k1 & ~two);                      \
                v2 = (v2 & two) | (k2 & ~two), v3 = (v3 & two) | (k3 & ~two);                      \
            }                                                                                      \
            SIP_BLOCK(end, v0, v1, v2, v3);                                                        \
            v2 ^= 0xFF;                                                                            \
            SIP_ROUND(v0, v1, v2, v3);                                                             \
            SIP_ROUND(v0, v1, v2, v3);                                                             \
            SIP_ROUND(v0, v1, v2, v3);                                                             \
            v0 ^= v1 ^ v2 ^ v3;                                                                    \
            memcpy(out + i, &v0, sizeof v0);                                                       \
        }                                                                                          \
    }
DEFINE_SIP_SHORT(sip_short_1, uint64_t)
DEFINE_SIP_SHORT(sip_short_4, FourLanes)
DEFINE_SIP_SHORT(sip_short_8, Lanes)

INLINE uint64_t sip_bytes(const uint8_t *bytes, size_t n) {
    uint64_t block = 0;
    for (size_t i = 0; i < n; i++) block |= (uint64_t)bytes[i] << 8 * i;
    return block;
}

/* SipHash of one word of any length. */
static uint64_t sip_long(const uint8_t *word, size_t length, const uint64_t key[2]) {
    uint64_t v0 = key[0] ^ SIP_V0, v1 = key[1] ^ SIP_V1, v2 = key[0] ^ SIP_V2, v3 = key[1] ^ SIP_V3;
    for (size_t i = 0; i <= length / 8; i++) {
        size_t left = length - 8 * i;
        uint64_t block = sip_bytes(word + 8 * i, left < 8 ? left : 8);
        if (left < 8) block |= (uint64_t)length << 56;
        SIP_BLOCK(block, v0, v1, v2, v3);
    }
    v2 ^= 0xFF;
    for (int round = 0; round < 3; round++) SIP_ROUND(v0, v1, v2, v3);
    return v0 ^ v1 ^ v2 ^ v3;
}

#endif
