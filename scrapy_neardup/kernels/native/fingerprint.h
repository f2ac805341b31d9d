/* Text → fingerprint: words, features, votes, majority. engines/reference.py defines it. */
#ifndef NEARDUP_FINGERPRINT_H
#define NEARDUP_FINGERPRINT_H

#include <stdlib.h>

#include "fingerprint_votes.h"
#include "fingerprint_words.h"

#define MAX_SHINGLE 16
#define MAX_FINGERPRINT 16 /* uint64 words of a fingerprint */
#define VOTES_ROOM (WORDS_ROOM + STEP + MAX_SHINGLE)
#define AHEAD 16 /* features whose slots are asked for before they are added; see keep_new() */

/* A word's feature: plain sdbm, sdbm mixed with key[0], or SipHash under the key. */
typedef enum { PLAIN, MIXED, SIPHASH } Hash;

typedef struct {
    int n_words, shingle, distinct, tie_ge;
    Hash hash;
    uint64_t key[2];
} Spec;

/* The distinct features so far: open addressing, never more than half full, 0 marks a free
 * slot. The secret multiplier keeps hostile texts from choosing their slots. */
typedef struct {
    uint64_t *slots, multiplier;
    size_t used;
    int bits, has_zero;
} Set;

/* Where odd sketches are made, one row for each of n_levels levels: how many features it took, then
 * bits, of which `feature & mask` flips. A level takes features of which so many top bits are 0, so
 * that the first takes all that any does. rows NULL: the features vote. */
typedef struct {
    uint64_t *rows, mask;
    size_t width; /* words of a row */
    int level, n_levels;
} Odd;

/* The features of one text and how they voted so far. */
typedef struct {
    Spec spec;
    Odd odd;
    Set seen;
    size_t carried; /* features of the last words, fewer than a shingle, kept for the next */
    uint64_t n;     /* features that voted */
    uint64_t words[VOTES_ROOM], features[VOTES_ROOM], wide[VOTES_ROOM];
    uint64_t ones[MAX_FINGERPRINT][64];
} Votes;

/* Room for the next set of at most 2^KEPT_BITS slots, or NULL. Freed, it would go back to the
 * system and come page by page, which takes a fifth as long as a long text's sketch. */
#define KEPT_BITS 17
static uint64_t *KEPT;

#if defined(__GNUC__)
static uint64_t *exchange_kept(uint64_t *slots) {
    return __atomic_exchange_n(&KEPT, slots, __ATOMIC_ACQ_REL);
}
#else
static uint64_t *exchange_kept(uint64_t *slots) {
    return _InterlockedExchangePointer((void *volatile *)&KEPT, slots);
}
#endif

static int set_start(Set *set, uint64_t multiplier, int bits) {
    const int room = bits < KEPT_BITS ? KEPT_BITS : bits;
    set->slots = room == KEPT_BITS ? exchange_kept(NULL) : NULL;
    if (!set->slots) set->slots = malloc(sizeof *set->slots << room);
    if (!set->slots) return -1;
    memset(set->slots, 0, sizeof *set->slots << bits);
    set->multiplier = multiplier;
    set->bits = bits;
    set->used = 0;
    set->has_zero = 0;
    return 0;
}

/* Of a set that was started; slots NULL: it was not. */
static void set_end(Set *set) {
    if (set->slots && set->bits <= KEPT_BITS) set->slots = exchange_kept(set->slots);
    free(set->slots);
}

INLINE size_t slot_of(const Set *set, uint64_t feature) {
    return (size_t)(feature * set->multiplier >> (64 - set->bits));
}

/* Whether the feature is new; it is a member afterwards. */
INLINE int set_add(Set *set, uint64_t feature) {
    size_t mask = ((size_t)1 << set->bits) - 1;
    size_t slot = slot_of(set, feature);
    uint64_t there = set->slots[slot];
    if (!feature) return !set->has_zero && (set->has_zero = 1);
    while (there & (0 - (uint64_t)(there != feature))) { /* one branch, and seldom taken */
        slot = (slot + 1) & mask;
        there = set->slots[slot];
    }
    set->slots[slot] = feature; /* there already or not: no branch on what a text repeats */
    set->used += !there;
    return !there;
}

