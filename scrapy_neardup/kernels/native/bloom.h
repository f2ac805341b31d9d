/* Digests of keys and bits of URL filters; ../numpy_twin/bloom.py says what each of them is. */
#ifndef NEARDUP_BLOOM_H
#define NEARDUP_BLOOM_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "mix.h"
#include "simd.h"

#if defined(_MSC_VER) && !defined(__clang__)
#define UPPER_HALF(a, b) __umulh((a), (b))
#else
#define UPPER_HALF(a, b) ((uint64_t)(((unsigned __int128)(a) * (b)) >> 64))
#endif

enum { MAX_LAYERS = 9, MAX_HASHES = 128, BATCH = 16, FILTER_FULL = -1 };

typedef struct {
    uint64_t low, high;
} Digest;

static inline uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static inline void sip_round(uint64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static inline void sip_word(uint64_t v[4], uint64_t word) {
    v[3] ^= word;
    sip_round(v);
    v[0] ^= word;
}

/* n bytes, least significant first on any machine; with n constant, one instruction on most. */
static inline uint64_t load(const uint8_t *bytes, size_t n) {
    uint64_t word = 0;
    for (size_t i = 0; i < n; i++) word |= (uint64_t)bytes[i] << (8 * i);
    return word;
}

/* The highest bit of the lowest byte that is `c`, and perhaps of some above it; 0 if none is. */
static inline uint64_t bytes_that_are(uint64_t word, uint8_t c) {
    const uint64_t ones = 0x0101010101010101;
    uint64_t x = word ^ c * ones;
    return (x - ones) & ~x & ones << 7;
}

/* What is left of a key. */
typedef struct {
    const uint8_t *start, *at, *end;
    int in_path; /* before the first '?' */
} Rest;

/* The next 8 bytes of a key, zeros after its end; 1 if a segment ends in them, after *n bytes. */
static inline int next_word(Rest *r, uint64_t *word, size_t *n) {
    size_t left = (size_t)(r->end - r->at);
    uint64_t slashes, question;
    if (left >= 8)
        *word = load(r->at, 8);
    else if (r->end - r->start >= 8)
        *word = left ? load(r->end - 8, 8) >> (64 - 8 * left) : 0;
    else
        *word = load(r->at, left);
    slashes = r->in_path ? bytes_that_are(*word, '/') : 0;
    question = r->in_path ? bytes_that_are(*word, '?') : 0;
    if (question && (!slashes || trailing_zeros(question) < trailing_zeros(slashes)))
        r->in_path = 0, slashes = 0;
    *n = slashes ? trailing_zeros(slashes) / 8 : left;
    return slashes != 0 || left < 8;
}

/* SipHash-1-3-128 over the layer, 8 bytes, and the segment that begins where the rest does,
 * which then begins at its end. */
static inline Digest sip(const uint64_t seed[2], uint64_t layer, Rest *r) {
    uint64_t v[4] = {seed[0] ^ 0x736F6D6570736575, seed[1] ^ 0x646F72616E646F6D ^ 0xEE,
                     seed[0] ^ 0x6C7967656E657261, seed[1] ^ 0x7465646279746573};
    const uint8_t *start = r->at;
    uint64_t word;
    size_t n;
    Digest digest;
    sip_word(v, layer);
    for (; !next_word(r, &word, &n); r->at += 8) sip_word(v, word);
    r->at += n;
    word &= (1ULL << 8 * n) - 1; /* n < 8 */
    sip_word(v, word | (uint64_t)(r->at - start + 8) << 56);
    v[2] ^= 0xEE;
    for (int i = 0; i < 3; i++) sip_round(v);
    digest.low = v[0] ^ v[1] ^ v[2] ^ v[3];
    v[1] ^= 0xDD;
    for (int i = 0; i < 3; i++) sip_round(v);
    digest.high = v[0] ^ v[1] ^ v[2] ^ v[3];
    return digest;
}

typedef struct {
    uint64_t *words, *counts; /* counts: keys, bits set */
    uint64_t size_bits, limit;
    uint32_t n_hashes, blocked;
} Slice;

typedef struct {
    uint64_t seed[2];
    Slice *slices;                /* by layer, then age */
    size_t start[MAX_LAYERS + 2]; /* of layer i + 1; one more for the end */
    int layers;                   /* above the one of whole URLs */
} Filter;

typedef struct {
    int layer;
    uint64_t h1, h2;
} Prefix;

/* The directories above a page, f->layers at most, then its URL, one after the other. */
typedef struct {
    Rest rest;
    Digest sum;
    uint64_t depth;
    int is_url;
    Prefix prefix;
} Walk;

static inline Walk begin_walk(const uint8_t *key, size_t n) {
    Walk w = {{key, key, key + n, 1}, {0, 0}, 0, 0, {0, 0, 0}};
    return w;
}

/* Go on to the next of them; 0 after the URL. */
static inline int next_prefix(const Filter *f, Walk *w) {
    if (w->is_url) return 0;
    do {
        Digest one = sip(f->seed, ++w->depth, &w->rest);
        w->sum.low ^= one.low;
        w->sum.high ^= one.high;
        w->is_url = w->rest.at == w->rest.end;
        w->rest.at += !w->is_url; /* the slash */
    } while (!w->is_url && w->depth > (uint64_t)f->layers);
    w->prefix.layer = w->is_url ? f->layers + 1 : (int)w->depth;
    w->prefix.h1 = fmix64(w->sum.low ^ w->depth);
    w->prefix.h2 = fmix64(w->sum.high ^ w->depth);
    return 1;
}

static inline int prefixes_of(const Filter *f, const uint8_t *key, size_t n,
                              Prefix found[MAX_LAYERS]) {
    int n_found = 0;
    for (Walk w = begin_walk(key, n); next_prefix(f, &w);) found[n_found++] = w.prefix;
    return n_found;
}

/* Where the bits of a key are. */
static inline void positions_of(const Slice *s, uint64_t h1, uint64_t h2, uint64_t at[MAX_HASHES]) {
    uint64_t block = UPPER_HALF(h1, s->size_bits >> 9) << 9, step = h2 | 1, stream = h2;
    if (!s->blocked) {
        for (uint32_t i = 0; i < s->n_hashes; i++, h1 += step) at[i] = UPPER_HALF(h1, s->size_bits);
        return;
    }
    for (uint32_t i = 0; i < s->n_hashes; stream = h2 = fmix64(h2 + GOLDEN))
        for (int n = 0; n < 7 && i < s->n_hashes; n++, i++, stream >>= 9)
            at[i] = block | (stream & 511);
}

static inline uint64_t bit_at(const Slice *s, uint64_t at) {
    return s->words[at >> 6] >> (at & 63) & 1;
}

/* Classic bits are looked at four at once, so that their misses overlap. */
static inline int slice_holds(const Slice *s, uint64_t h1, uint64_t h2) {
    uint64_t at[MAX_HASHES], step = h2 | 1, size = s->size_bits;
    uint32_t i = 0;
    if (s->blocked) {
        positions_of(s, h1, h2, at);
        for (; i < s->n_hashes; i++)
            if (!bit_at(s, at[i])) return 0;
        return 1;
    }
    for (; i + 4 <= s->n_hashes; i += 4, h1 += 4 * step)
        if (!(bit_at(s, UPPER_HALF(h1, size)) & bit_at(s, UPPER_HALF(h1 + step, size)) &
              bit_at(s, UPPER_HALF(h1 + 2 * step, size)) &
              bit_at(s, UPPER_HALF(h1 + 3 * step, size))))
            return 0;
    for (; i < s->n_hashes; i++, h1 += step)
        if (!bit_at(s, UPPER_HALF(h1, size))) return 0;
    return 1;
}

/* Set the bits; how many were not. All of them are touched, so that misses overlap. */
static inline uint32_t set_in_slice(Slice *s, uint64_t h1, uint64_t h2) {
    uint64_t at[MAX_HASHES];
    uint32_t n_set = 0;
    positions_of(s, h1, h2, at);
    for (uint32_t i = 0; i < s->n_hashes; i++) {
        uint64_t *word = &s->words[at[i] >> 6], bit = 1ULL << (at[i] & 63);
        n_set += !(*word & bit);
        *word |= bit;
    }
    return n_set;
}

static inline int filter_holds(const Filter *f, const Prefix *p, size_t n_newest_left_out) {
    size_t first = f->start[p->layer - 1], at = f->start[p->layer] - n_newest_left_out;
    while (at-- > first)
        if (slice_holds(&f->slices[at], p->h1, p->h2)) return 1;
    return 0;
}

/* Add to the newest slice what no slice holds; whether it was new. */
static inline int put_prefix(Filter *f, const Prefix *p) {
    Slice *newest = &f->slices[f->start[p->layer] - 1];
    uint32_t n_set;
    if (filter_holds(f, p, 1)) return 0;
    n_set = set_in_slice(newest, p->h1, p->h2);
    newest->counts[0] += n_set > 0;
    newest->counts[1] += n_set;
    return n_set > 0;
}

static inline int find_prefixes(const Filter *f, const Prefix *found, int n) {
    for (int i = 0; i < n; i++)
        if (!filter_holds(f, &found[i], 0)) return found[i].layer;
    return 0;
}

/* Whether nothing of one key is new. The whole URL comes first: it tells of nearly every new key.
 */
static inline int holds_key(const Filter *f, const uint8_t *key, size_t n) {
    Prefix found[MAX_LAYERS];
    const int url = prefixes_of(f, key, n, found) - 1;
    return filter_holds(f, &found[url], 0) && !find_prefixes(f, found, url);
}

static inline int add_prefixes(Filter *f, const Prefix *found, int n) {
    int first = 0;
    for (int layer = 1; layer <= f->layers + 1; layer++) {
        const Slice *newest = &f->slices[f->start[layer] - 1];
        if (newest->counts[0] >= newest->limit) return FILTER_FULL;
    }
    for (int i = 0; i < n; i++)
        if (put_prefix(f, &found[i]) && !first) first = found[i].layer;
    return first;
}

/* Ask for the cache lines of a URL in the newest slice. */
static inline void prefetch_url(const Filter *f, const Prefix *url) {
    const Slice *s = &f->slices[f->start[f->layers + 1] - 1];
    uint64_t at[MAX_HASHES];
    positions_of(s, url->h1, url->h2, at);
    for (uint32_t i = 0; i < (s->blocked ? 1 : s->n_hashes); i++) PREFETCH(&s->words[at[i] >> 6]);
}

/* find or add for each key in turn, a batch hashed and its memory asked for ahead. Stops at
 * the first FILTER_FULL. Returns how many are answered. */
static inline size_t filter_many(Filter *f, int adds, const uint8_t *const *keys,
                                 const size_t *lengths, size_t n, int64_t *answers) {
    Prefix found[BATCH][MAX_LAYERS];
    int counts[BATCH];
    for (size_t start = 0; start < n; start += BATCH) {
        size_t size = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < size; i++) {
            counts[i] = prefixes_of(f, keys[start + i], lengths[start + i], found[i]);
            prefetch_url(f, &found[i][counts[i] - 1]);
        }
        for (size_t i = 0; i < size; i++) {
            int answer =
                adds ? add_prefixes(f, found[i], counts[i]) : find_prefixes(f, found[i], counts[i]);
            if (answer == FILTER_FULL) return start + i;
            answers[start + i] = answer;
        }
    }
    return n;
}

