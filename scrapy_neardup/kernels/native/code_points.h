/* Text in UTF-8, code point by code point, and a table that says something of each. */
#ifndef NEARDUP_CODE_POINTS_H
#define NEARDUP_CODE_POINTS_H

#include <stddef.h>
#include <stdint.h>

#include "simd.h"

#define MAX_CODE_POINT 0x10FFFF
#define PAGE 256
#define N_PAGES ((MAX_CODE_POINT + 1) / PAGE)

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
static const uint32_t *page_at(uint32_t number) { return *(uint32_t *volatile *)&PAGES[number]; }
#endif

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

#endif
