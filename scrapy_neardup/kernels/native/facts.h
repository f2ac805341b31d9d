/* Visible text in UTF-8 → what exact copies share, and the sentences that state facts;
 * numpy_twin/facts.py defines both.
 *
 * One pass. A token is looked at twice: once to see whether it is a fact, once to hash it or its
 * words. Most sentences state nothing, so that their plain words are hashed only where one does.
 * What composes with its neighbours sends the whole text to Python, which returns it in canonical
 * form.
 */
#ifndef NEARDUP_FACTS_H
#define NEARDUP_FACTS_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "code_points.h"
#include "mix.h"
#include "simd.h"

/* What a character is: an entry's lowest bits; above them the character as it is compared. */
enum {
    SPACE = 1,
    FEED = 2,
    WORD = 4,
    DIGIT = 8,
    SYMBOL = 16,
    EDGES = 32,
    ENDS = 64,
    FORMAT = 128,
    HIDDEN = 256,
    CONTEXT = 512,
    ALONE = 1024,
    CODE_SHIFT = 11
};
#define CODE(entry) ((entry) >> CODE_SHIFT)

#define CELLS 64
/* Words of a row of facts behind its cells, and what two rows differ in: see the twin. */
enum {
    TITLE = CELLS / 4,
    HEADINGS,
    SUM,
    NEGATED,
    COUNT,
    OWN_SPELLING,
    BRIEF_SPELLING,
    COUNTED_WORDS = BRIEF_SPELLING + 2,
    ORDER = COUNTED_WORDS + 2,
    ROW
};
enum { IN_TITLE = 1, IN_HEADING, IN_NUMBER, IN_NEGATION, IN_WORD };
/* Limits of the same names in the twin. */
enum { UNIT = 5, MAX_OF_A_FACT = 2, BRIEF = 8, COUNTED = 2 * BRIEF, OTHER_WORD = 7 };
enum { ONE_SIDED = 2, ONE_SIDED_NEGATION = 16, SWAPPED = 24, FEW_PLACES = 24, TWO_PLACES = 30 };
enum { OTHERWISE = 1, REPLACED }; /* what rewording() says */
/* Bits of ORDER: how many facts and negations there are, a sum of them, what title and headings
 * say. The others are of the order of brief lines. */
#define N_STATED 0xFull
#define ALL_STATED 0xFFFFF0ull
#define ALL_HEADS 0xFFFF000000ull
#define BRIEF_ORDER 0xFFFFFF0000000000ull
/* Bits of NEGATED: a sum of negations in own lines; one of all lines that are not brief, and a hash
 * of these in order; a sum of all words; one of the values in words alone, and their number modulo
 * 16. */
#define NEGATIONS_IN 0xFFFull
#define LONG_LINES (0xFFFull << 12)
#define LONG_ORDER (0xFFFull << 24)
#define ALL_WORDS (0xFFFull << 36)
#define IN_WORDS (0xFFFull << 48)
#define N_IN_WORDS (0xFull << 60)
#define SPARE 16
/* Characters that a short word has at most, cells of words, the least first byte of a character of
 * three bytes: see the twin. */
enum { SHORT = 4, WHOLE_CELLS = 8, FIRST_CELLS = 2, THREE_BYTES = 0xE0 };
#define N_KNOWN 4096 /* places of words: a power of two, of which most are free */

typedef enum { DONE, NEEDS_ROOM, NEEDS_PAGE, NEEDS_PYTHON } Status;

typedef struct {
    int64_t line;
    uint64_t mask, value;
} Sentence;

typedef struct {
    int64_t line;
    uint64_t hash;
} Negation;

/* A token, from its first character to behind its last one. */
typedef struct {
    size_t start;
    size_t core, core_end; /* without the punctuation around it; equal where nothing is left */
    uint32_t kinds, first, last; /* of all its characters; of the first and last of the core */
    int is_single;               /* whether the core is one character */
    size_t mark, n_marks;        /* where one of MARKS is last before the core; how many in a row */
} Token;

/* A word of up to 15 ASCII letters: each one more than it is in lower case, zeros behind them. */
typedef struct {
    uint64_t first, last;
} Letters;
#define MAX_LATER 128

typedef struct {
    const uint8_t *text;
    size_t length;
    int is_canonical;
    int64_t max_lines;
    uint8_t *exact; /* room for `length` bytes and SPARE */
    size_t n_exact;
    Sentence *sentences;
    size_t n, room;
    Negation *negations;
    size_t n_negations, negation_room, needed; /* needed: room for so many more */
    int is_open;     /* whether the last negation waits for the word after it */
    int is_counting; /* whether a fact came last in the sentence, and no word since */
    uint32_t page;   /* that is needed */
    size_t at;
    Token token;
    int in_token;
    uint32_t last; /* the entry of the last character that is seen */
    /* the sentence under way: its facts and negations, its other words, what its facts look like */
    int64_t line;
    uint64_t n_events, n_in_words, values, n_rest, rest, shapes; /* n_in_words: of the events */
    Letters later[MAX_LATER]; /* other words that are not in `rest` yet */
    size_t n_later;
} Reader;