/* Fingerprints of keys by linear probing; 0 is a free place. */
typedef struct {
    Filter hash; /* no layers, no slices */
    uint64_t *places, *n_keys, mask, limit;
    int shift; /* a fingerprint's home is its upper bits */
} Table;

static inline uint64_t key_fingerprint(const Table *t, const uint8_t *key, size_t n) {
    Prefix url[MAX_LAYERS];
    prefixes_of(&t->hash, key, n, url);
    return url[0].h1 ? url[0].h1 : 1;
}

/* Where a fingerprint is, or would go. */
static inline uint64_t *table_place(const Table *t, uint64_t fingerprint) {
    uint64_t at = fingerprint >> t->shift;
    while (t->places[at] && t->places[at] != fingerprint) at = (at + 1) & t->mask;
    return &t->places[at];
}

static inline int table_add(Table *t, uint64_t fingerprint) {
    uint64_t *place;
    if (*t->n_keys >= t->limit) return FILTER_FULL;
    place = table_place(t, fingerprint);
    if (*place) return 0;
    *place = fingerprint;
    ++*t->n_keys;
    return 1;
}

static inline int table_find(const Table *t, uint64_t fingerprint) {
    return !*table_place(t, fingerprint);
}

/* Like filter_many. */
static inline size_t table_many(Table *t, int adds, const uint8_t *const *keys,
                                const size_t *lengths, size_t n, int64_t *answers) {
    uint64_t fingerprints[BATCH];
    for (size_t start = 0; start < n; start += BATCH) {
        size_t size = n - start < BATCH ? n - start : BATCH;
        for (size_t i = 0; i < size; i++) {
            fingerprints[i] = key_fingerprint(t, keys[start + i], lengths[start + i]);
            PREFETCH(&t->places[fingerprints[i] >> t->shift]);
        }
        for (size_t i = 0; i < size; i++) {
            int answer = adds ? table_add(t, fingerprints[i]) : table_find(t, fingerprints[i]);
            if (answer == FILTER_FULL) return start + i;
            answers[start + i] = answer;
        }
    }
    return n;
}

/* Everything in `places` into an empty table. */
static inline void table_refill(Table *t, const uint64_t *places, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (places[i]) *table_place(t, places[i]) = places[i];
}

#endif