/* Makes room for n more. Returns -1 if memory is short. */
static int set_reserve(Set *set, size_t n) {
    Set grown;
    int bits = set->bits;
    while (set->used + n > (size_t)1 << (bits - 1)) bits++;
    if (bits == set->bits) return 0;
    if (set_start(&grown, set->multiplier, bits) < 0) return -1;
    grown.has_zero = set->has_zero;
    for (size_t i = 0; i < (size_t)1 << set->bits; i++)
        if (set->slots[i]) set_add(&grown, set->slots[i]);
    set_end(set);
    *set = grown;
    return 0;
}

/* Keeps those of n features that are new, in place; how many. Reads AHEAD more, of any value. */
INLINE size_t keep_new(Set *set, uint64_t *features, size_t n) {
    size_t kept = 0;
    Set here = *set; /* in registers: what is stored could otherwise be a part of it */
    for (size_t i = 0; i < n; i++) {
        uint64_t feature = features[i];
        PREFETCH(here.slots + slot_of(&here, features[i + AHEAD]));
        features[kept] = feature;
        kept += (size_t)set_add(&here, feature);
    }
    *set = here;
    return kept;
}

/* Pads features with zeros, which vote for nothing, to whole steps; the padded number. */
INLINE size_t pad(uint64_t *features, size_t n) {
    size_t padded = (n + STEP - 1) / STEP * STEP;
    memset(features + n, 0, (padded - n) * sizeof *features);
    return padded;
}

/* Keeps those of n features that a level takes, in place; how many. */
INLINE size_t sample(uint64_t *features, size_t n, int level) {
    size_t kept = 0;
    if (!level) return n;
    for (size_t i = 0; i < n; i++) {
        uint64_t feature = features[i];
        features[kept] = feature;
        kept += !(feature >> (64 - level));
    }
    return kept;
}

/* Flips the places of n features in the row of each level that takes them; those of the last level
 * are left in features. */
INLINE void flip(Odd odd, uint64_t *features, size_t n) {
    uint64_t *row = odd.rows;
    for (int level = odd.level; level < odd.level + odd.n_levels; level++, row += odd.width) {
        n = sample(features, n, level);
        row[0] += n;
        for (size_t i = 0; i < n; i++) {
            uint64_t place = features[i] & odd.mask;
            row[1 + place / 64] ^= (uint64_t)1 << place % 64;
        }
    }
}

INLINE int cast(Votes *votes, uint64_t *features, size_t n, int simd) {
    if (votes->odd.rows) n = sample(features, n, votes->odd.level);
    if (votes->spec.distinct) {
        if (set_reserve(&votes->seen, n) < 0) return -1;
        n = keep_new(&votes->seen, features, n);
    }
    votes->n += n;
    if (votes->odd.rows) {
        flip(votes->odd, features, n);
        return 0;
    }
    count_bits(features, pad(features, n), simd, votes->ones[0]);
    for (int i = 1; i < votes->spec.n_words; i++) {
        uint64_t step = GOLDEN * (uint64_t)i;
        if (votes->spec.hash == SIPHASH)
            spread_all(features, n, fmix64(step) | 1, votes->wide);
        else
            widen_all(features, n, step, votes->wide);
        count_bits(votes->wide, pad(votes->wide, n), simd, votes->ones[i]);
    }
    return 0;
}

/* The next words of the text vote. Returns -1 if memory is short. */
INLINE int vote(Votes *votes, const Words *found, const uint8_t *text, int simd) {
    uint64_t *words = votes->words + votes->carried;
    size_t n = found->n, size = (size_t)votes->spec.shingle, total = votes->carried + n;
    if (votes->spec.hash == SIPHASH)
        sip_all(found, text, votes->spec.key, simd, words);
    else if (votes->spec.hash == MIXED)
        mix_all(found->sdbm, n, votes->spec.key[0], words);
    else
        memcpy(words, found->sdbm, n * sizeof *words);
    if (size == 1) return cast(votes, votes->words, n, simd);
    votes->carried = total < size ? total : size - 1;
    if (total < size) return 0;
    shingle_all(votes->words, total - size + 1, size, simd, votes->features);
    memmove(votes->words, votes->words + total - votes->carried,
            votes->carried * sizeof *votes->words);
    return cast(votes, votes->features, total - size + 1, simd);
}

/* A text shorter than a shingle is one; nothing voted for it yet. */
static int vote_short(Votes *votes, int64_t n_words) {
    if (!n_words || n_words >= votes->spec.shingle) return 0;
    votes->features[0] = votes->words[0];
    if (votes->carried > 1)
        shingle_all(votes->words, 1, votes->carried, SIMD_PORTABLE, votes->features);
    return cast(votes, votes->features, 1, SIMD_PORTABLE);
}