/* Hashes of words that negate or are values, each at the first free place from its own, and what
 * they say; 0 for none. */
enum { NEGATES = 1, IS_VALUE };
static struct {
    uint64_t hash;
    int says;
} KNOWN[N_KNOWN];

static void add_known(uint64_t hash, int says) {
    size_t place = hash >> 32;
    while (KNOWN[place % N_KNOWN].says) place++;
    KNOWN[place % N_KNOWN].hash = hash;
    KNOWN[place % N_KNOWN].says = says;
}

INLINE int said_by(uint64_t hash) {
    for (size_t place = hash >> 32; KNOWN[place % N_KNOWN].says; place++)
        if (KNOWN[place % N_KNOWN].hash == hash) return KNOWN[place % N_KNOWN].says;
    return 0;
}

/* Bits of letters of which a word may be known; those of others are 0, but for a few. */
enum { LETTERS_BITS = 15 };
static uint64_t MAY_BE_KNOWN[1 << (LETTERS_BITS - 6)];

INLINE uint64_t place_of(Letters letters) {
    return (letters.first ^ letters.last * GOLDEN) * GOLDEN >> (64 - LETTERS_BITS);
}

INLINE int may_be_known(Letters letters) {
    uint64_t place = place_of(letters);
    return MAY_BE_KNOWN[place / 64] >> place % 64 & 1;
}

/* The entry of the character at `at`, whose page is there; moves past it. */
INLINE uint32_t entry_at(const uint8_t *text, size_t *at) {
    uint32_t c;
    if (text[*at] < 0x80) return page_at(0)[text[(*at)++]];
    *at += get(text + *at, &c);
    return page_at(c / PAGE)[c % PAGE];
}

INLINE void add_event(Reader *r, uint64_t hash) {
    r->n_events++;
    r->values += fmix64(hash + fmix64(r->n_events));
}

/* c0 r^0 + c1 r^1 + …, each character one more than it is. */
typedef struct {
    uint64_t sum, power;
} Hash;

INLINE void add_code(Hash *hash, uint32_t entry) {
    hash->sum += (CODE(entry) + (uint64_t)1) * hash->power;
    hash->power *= GOLDEN;
}

/* What a fact looks like. */
static uint64_t shape_of(const uint8_t *text, size_t at, size_t end) {
    uint64_t shape = 1, pending = 0, before = 0;
    int begun = 0;
    while (at < end) {
        uint32_t entry = entry_at(text, &at);
        uint64_t looks = entry & WORD ? 1 : entry & DIGIT ? 2 : CODE(entry) + (uint64_t)3;
        if (entry & FORMAT) continue;
        if (begun && looks != before) pending += fmix64(before << 32 | looks);
        if (entry & (WORD | DIGIT)) {
            shape = begun ? shape + pending : fmix64(looks);
            begun = 1;
            pending = 0;
        }
        before = looks;
    }
    return shape;
}

INLINE int64_t line_of(const Reader *r) { return r->line < r->max_lines ? r->line : r->max_lines; }

/* The last negation, with a hash of the word after it. */
INLINE void close_negation(Reader *r, uint64_t word) {
    uint64_t *hash = &r->negations[r->n_negations - 1].hash;
    *hash = fmix64(*hash + fmix64(word));
    r->is_open = 0;
}

/* A negation waits for a word: the first one in a fact, if that has any. */
static void close_with_fact(Reader *r, size_t at, size_t end) {
    Hash hash = {0, 1};
    while (at < end) {
        uint32_t entry = entry_at(r->text, &at);
        if (entry & FORMAT) continue;
        if (entry & (WORD | DIGIT))
            add_code(&hash, entry);
        else if (hash.power != 1)
            break;
    }
    if (hash.power != 1) close_negation(r, hash.sum);
}

static void add_fact(Reader *r, size_t start, size_t end) {
    Hash hash = {0, 1};
    if (r->is_open) close_with_fact(r, start, end);
    for (size_t at = start; at < end;) {
        uint32_t entry = entry_at(r->text, &at);
        if (!(entry & FORMAT)) add_code(&hash, entry);
    }
    add_event(r, hash.sum);
    r->is_counting = 1;
    if (!r->n_rest) r->shapes += shape_of(r->text, start, end);
}

