/* SIMD levels: which one this processor and its system can run, and how to build for one.
 *
 * Code for a level is chosen at run time, never by compiler flags, so that one binary serves
 * every machine. A body written once in plain C as an INLINE function and called from a
 * function marked TARGET_AVX2 or TARGET_AVX512 is compiled, and vectorised, for that level.
 */
#ifndef NEARDUP_SIMD_H
#define NEARDUP_SIMD_H

#include <stdint.h>
#include <string.h>

enum { SIMD_PORTABLE, SIMD_AVX2, SIMD_AVX512 };

#if defined(__x86_64__) || defined(_M_X64)
#define SIMD_X86 1
#include <immintrin.h>
#else
#define SIMD_X86 0
#endif

#if defined(_MSC_VER) && !defined(__clang__)
#include <intrin.h>
#define INLINE static __forceinline
#define TARGET_AVX2 /* this compiler takes intrinsics of any level anywhere */
#define TARGET_AVX512
#else
#define INLINE static inline __attribute__((always_inline))
#define TARGET_AVX2 __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt")))
#define TARGET_AVX512                                                                      \
    __attribute__((target("avx2,bmi,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512cd,avx512dq," \
                          "avx512vl,avx512vbmi,avx512vbmi2,avx512bitalg,avx512vpopcntdq")))
#endif

/* "avx512" means what Ice Lake and Zen 4 brought: byte permutation and compression, vector
 * population count. Processors that have only the first AVX-512 run as "avx2". */
#if !SIMD_X86
static int simd_best(void) { return SIMD_PORTABLE; }
#elif defined(_MSC_VER) && !defined(__clang__)
static int simd_best(void) {
    const unsigned avx2 = 1u << 3 | 1u << 5 | 1u << 8;                            /* leaf 7, EBX */
    const unsigned avx512 = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31; /* EBX */
    const unsigned vbmi2 = 1u << 1 | 1u << 6 | 1u << 12 | 1u << 14;               /* leaf 7, ECX */
    const unsigned popcnt_osxsave = 1u << 23 | 1u << 27;                          /* leaf 1, ECX */
    int leaf[4];
    unsigned ebx, ecx;
    uint64_t enabled;
    __cpuid(leaf, 0);
    if (leaf[0] < 7) return SIMD_PORTABLE;
    __cpuid(leaf, 1);
    if (((unsigned)leaf[2] & popcnt_osxsave) != popcnt_osxsave) return SIMD_PORTABLE;
    __cpuidex(leaf, 7, 0);
    ebx = (unsigned)leaf[1], ecx = (unsigned)leaf[2];
    enabled = _xgetbv(0);
    if ((ebx & avx2) != avx2 || (enabled & 0x6) != 0x6) return SIMD_PORTABLE;
    if ((ebx & avx512) != avx512 || (ecx & vbmi2) != vbmi2) return SIMD_AVX2;
    return (enabled & 0xE6) == 0xE6 ? SIMD_AVX512 : SIMD_AVX2;
}
#else
static int simd_best(void) {
    __builtin_cpu_init();
    if (!(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
          __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt")))
        return SIMD_PORTABLE;
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512vbmi") &&
                   __builtin_cpu_supports("avx512vbmi2") &&
                   __builtin_cpu_supports("avx512bitalg") &&
                   __builtin_cpu_supports("avx512vpopcntdq")
               ? SIMD_AVX512
               : SIMD_AVX2;
}
#endif

#if defined(_MSC_VER) && !defined(__clang__)
INLINE int trailing_zeros(uint64_t x) { /* x is not 0 */
    unsigned long at;
    _BitScanForward64(&at, x);
    return (int)at;
}
#else
INLINE int trailing_zeros(uint64_t x) { return __builtin_ctzll(x); } /* x is not 0 */
#endif

/* Compilers turn this into one instruction where the level has it. */
#if defined(_MSC_VER) && !defined(__clang__)
INLINE int popcount(uint64_t x) {
    x -= x >> 1 & 0x5555555555555555u;
    x = (x & 0x3333333333333333u) + (x >> 2 & 0x3333333333333333u);
    x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0Fu;
    return (int)(x * 0x0101010101010101u >> 56);
}
#else
INLINE int popcount(uint64_t x) { return __builtin_popcountll(x); }
#endif

/* Ask for a cache line that will be read. */
#if defined(__GNUC__) || defined(__clang__)
#define PREFETCH(address) __builtin_prefetch(address)
#elif SIMD_X86
#define PREFETCH(address) _mm_prefetch((const char *)(address), _MM_HINT_T0)
#else
#define PREFETCH(address) ((void)(address))
#endif

INLINE int is_letter(uint8_t c) { return (uint8_t)((c | 0x20) - 'a') < 26; }

/* Eight bytes, the first one lowest. */
INLINE uint64_t load8(const uint8_t *bytes) {
    uint64_t x;
    memcpy(&x, bytes, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

/* The Hamming distance of two rows. */
INLINE int distance_of(const uint64_t *a, const uint64_t *b, int n_words) {
    int bits = 0;
    for (int w = 0; w < n_words; w++) bits += popcount(a[w] ^ b[w]);
    return bits;
}

#endif
