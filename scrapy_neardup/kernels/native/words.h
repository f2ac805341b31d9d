/* Visible text in UTF-8 → normalised words; numpy_twin/words.py defines them.
 *
 * A code point that stands for itself, or for the same words in any company, is looked up in a
 * table made from the running Python's unicodedata. What composes with its neighbours or
 * changes places with them sends its run, between two ASCII spaces, to Python.
 */
#ifndef NEARDUP_WORDS_H
#define NEARDUP_WORDS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "simd.h"

#define SPACE 32
#define MAX_CODE_POINT 0x10FFFF
#define PAGE 256
#define N_PAGES ((MAX_CODE_POINT + 1) / PAGE)
#define MAX_EXPANSION 32           /* code points that one may become */
#define SLACK (16 * MAX_EXPANSION) /* bytes that one may add, and more */

/* What becomes of a code point: an entry's lowest 3 bits. */
enum {
    SEPARATOR,
    SPACED,   /* a letter, mark or digit: the code point in the entry's upper 21 bits */
    UNSPACED, /* the same, of a script without spaces */
    STRING,   /* several entries, their number first, at the upper bits' place in the page */
    CONTEXT   /* depends on its neighbours */
};
#define KIND(entry) ((entry) & 7)
#define ORDER(entry) ((entry) >> 3 & 0xFF) /* canonical combining class */
#define VALUE(entry) ((entry) >> 11)

/* Pages are made once, never moved and never freed: threads read them without a lock. */
static uint32_t *PAGES[N_PAGES];

#if defined(__GNUC__)
static void add_page(int number, uint32_t *page) {
    __atomic_store_n(&PAGES[number], page, __ATOMIC_RELEASE);
}
static const uint32_t *page_at(uint32_t number) {
    return __atomic_load_n(&PAGES[number], __ATOMIC_ACQUIRE);
}
#else
static void add_page(int number, uint32_t *page) {
    _InterlockedExchangePointer((void *volatile *)&PAGES[number], page);
}
static const uint32_t *page_at(uint32_t number) {
    return *(uint32_t *volatile *)&PAGES[number];
}
#endif

typedef enum { DONE, NEEDS_ROOM, NEEDS_PAGE, NEEDS_PYTHON } Status;

typedef struct {
    const uint8_t *text; /* UTF-8; a lone surrogate as three bytes */
    size_t length, at;
    uint8_t *out; /* a space, then words, each with a space after it */
    size_t n, room;
    size_t run, run_n;     /* where the run began in text, and its words in out */
    uint32_t order;        /* combining class of the last code point */
    uint32_t unspaced;     /* characters of the unspaced run so far: 0, 1, or 2 for more */
    uint32_t previous;     /* its last one */
    size_t ascii;          /* where the last stretch of ASCII that was looked at ends */
    uint32_t page;         /* that is needed */
} Words;

/* The letter in lower case, the digit, or a space for any other ASCII character. */
INLINE uint8_t folded(uint8_t c) {
    uint8_t lower = c | 0x20;
    int letter = (uint8_t)(lower - 'a') < 26, digit = (uint8_t)(c - '0') < 10;
    return letter ? lower : digit ? c : SPACE;
}

INLINE int is_ascii_space(uint8_t c) { return c == SPACE || (uint8_t)(c - '\t') < 5; }

/* Words of n bytes of ASCII, after what out holds; out[n - 1] is there. Returns its new length. */
INLINE size_t ascii_words(const uint8_t *text, size_t length, uint8_t *out, size_t n) {
    int in_word = out[n - 1] != SPACE;
    for (size_t i = 0; i < length; i++) {
        uint8_t c = folded(text[i]);
        int is_word = c != SPACE;
        out[n] = c;
        n += (size_t)(is_word | in_word);
        in_word = is_word;
    }
    return n;
}

INLINE size_t put(uint8_t *out, uint32_t c) {
    if (c < 0x80) {
        out[0] = (uint8_t)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (uint8_t)(0xC0 | c >> 6);
        out[1] = (uint8_t)(0x80 | (c & 0x3F));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (uint8_t)(0xE0 | c >> 12);
        out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
        out[2] = (uint8_t)(0x80 | (c & 0x3F));
        return 3;
    }
    out[0] = (uint8_t)(0xF0 | c >> 18);
    out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3F));
    out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3F));
    out[3] = (uint8_t)(0x80 | (c & 0x3F));
    return 4;
}