/* Whether it is a unit. */
INLINE int add_word(Reader *r, uint64_t hash, size_t n_chars, int is_contracted) {
    const int says = said_by(hash), is_short = r->is_counting && n_chars <= UNIT;
    r->is_counting = 0;
    if (r->is_open) close_negation(r, hash);
    if (is_contracted || says == NEGATES) {
        Negation *negation = r->negations + r->n_negations++;
        add_event(r, hash);
        negation->line = line_of(r);
        negation->hash = hash;
        r->is_open = 1;
        return 0;
    }
    if (says == IS_VALUE || is_short) {
        add_event(r, hash);
        r->n_in_words += !is_short;
    } else {
        r->rest += fmix64(hash);
        r->n_rest++;
    }
    return is_short;
}

/* The words of a token that is no fact. */
static void add_words(Reader *r, size_t at, size_t end) {
    Hash hash = {0, 1};
    uint32_t last = 0, before = 0; /* characters; the first of a word while it is one alone */
    size_t n_letters = 0;
    int is_contracted = 0;
    while (at < end) {
        uint32_t entry = entry_at(r->text, &at);
        if (entry & FORMAT) continue;
        if (entry & WORD) {
            is_contracted = n_letters++ == 0 && CODE(entry) == 't' && before == 'n' &&
                            (last == '\'' || last == 0x2019);
            add_code(&hash, entry);
        } else if (n_letters) {
            const int is_unit = add_word(r, hash.sum, n_letters, is_contracted);
            r->is_counting = is_unit && CODE(entry) == '/';
            hash.sum = 0;
            hash.power = 1;
            n_letters = 0;
        }
        before = last;
        last = CODE(entry);
    }
    if (n_letters) add_word(r, hash.sum, n_letters, is_contracted);
}

INLINE int is_mark(uint32_t entry) {
    uint64_t code = CODE(entry);
    return code == '.' || code == ',' || code == '!' || code == ':';
}

/* Whether there was room for it. */
static int end_token(Reader *r, const Token *token, size_t end) {
    r->needed = (end - token->start) / 3 + 2; /* "no" and what is between two of them */
    if (r->negation_room - r->n_negations < r->needed) return 0;
    if (r->n_exact) r->exact[r->n_exact++] = ' ';
    if (token->kinds & HIDDEN) {
        for (size_t at = token->start; at < end;) {
            size_t from = at;
            uint32_t entry = entry_at(r->text, &at);
            if (entry & HIDDEN) continue;
            memcpy(r->exact + r->n_exact, r->text + from, at - from);
            r->n_exact += at - from;
        }
    } else {
        memcpy(r->exact + r->n_exact, r->text + token->start, end - token->start);
        r->n_exact += end - token->start;
    }
    if (token->kinds & DIGIT || (token->first | token->last) & SYMBOL ||
        (token->n_marks == 1 && token->core_end > token->core) ||
        (token->is_single && token->first & ALONE))
        add_fact(r, token->core, token->core_end);
    else if (token->kinds & WORD)
        add_words(r, token->core, token->core_end);
    return 1;
}

/* r^0 … r^15 of a word's hash. */
#define R1 GOLDEN
#define R2 (R1 * R1)
#define R4 (R2 * R2)
#define R8 (R4 * R4)
static const uint64_t POWERS[SPARE] = {
    1,  R1,      R2,      R2 * R1,      R4,      R4 * R1,      R4 * R2,      R4 * R2 * R1,
    R8, R8 * R1, R8 * R2, R8 * R2 * R1, R8 * R4, R8 * R4 * R1, R8 * R4 * R2, R8 * R4 * R2 * R1,
};

INLINE uint64_t hash_of_letters(Letters letters) {
    uint64_t hash = 0;
    for (int i = 0; i < 8; i++) {
        hash += (letters.first >> 8 * i & 0xFF) * POWERS[i];
        hash += (letters.last >> 8 * i & 0xFF) * POWERS[8 + i];
    }
    return hash;
}

static void hash_later(Reader *r) {
    for (size_t i = 0; i < r->n_later; i++) r->rest += fmix64(hash_of_letters(r->later[i]));
    r->n_later = 0;
}

INLINE void add_letters(Reader *r, Letters letters, size_t n_chars) {
    if (r->is_open || r->is_counting || may_be_known(letters)) {
        add_word(r, hash_of_letters(letters), n_chars, 0);
        return;
    }
    if (r->n_later == MAX_LATER) hash_later(r);
    r->later[r->n_later++] = letters;
    r->n_rest++;
}

/* Whether there was room for it. */
INLINE int end_sentence(Reader *r) {
    if (r->n_events) {
        Sentence *sentence = r->sentences + r->n;
        if (r->n == r->room) return 0;
        hash_later(r);
        sentence->line = line_of(r);
        sentence->mask = r->n_events == r->n_in_words ? 0 : fmix64(r->n_rest ? r->rest : r->shapes);
        sentence->value = fmix64(r->values);
        r->n++;
    }
    r->n_events = r->n_in_words = r->values = r->n_rest = r->rest = r->shapes = r->n_later = 0;
    r->is_counting = 0;
    return 1;
}