/* level: of the sample of features that is taken; 0 for all. */
static int start_votes(Votes *votes, const Spec *spec, size_t length, int level,
                       uint64_t multiplier) {
    int bits = 8;
    length >>= level;
    votes->spec = *spec;
    votes->odd.rows = NULL;
    votes->carried = 0;
    votes->n = 0;
    votes->seen.slots = NULL;
    memset(votes->ones, 0, (size_t)spec->n_words * sizeof votes->ones[0]);
    /* Twice as many slots as words of 5 bytes; memory that is not used would be cleared, too. */
    while (bits < 20 && (size_t)5 << bits < 2 * length) bits++;
    return spec->distinct ? set_start(&votes->seen, multiplier, bits) : 0;
}

static void majority(const Votes *votes, uint64_t *out) {
    for (int i = 0; i < votes->spec.n_words; i++) {
        out[i] = 0;
        for (int bit = 0; votes->n && bit < 64; bit++) {
            uint64_t twice = 2 * votes->ones[i][bit];
            uint64_t set = votes->spec.tie_ge ? twice >= votes->n : twice > votes->n;
            out[i] |= set << bit;
        }
    }
}

typedef struct {
    const uint8_t *bytes;
    size_t length;
} Text;

typedef struct {
    size_t (*scan)(Scanner *, Words *, int);
    int (*vote)(Votes *, const Words *, const uint8_t *);
} Level;

static int vote_portable(Votes *votes, const Words *words, const uint8_t *text) {
    return vote(votes, words, text, SIMD_PORTABLE);
}
#if SIMD_X86
TARGET_AVX2 static int vote_avx2(Votes *votes, const Words *words, const uint8_t *text) {
    return vote(votes, words, text, SIMD_AVX2);
}
TARGET_AVX512 static int vote_avx512(Votes *votes, const Words *words, const uint8_t *text) {
    return vote(votes, words, text, SIMD_AVX512);
}
#endif

static const Level LEVELS[] = {
    {scan_portable, vote_portable},
#if SIMD_X86
    {scan_avx2, vote_avx2},
    {scan_avx512, vote_avx512},
#endif
};

/* The fingerprints of one text under each of n_specs specs, in one pass over its words, out[i]
 * having room for specs[i].n_words; votes for as many. Returns its words, -1 if memory is short. */
static int64_t fingerprints(Text text, const Spec *specs, int n_specs, uint64_t multiplier,
                            int simd, Votes *votes, uint64_t **out) {
    Scanner scanner = {text.bytes, text.length, 0, 0};
    const Level *level = &LEVELS[simd];
    Words words;
    int64_t n_words = 0;
    int failed = 0, wanted = 0, i;
    for (i = 0; i < n_specs; i++) {
        failed |= start_votes(&votes[i], &specs[i], text.length, 0, multiplier);
        wanted |= specs[i].hash == SIPHASH ? BLOCKS : SDBM;
    }
    while (!failed && scanner.at <= text.length) {
        n_words += (int64_t)level->scan(&scanner, &words, wanted);
        for (i = 0; i < n_specs; i++) failed |= level->vote(&votes[i], &words, text.bytes);
    }
    for (i = 0; i < n_specs && !failed; i++) failed |= vote_short(&votes[i], n_words);
    for (i = 0; i < n_specs; i++) {
        majority(&votes[i], out[i]);
        set_end(&votes[i].seen);
    }
    return failed ? -1 : n_words;
}

/* The odd sketches of one text into odd.rows, in one pass; before, they are 0 but for their levels.
 * Returns -1 if memory is short. */
static int odd_sketches_of(Text text, const Spec *spec, Odd odd, uint64_t multiplier, int simd,
                           Votes *votes) {
    Scanner scanner = {text.bytes, text.length, 0, 0};
    const Level *level = &LEVELS[simd];
    Words words;
    int64_t n_words = 0;
    int failed = start_votes(votes, spec, text.length, odd.level, multiplier);
    votes->odd = odd;
    while (!failed && scanner.at <= text.length) {
        n_words += (int64_t)level->scan(&scanner, &words, spec->hash == SIPHASH ? BLOCKS : SDBM);
        failed |= level->vote(votes, &words, text.bytes);
    }
    if (!failed) failed |= vote_short(votes, n_words);
    set_end(&votes->seen);
    return failed ? -1 : 0;
}

#endif