/* The code point at text, which Python encoded, and its bytes. */
INLINE size_t get(const uint8_t *text, uint32_t *c) {
    if (text[0] < 0x80) {
        *c = text[0];
        return 1;
    }
    if (text[0] < 0xE0) {
        *c = (uint32_t)(text[0] & 0x1F) << 6 | (text[1] & 0x3F);
        return 2;
    }
    if (text[0] < 0xF0) {
        *c = (uint32_t)(text[0] & 0x0F) << 12 | (uint32_t)(text[1] & 0x3F) << 6 | (text[2] & 0x3F);
        return 3;
    }
    *c = (uint32_t)(text[0] & 0x07) << 18 | (uint32_t)(text[1] & 0x3F) << 12 |
         (uint32_t)(text[2] & 0x3F) << 6 | (text[3] & 0x3F);
    return 4;
}

INLINE void end_word(Words *w) {
    if (w->out[w->n - 1] != SPACE) w->out[w->n++] = SPACE;
    w->unspaced = 0;
}

INLINE void emit(Words *w, uint32_t entry) {
    uint32_t c = VALUE(entry);
    if (KIND(entry) == SEPARATOR) {
        end_word(w);
    } else if (KIND(entry) == SPACED) {
        if (w->unspaced) end_word(w);
        w->n += put(w->out + w->n, c);
    } else {
        if (!w->unspaced) end_word(w);
        if (w->unspaced == 2) { /* the next bigram */
            w->out[w->n++] = SPACE;
            w->n += put(w->out + w->n, w->previous);
        }
        w->n += put(w->out + w->n, c);
        w->unspaced += w->unspaced < 2;
        w->previous = c;
    }
}

/* The bytes of ASCII from `at` to the last space before other bytes; 0 if they are few. */
INLINE size_t ascii_stretch(Words *w) {
    size_t end = w->at;
    uint64_t eight;
    if (end < w->ascii) return 0;
    for (; w->length - end >= 8; end += 8) {
        memcpy(&eight, w->text + end, 8);
        if (eight & 0x8080808080808080) break;
    }
    w->ascii = end;
    while (end > w->at && !is_ascii_space(w->text[end - 1])) end--;
    return end - w->at;
}

/* Where the run ends that reaches at least to `from`: at an ASCII space, or with the text. */
static size_t run_end(const Words *w, size_t from) {
    while (from < w->length && !is_ascii_space(w->text[from])) from++;
    return from < w->length ? from : w->length;
}

/* Goes on until the text is done or something is needed; call again when it is there. */
static Status words_until(Words *w) {
    while (w->at < w->length) {
        const uint32_t *page;
        uint32_t c, entry;
        size_t bytes;
        size_t ascii = ascii_stretch(w);
        if (w->room - w->n < ascii + SLACK) {
            w->ascii = w->at; /* to be looked at again */
            return NEEDS_ROOM;
        }
        if (ascii) {
            if (w->unspaced) end_word(w);
            w->n = ascii_words(w->text + w->at, ascii, w->out, w->n);
            w->run = w->at += ascii;
            w->run_n = w->n;
            w->order = 0;
            continue;
        }
        bytes = get(w->text + w->at, &c);
        page = page_at(c / PAGE);
        if (!page) {
            w->page = c / PAGE;
            return NEEDS_PAGE;
        }
        entry = page[c % PAGE];
        if (KIND(entry) == CONTEXT || (ORDER(entry) && ORDER(entry) < w->order))
            return NEEDS_PYTHON;
        w->order = ORDER(entry);
        if (KIND(entry) == STRING) {
            const uint32_t *string = page + VALUE(entry);
            for (uint32_t i = 1; i <= string[0]; i++) emit(w, string[i]);
        } else {
            emit(w, entry);
        }
        w->at += bytes;
        if (c < 0x80 && is_ascii_space((uint8_t)c)) {
            w->run = w->at;
            w->run_n = w->n;
        }
    }
    return DONE;
}

#endif