#define OF_EACH(byte) ((uint64_t)0x0101010101010101 * (byte))

/* How many of 8 bytes are ASCII letters, up to the first that is none; these as in Letters. Without
 * a branch: nobody can tell how long a word is. */
INLINE size_t letters_of(const uint8_t *bytes, uint64_t *found) {
    const uint64_t lower = load8(bytes) | OF_EACH(0x20), seven = lower & OF_EACH(0x7F);
    const uint64_t from_a = seven + OF_EACH(0x80 - 'a'), above_z = seven + OF_EACH(0x7F - 'z');
    const uint64_t others = (~from_a | above_z | lower) & OF_EACH(0x80);
    /* All bytes before the first of the others. */
    *found = (lower + OF_EACH(1)) & (((others & (0 - others)) >> 7) - 1);
    return others ? (size_t)trailing_zeros(others) / 8 : 8;
}

/* How many ASCII letters a word begins with, SPARE where there may be more; these. */
INLINE size_t word_of_letters(const uint8_t *word, Letters *letters) {
    size_t n = letters_of(word, &letters->first);
    letters->last = 0;
    return n < 8 ? n : n + letters_of(word + 8, &letters->last);
}

/* word: with SPARE bytes, spaces behind it. */
static void note_known(const uint8_t *word) {
    Letters letters;
    size_t n = word_of_letters(word, &letters);
    uint64_t place = place_of(letters);
    if (n < SPARE && word[n] == ' ') MAY_BE_KNOWN[place / 64] |= (uint64_t)1 << place % 64;
}

/* Reads most tokens in one go: words of 2 to 15 ASCII letters, each before a space. Whether there
 * was one. Its place is in a register meanwhile: each word waits for that of the one before. */
static int plain_words(Reader *r) {
    const uint8_t *word = r->text + r->at, *const end = r->text + r->length;
    uint8_t *const exact = r->exact;
    size_t n_exact = r->n_exact;
    while (end - word >= SPARE && r->n_negations < r->negation_room) {
        Letters letters;
        size_t n = word_of_letters(word, &letters);
        if (n < 2 || n == SPARE || (word[n] != ' ' && word[n] != '\n')) break;
        if (n_exact) exact[n_exact++] = ' ';
        memcpy(exact + n_exact, word, SPARE); /* of a fixed length: two instructions */
        n_exact += n;
        add_letters(r, letters, n);
        word += n;
        if (*word == '\n') break; /* no arithmetic, which the next word would wait for */
        word++;
    }
    if (word == r->text + r->at) return 0;
    r->at = (size_t)(word - r->text);
    r->n_exact = n_exact;
    r->last = WORD;
    return 1;
}

/* What other tokens are made of, too: ASCII letters after a letter. */
INLINE void skip_letters(Reader *r) {
    size_t at = r->at, length = r->length;
    const uint8_t *text = r->text;
    while (at < length && is_letter(text[at])) at++;
    if (at == r->at) return;
    r->at = r->token.core_end = at;
    r->last = r->token.last = WORD;
    r->token.is_single = 0;
}

/* Goes on until the text is done or something is needed; call again when it is there. */
static Status read_until(Reader *r) {
    if (!page_at(0)) { /* letters of ASCII are skipped without a look at it */
        r->page = 0;
        return NEEDS_PAGE;
    }
    while (r->at < r->length) {
        uint32_t c, entry;
        size_t bytes;
        const uint32_t *page;
        if (!r->in_token && plain_words(r)) continue;
        bytes = get(r->text + r->at, &c);
        page = page_at(c / PAGE);
        if (!page) {
            r->page = c / PAGE;
            return NEEDS_PAGE;
        }
        entry = page[c % PAGE];
        if (entry & CONTEXT && !r->is_canonical) return NEEDS_PYTHON;
        if (entry & (SPACE | FEED)) {
            if (r->in_token && !end_token(r, &r->token, r->at)) return NEEDS_ROOM;
            r->in_token = 0;
            if (entry & FEED || r->last & ENDS) {
                if (!end_sentence(r)) return NEEDS_ROOM;
                r->line += (entry & FEED) != 0;
            }
            r->last = entry;
        } else if (r->in_token || !(entry & HIDDEN)) {
            Token *token = &r->token;
            if (!r->in_token) {
                r->in_token = 1;
                token->start = token->core = token->core_end = r->at;
                token->kinds = token->first = token->last = 0;
                token->n_marks = 0;
            }
            token->kinds |= entry;
            if (!(entry & FORMAT)) {
                const int is_first = token->core == token->core_end;
                r->last = entry;
                if (!(entry & EDGES)) {
                    token->is_single = is_first;
                    if (is_first) {
                        token->core = token->n_marks == 1 ? token->mark : r->at;
                        token->first = entry;
                    }
                    token->core_end = r->at + bytes;
                    token->last = entry;
                } else if (is_first) {
                    token->n_marks = is_mark(entry) ? token->n_marks + 1 : 0;
                    token->mark = r->at;
                }
            }
        }
        r->at += bytes;
        if (entry & WORD) skip_letters(r);
    }
    if (r->in_token && !end_token(r, &r->token, r->at)) return NEEDS_ROOM;
    r->in_token = 0;
    if (!end_sentence(r)) return NEEDS_ROOM;
    if (r->is_open) close_negation(r, 0);
    return DONE;
}

