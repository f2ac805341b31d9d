/* Counts of blocks: on how many pages of a host each one stood. */
#ifndef NEARDUP_TEMPLATES_H
#define NEARDUP_TEMPLATES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The first place in `known`, which ascends, that is not below a hash. No branch on the hash. */
static size_t place_of(const uint64_t *known, size_t n, uint64_t hash) {
    const uint64_t *base = known;
    while (n > 1) {
        size_t half = n / 2;
        base += base[half - 1] < hash ? half : 0;
        n -= half;
    }
    return (size_t)(base - known) + (n == 1 && *base < hash);
}

static void find_frequent(const uint64_t *hashes, size_t n, const uint64_t *known,
                          const uint32_t *counts, size_t n_known, uint64_t threshold,
                          uint8_t *found) {
    for (size_t i = 0; i < n; i++) {
        size_t place = place_of(known, n_known, hashes[i]);
        found[i] = place < n_known && known[place] == hashes[i] && counts[place] >= threshold;
    }
}

/* Merges a page's ascending hashes into the known ones; out has room for both. How many. */
static size_t count_page(const uint64_t *known, const uint32_t *counts, size_t n_known,
                         const uint64_t *hashes, size_t n, uint64_t *out, uint32_t *sums) {
    size_t i = 0, merged = 0;
    for (size_t j = 0; j < n; j++) {
        uint64_t hash = hashes[j];
        if (j && hash == hashes[j - 1]) continue;
        for (; i < n_known && known[i] < hash; i++, merged++) {
            out[merged] = known[i];
            sums[merged] = counts[i];
        }
        out[merged] = hash;
        sums[merged++] = i < n_known && known[i] == hash ? counts[i++] + 1 : 1;
    }
    for (; i < n_known; i++, merged++) {
        out[merged] = known[i];
        sums[merged] = counts[i];
    }
    return merged;
}

/* Copies a page's own blocks, a space between two; out has room for all. How many bytes. */
static size_t copy_own(const char *words, const int64_t *ends, const int64_t *n_words,
                       const uint8_t *is_own, size_t n, char *out, int64_t *n_own) {
    size_t start = 0, length = 0;
    for (size_t i = 0; i < n; start = (size_t)ends[i++] + 1) {
        if (!is_own[i]) continue;
        if (length) out[length++] = ' ';
        memcpy(out + length, words + start, (size_t)ends[i] - start);
        length += (size_t)ends[i] - start;
        *n_own += n_words[i];
    }
    return length;
}

#endif
