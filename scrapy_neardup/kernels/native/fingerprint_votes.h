/* How many features have each of 64 bits set, and the arithmetic that makes features.
 *
 * Counters are bit-sliced: plane k holds bit k of 64 counters, one for each bit position, in
 * every lane. Carry-save adders put eight features into them at a time, so that a feature
 * costs a few operations and not 64. Written for lanes of any number: those of a register, one
 * where compilers know no vectors. Method: positional population count (Klarqvist, Muła,
 * Lemire 2019).
 */
#ifndef NEARDUP_FINGERPRINT_VOTES_H
#define NEARDUP_FINGERPRINT_VOTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mix.h"
#include "siphash.h"

#define STEP (8 * LANES) /* features are counted by so many */
#define PLANES 11        /* counters up to 2047 */

/* out[i] = fmix64(in[i] ^ key) */
INLINE void mix_all(const uint64_t *in, size_t n, uint64_t key, uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = fmix64(in[i] ^ key);
    }
}

/* out[i] = fmix64(in[i] + step) */
INLINE void widen_all(const uint64_t *in, size_t n, uint64_t step, uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        out[i] = fmix64(in[i] + step);
    }
}

/* out[i] = y * odd, folded onto its lower half; y is in[i] folded alike. For features that are
 * random by themselves: half the work of widen_all(). */
INLINE void spread_all(const uint64_t *in, size_t n, uint64_t odd, uint64_t *out) {
    for (size_t i = 0; i < n; i++) {
        uint64_t h = (in[i] ^ in[i] >> 32) * odd;
        out[i] = h ^ h >> 32;
    }
}

/* Features of shingles of `size` consecutive words' features each: of the first of n that fill
 * whole Vectors; how many. Compilers do not find these vectors themselves. */
#define DEFINE_SHINGLES(name, Vector)                                              \
    INLINE size_t name(const uint64_t *in, size_t n, size_t size, uint64_t *out) { \
        size_t i = 0;                                                              \
        for (; i + sizeof(Vector) / 8 <= n; i += sizeof(Vector) / 8) {             \
            Vector h, next;                                                        \
            memcpy(&h, in + i, sizeof h);                                          \
            for (size_t j = 1; j < size; j++) {                                    \
                memcpy(&next, in + i + j, sizeof next);                            \
                h = h * GOLDEN + next;                                             \
            }                                                                      \
            FMIX64(h);                                                             \
            memcpy(out + i, &h, sizeof h);                                         \
        }                                                                          \
        return i;                                                                  \
    }
DEFINE_SHINGLES(shingles_1, uint64_t)
DEFINE_SHINGLES(shingles_4, FourLanes)
DEFINE_SHINGLES(shingles_8, Lanes)

INLINE void shingle_all(const uint64_t *in, size_t n, size_t size, int simd, uint64_t *out) {
    size_t done = 0;
    if (simd == SIMD_AVX512) done = shingles_8(in, n, size, out);
    if (simd == SIMD_AVX2) done = shingles_4(in, n, size, out);
    shingles_1(in + done, n - done, size, out + done);
}

/* sum, carry = a + b + c; carry may be any of them */
#define ADD3(Vector, carry, sum, a, b, c)   \
    do {                                    \
        Vector a_ = a, b_ = b, c_ = c;      \
        Vector differ_ = a_ ^ b_;           \
        carry = (a_ & b_) | (differ_ & c_); \
        sum = differ_ ^ c_;                 \
    } while (0)

/* Byte j of out is column j of an 8 x 8 matrix of bits whose row k is byte k of `rows`. */
INLINE uint64_t transpose8(uint64_t x) {
    uint64_t t = (x ^ x >> 7) & 0x00AA00AA00AA00AA;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000CCCC0000CCCC;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000F0F0F0F0;
    return x ^ t ^ t << 28;
}

/* ones[b] += the counter of bit b, for 64 counters given by bit planes. */
INLINE void add_counters(const uint64_t *planes, uint64_t *ones) {
    for (int byte = 0; byte < 8; byte++) {
        uint64_t low = 0, high = 0;
        for (int k = 0; k < 8; k++) low |= (planes[k] >> 8 * byte & 0xFF) << 8 * k;
        for (int k = 8; k < PLANES; k++) high |= (planes[k] >> 8 * byte & 0xFF) << 8 * (k - 8);
        low = transpose8(low), high = transpose8(high);
        for (int bit = 0; bit < 8; bit++)
            ones[8 * byte + bit] += (low >> 8 * bit & 0xFF) | (high >> 8 * bit & 0xFF) << 8;
    }
}

/* Adds lanes [half, 2 * half) of bit-sliced counters to lanes [0, half). */
INLINE void fold(uint64_t planes[PLANES][LANES], int half) {
    for (int lane = 0; lane < half; lane++) {
        uint64_t carry = 0;
        for (int k = 0; k < PLANES; k++) {
            uint64_t a = planes[k][lane], b = planes[k][lane + half], differ = a ^ b;
            planes[k][lane] = differ ^ carry;
            carry = (a & b) | (differ & carry);
        }
    }
}

/* ones[b] += how many of n features have bit b; n a multiple of STEP, at most 2047. A
 * Vector is a register: wider ones go through memory. */
#define DEFINE_COUNT_BITS(name, Vector)                                                \
    INLINE void name(const uint64_t *features, size_t n, uint64_t *ones) {             \
        Vector plane[PLANES] = {0}, two[4], four[2], carry, f, g;                      \
        uint64_t lanes[PLANES][LANES], sums[PLANES];                                   \
        const size_t width = sizeof(Vector) / 8;                                       \
        for (size_t i = 0; i < n; i += 8 * width) {                                    \
            for (size_t j = 0; j < 4; j++) {                                           \
                memcpy(&f, features + i + 2 * j * width, sizeof f);                    \
                memcpy(&g, features + i + (2 * j + 1) * width, sizeof g);              \
                ADD3(Vector, two[j], plane[0], plane[0], f, g);                        \
            }                                                                          \
            for (int j = 0; j < 2; j++)                                                \
                ADD3(Vector, four[j], plane[1], plane[1], two[2 * j], two[2 * j + 1]); \
            ADD3(Vector, carry, plane[2], plane[2], four[0], four[1]);                 \
            for (int k = 3; k < PLANES; k++) {                                         \
                f = plane[k] & carry;                                                  \
                plane[k] ^= carry;                                                     \
                carry = f;                                                             \
            }                                                                          \
        }                                                                              \
        for (int k = 0; k < PLANES; k++) memcpy(lanes[k], &plane[k], sizeof plane[k]); \
        for (int half = (int)width / 2; half; half /= 2) fold(lanes, half);            \
        for (int k = 0; k < PLANES; k++) sums[k] = lanes[k][0];                        \
        add_counters(sums, ones);                                                      \
    }
DEFINE_COUNT_BITS(count_bits_2, TwoLanes)
DEFINE_COUNT_BITS(count_bits_4, FourLanes)
DEFINE_COUNT_BITS(count_bits_8, Lanes)

INLINE void count_bits(const uint64_t *features, size_t n, int simd, uint64_t *ones) {
    if (simd == SIMD_AVX512)
        count_bits_8(features, n, ones);
    else if (simd == SIMD_AVX2)
        count_bits_4(features, n, ones);
    else
        count_bits_2(features, n, ones);
}

#endif