/* What a page states, as the columns that read_until() found and its title and headings. */
typedef struct {
    const int64_t *lines;
    const uint64_t *masks, *values;
    size_t n;
    const int64_t *negation_lines;
    const uint64_t *negations;
    size_t n_negations;
    const uint64_t *titles, *headings;
    size_t n_titles, n_headings;
} Stated;

/* A page's lines that have words: hashes of these, where they end, how many they are. */
typedef struct {
    const uint8_t *words;
    const uint64_t *hashes;
    const int64_t *ends, *lines, *n_words;
    size_t n;
} Blocks;

/* Up to four hashes of 16 bits, none of them 0, of those that are wanted; of more, the fourth is
 * the sum of the rest. */
static uint64_t four_of(const uint64_t *hashes, const uint8_t *are_wanted, size_t n) {
    uint64_t four = 0, rest = 0;
    size_t n_wanted = 0;
    for (size_t i = 0; i < n; i++) {
        uint64_t hash = 1 + hashes[i] % 0xFFFF;
        if (!are_wanted[i]) continue;
        if (n_wanted < 3)
            four |= hash << 16 * n_wanted;
        else
            rest += hash;
        n_wanted++;
    }
    if (n_wanted > 4) rest = 1 + rest % 0xFFFF;
    return four | rest << 48;
}

/* The lines that are a page's own, and those that are hardly more than a fact, ascending, into
 * `own`, which has room for all blocks and sentences; how many. */
static size_t own_lines_of(const Blocks *blocks, const Stated *stated, const uint8_t *are_own,
                           int64_t *own) {
    size_t n = 0, block = 0, negation = 0;
    for (size_t i = 0; blocks->n && i < stated->n; i++) {
        int64_t line = stated->lines[i];
        int has_words, is_negated;
        for (; block < blocks->n && blocks->lines[block] < line; block++)
            if (are_own[block] && (!n || own[n - 1] != blocks->lines[block]))
                own[n++] = blocks->lines[block];
        while (negation < stated->n_negations && stated->negation_lines[negation] < line)
            negation++;
        is_negated = negation < stated->n_negations && stated->negation_lines[negation] == line;
        has_words = block < blocks->n && blocks->lines[block] == line;
        if (is_negated || !stated->masks[i] ||
            (has_words && blocks->n_words[block] > MAX_OF_A_FACT))
            continue;
        if (!n || own[n - 1] != line) own[n++] = line;
    }
    for (; block < blocks->n; block++)
        if (are_own[block] && (!n || own[n - 1] != blocks->lines[block]))
            own[n++] = blocks->lines[block];
    return n;
}

/* Facts as a page stores them: see numpy_twin/facts.py. row: zeros; n_own is at least 1. */
static void fill_table(const Stated *stated, const int64_t *own, size_t n_own, uint64_t *row) {
    const int64_t *lines = stated->lines;
    const uint64_t *masks = stated->masks, *values = stated->values;
    uint32_t numbers[CELLS] = {0}, sums[CELLS] = {0};
    uint64_t n_stated = 0; /* in own lines */
    size_t place = 0;
    for (size_t i = 0; i < stated->n && lines[i] <= own[n_own - 1]; i++) {
        if (lines[i] < own[0] || !masks[i]) continue;
        numbers[masks[i] % CELLS]++;
        sums[masks[i] % CELLS] += values[i] & 0xFFF;
        while (own[place] < lines[i]) place++;
        if (own[place] == lines[i])
            row[SUM] += fmix64(masks[i] + fmix64(values[i]) + GOLDEN * n_stated++);
    }
    for (int i = 0; i < CELLS; i++)
        row[i / 4] |= (uint64_t)(numbers[i] % 16 << 12 | sums[i] % 4096) << 16 * (i % 4);
}

/* The sum of the negations in own lines. */
static uint64_t sum_of_own(const Stated *stated, const int64_t *own, size_t n_own) {
    const int64_t *lines = stated->negation_lines;
    uint64_t sum = 0;
    size_t place = 0;
    for (size_t i = 0; i < stated->n_negations && lines[i] <= own[n_own - 1]; i++) {
        while (own[place] < lines[i]) place++;
        if (own[place] == lines[i]) sum += stated->negations[i];
    }
    return sum;
}

/* A hash of some letters. */
INLINE uint64_t hash_of(const uint8_t *letters, size_t length) {
    uint64_t hash = 0;
    for (size_t i = 0; i < length; i++) hash = (hash + letters[i] + 1) * GOLDEN;
    return fmix64(hash);
}

/* Counts of what falls on each of 64 cells. Only their last two bits are kept. */
typedef struct {
    uint8_t n[64];
} Cells;

/* Count n cells of some letters, by their hash. */
INLINE void count_whole(Cells *cells, uint64_t hash, int n) {
    for (; n--; hash >>= 6) cells->n[hash & 63]++;
}

/* How many characters a word of n bytes has. */
INLINE int chars_of(const uint8_t *word, size_t n) {
    int n_chars = 0;
    for (size_t i = 0; i < n; i++) n_chars += (word[i] & 0xC0) != 0x80;
    return n_chars;
}

/* Count the cells of a word, by its spelling. */
INLINE void count_spelling(Cells *cells, const uint8_t *word, size_t n, uint64_t hash) {
    int has_digit = 0;
    for (size_t i = 0; i < n; i++) has_digit |= (uint8_t)(word[i] - '0') < 10;
    if (has_digit || chars_of(word, n) <= SHORT) {
        count_whole(cells, hash, WHOLE_CELLS);
        return;
    }
    count_whole(cells, hash_of(word, word[0] > 0x7F ? 3 : 1), FIRST_CELLS);
    for (size_t i = 0; i <= n; i++) {
        uint64_t pair = (uint64_t)(i ? word[i - 1] : ' ') << 8 | (i < n ? word[i] : ' ');
        cells->n[pair * GOLDEN >> 58]++;
    }
}

/* The last two bits of each count, as two words. */
static void put_cells(const Cells *cells, uint64_t *words) {
    for (int i = 0; i < 64; i++) words[i / 32] |= (uint64_t)(cells->n[i] & 3) << 2 * (i % 32);
}

/* Where a word of a line ends that begins at `at`; empty between two spaces. */
INLINE const uint8_t *end_of_word(const uint8_t *at, const uint8_t *end) {
    while (at < end && *at != ' ') at++;
    return at;
}

/* What the words of a short line say, into the counts of their spelling and of words. */
INLINE void count_line(const uint8_t *line, size_t length, Cells *spelling, Cells *counted) {
    const uint8_t *end = line + length, *at;
    for (const uint8_t *word = line; word < end; word = at + 1) {
        at = end_of_word(word, end);
        if (at == word) continue;
        uint64_t hash = hash_of(word, at - word);
        counted->n[hash >> 59]++;
        counted->n[32 + (hash & 31)]++;
        if (spelling) count_spelling(spelling, word, at - word, hash);
    }
}

/* How many words a line of n words has, two pairs of characters counting as one. */
static int64_t spoken_words(const uint8_t *line, size_t length, int64_t n) {
    const uint8_t *end = line + length, *at;
    int64_t n_pairs = 0;
    for (const uint8_t *word = line; word < end; word = at + 1) {
        at = end_of_word(word, end);
        n_pairs += *word >= THREE_BYTES && chars_of(word, at - word) == 2;
    }
    return n - n_pairs / 2;
}

/* Where in eight bytes, the first one lowest, the first space is; 8 for none. */
INLINE size_t space_in(uint64_t bytes) {
    const uint64_t others = bytes ^ OF_EACH(' ');
    const uint64_t spaces = (others - OF_EACH(1)) & ~others & OF_EACH(0x80);
    return spaces ? (size_t)trailing_zeros(spaces) / 8 : 8;
}

/* The eight bytes at `at`, spaces in the place of those from `end` on. */
INLINE uint64_t load_before(const uint8_t *at, const uint8_t *end) {
    uint8_t rest[8] = {' ', ' ', ' ', ' ', ' ', ' ', ' ', ' '};
    if (end - at >= 8) return load8(at);
    memcpy(rest, at, (size_t)(end - at));
    return load8(rest);
}

/* The sum of all words, each by its first and last eight bytes: see numpy_twin/facts.py. */
static uint64_t sum_of_words(const uint8_t *words, size_t length) {
    const uint8_t *const end = words + length, *at;
    uint64_t sum = 0;
    for (const uint8_t *word = words; word < end; word = at + 1) {
        uint64_t first = load_before(word, end), last;
        size_t n = space_in(first);
        at = n < 8 ? word + n : end_of_word(word + 8, end);
        if (n < 8) first &= ((uint64_t)1 << 8 * n) - 1;
        last = at - word > 8 ? load8(at - 8) : first;
        sum += fmix64(first + last * GOLDEN);
    }
    return sum;
}

/* What is said of the words in short lines: see numpy_twin/facts.py. row: zeros there. */
static void put_wording(const Blocks *blocks, const uint8_t *are_own, uint64_t *row) {
    Cells own = {{0}}, templates = {{0}}, counted = {{0}};
    uint64_t sum = 0, order = 0; /* of lines that are not brief */
    size_t start = 0;
    for (size_t i = 0; i < blocks->n; start = (size_t)blocks->ends[i++] + 1) {
        const uint8_t *line = blocks->words + start;
        size_t length = (size_t)blocks->ends[i] - start;
        int64_t n_words = blocks->n_words[i];
        if (n_words > BRIEF && n_words <= 2 * COUNTED)
            n_words = spoken_words(line, length, n_words);
        const int is_brief = n_words <= BRIEF;
        if (!is_brief) {
            sum += blocks->hashes[i];
            order = fmix64(order + blocks->hashes[i]);
        }
        if (n_words > COUNTED) continue;
        count_line(line, length, !is_brief ? NULL : are_own[i] ? &own : &templates, &counted);
        if (is_brief) row[ORDER] = fmix64(row[ORDER] + hash_of(line, length));
    }
    for (int i = 0; i < 64; i++) {
        row[OWN_SPELLING] |= (uint64_t)(own.n[i] & 1) << i;
        own.n[i] += templates.n[i];
    }
    put_cells(&own, row + BRIEF_SPELLING);
    put_cells(&counted, row + COUNTED_WORDS);
    row[NEGATED] |= (sum & LONG_LINES) | (order & LONG_ORDER);
    if (blocks->n) {
        size_t length = (size_t)blocks->ends[blocks->n - 1];
        row[NEGATED] |= sum_of_words(blocks->words, length) & ALL_WORDS;
    }
}

/* All that a page states, in templates, too, as the bits of ORDER below BRIEF_ORDER. */
static uint64_t sum_of_all(const Stated *stated) {
    uint64_t n = stated->n_negations, facts = 0, heads = 0;
    for (size_t i = 0, at = 0; i < stated->n; i++) {
        if (!stated->masks[i]) continue;
        facts += fmix64(stated->values[i] + at++ * GOLDEN);
        n++;
    }
    for (size_t i = 0; i < stated->n_negations; i++) facts += stated->negations[i];
    for (size_t i = 0; i < stated->n_titles; i++) heads += fmix64(stated->titles[i]);
    for (size_t i = 0; i < stated->n_headings; i++) heads += fmix64(stated->headings[i]);
    return (n & N_STATED) | (facts & ALL_STATED) | (heads & ALL_HEADS);
}

/* The sum of the values in words alone, and their number, as bits of NEGATED. */
static uint64_t values_in_words(const Stated *stated) {
    uint64_t n = 0, sum = 0;
    for (size_t i = 0; i < stated->n; i++) {
        if (stated->masks[i]) continue;
        sum += stated->values[i];
        n++;
    }
    return (sum & IN_WORDS) | (n << 60 & N_IN_WORDS);
}

/* Facts as a page stores them: see numpy_twin/facts.py. are_own: of blocks, titles and headings,
 * one behind the other; own: room for all blocks and sentences; row: zeros. */
static void pack(const Blocks *blocks, const Stated *stated, const uint8_t *are_own, int64_t *own,
                 uint64_t *row) {
    const uint8_t *own_titles = are_own + blocks->n;
    size_t n_own = own_lines_of(blocks, stated, are_own, own);
    row[TITLE] = four_of(stated->titles, own_titles, stated->n_titles);
    row[HEADINGS] = four_of(stated->headings, own_titles + stated->n_titles, stated->n_headings);
    if (n_own) {
        fill_table(stated, own, n_own, row);
        row[NEGATED] = sum_of_own(stated, own, n_own) & NEGATIONS_IN;
    }
    for (size_t i = 0; i < blocks->n; i++) row[COUNT] += are_own[i] ? blocks->n_words[i] : 0;
    put_wording(blocks, are_own, row);
    row[NEGATED] |= values_in_words(stated);
    row[ORDER] = (row[ORDER] & BRIEF_ORDER) | sum_of_all(stated);
}

/* A page's cells that have other values than another's, as many entries each: 1; 2 if each page has
 * some cells with more entries, and other values in all; 0 otherwise. */
static int other_cells(const uint64_t *row, const uint64_t *other) {
    uint32_t we = 0, they = 0, value_more = 0;
    for (int i = 0; i < CELLS; i++) {
        uint32_t ours = row[i / 4] >> 16 * (i % 4) & 0xFFFF;
        uint32_t theirs = other[i / 4] >> 16 * (i % 4) & 0xFFFF;
        uint32_t n_more = ((theirs >> 12) - (ours >> 12)) & 0xF; /* 8: either may have more */
        if (ours == theirs) continue;
        if (!n_more) return 1;
        we |= n_more >= 8;
        they |= n_more <= 8;
        value_more += (theirs & 0xFFF) - (ours & 0xFFF);
    }
    return we && they && (value_more & 0xFFF) ? 2 : 0;
}

/* Whether four hashes have one that is not among four others. */
INLINE int has_other(uint64_t head, uint64_t other) {
    for (; head; head >>= 16) {
        uint64_t hash = head & 0xFFFF, left = other;
        while (left && (left & 0xFFFF) != hash) left >>= 16;
        if (hash && !left) return 1;
    }
    return 0;
}

/* The lower bit of each cell of two bits. */
#define LOW 0x5555555555555555ull

/* In how many of 64 cells of two bits rows differ. */
INLINE int n_apart(const uint64_t *cells, const uint64_t *other) {
    uint64_t first = cells[0] ^ other[0], second = cells[1] ^ other[1];
    return popcount((first | first >> 1) & LOW) + popcount((second | second >> 1) & LOW);
}

/* Whether each of two rows has more in some cells than the other, or may have. */
INLINE int both_have_more(const uint64_t *cells, const uint64_t *other) {
    uint64_t we = 0, they = 0, twice = 0;
    for (int i = 0; i < 2; i++) {
        uint64_t more = ((other[i] | ~LOW) - (cells[i] & LOW)) ^ ((other[i] ^ ~cells[i]) & ~LOW);
        uint64_t odd = more & LOW, upper = more >> 1 & LOW;
        we |= odd & upper;
        they |= odd & ~upper;
        twice |= upper & ~odd;
    }
    return (we && they) || twice;
}

/* Whether rows have as many values in words, and others; change: in NEGATED. */
INLINE int has_other_values_in_words(uint64_t change) {
    return !(change & N_IN_WORDS) && change & IN_WORDS;
}

/* What a page says else than another in brief lines: see numpy_twin/facts.py. */
static int rewording(const uint64_t *row, const uint64_t *other, double n_differing) {
    int has_same_facts = !memcmp(row, other, CELLS / 4 * sizeof *row);
    int has_same_words = !memcmp(row + BRIEF_SPELLING, other + BRIEF_SPELLING, 4 * sizeof *row);
    uint64_t of_all = row[NEGATED] ^ other[NEGATED], change = row[ORDER] ^ other[ORDER];
    if (has_same_facts && row[SUM] != other[SUM]) return REPLACED;
    if (!(of_all & LONG_LINES) && of_all & LONG_ORDER) return REPLACED;
    if (!(of_all & ALL_WORDS) && n_differing > 0) return REPLACED;
    if (has_other_values_in_words(of_all)) return REPLACED;
    if (!change || !(n_differing <= TWO_PLACES || has_same_words)) return 0;
    if (change & ALL_STATED && !(change & N_STATED)) return REPLACED;
    if (!(change & BRIEF_ORDER)) return OTHERWISE;
    int is_replaced = both_have_more(row + COUNTED_WORDS, other + COUNTED_WORDS)
                          ? n_apart(row + BRIEF_SPELLING, other + BRIEF_SPELLING) >= OTHER_WORD
                          : has_same_words;
    return is_replaced ? REPLACED : OTHERWISE;
}

/* In what a page differs from another: see numpy_twin/facts.py. */
static int difference(const uint64_t *row, const uint64_t *other, double n_differing,
                      double n_own) {
    const int few_places = n_own <= FEW_PLACES;
    const uint64_t negated = row[NEGATED] ^ other[NEGATED];
    int cells;
    if ((row[COUNT] ^ other[COUNT]) >> 32) return IN_NUMBER;
    for (int head = TITLE; head <= HEADINGS; head++)
        if (has_other(row[head], other[head]) && has_other(other[head], row[head]))
            return head == TITLE ? IN_TITLE : IN_HEADING;
    cells = other_cells(row, other);
    if (cells == 1 || (cells == 2 && few_places)) return IN_NUMBER;
    if (few_places && has_other_values_in_words(negated)) return IN_NUMBER;
    if (row[SUM] != other[SUM] && n_differing <= SWAPPED) {
        if (n_differing <= ONE_SIDED) return IN_NUMBER;
        if (!memcmp(row, other, CELLS / 4 * sizeof *row)) return IN_NUMBER;
    }
    if (negated & NEGATIONS_IN && n_differing <= ONE_SIDED_NEGATION) return IN_NEGATION;
    if (few_places && row[COUNT] == other[COUNT] &&
        popcount(row[OWN_SPELLING] ^ other[OWN_SPELLING]) >= OTHER_WORD)
        return IN_WORD;
    return 0;
}

#endif
