/* The visible text of a tree that lxml holds, read in place; markup.pyx says what that is.
 *
 * Declared are the beginnings of two structures, up to the last member that is read: lxml's
 * element (lxml/includes/etreepublic.pxd) and libxml2's node (libxml/tree.h). Neither library
 * promises the first, so markup.pyx compares a known tree with both, by addresses, before any
 * pointer is followed. Nothing of either library is called.
 */
#ifndef NEARDUP_MARKUP_H
#define NEARDUP_MARKUP_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <Python.h>

#include "simd.h"

enum { ELEMENT = 1, TEXT = 3, CDATA = 4 }; /* types of nodes that matter here */

typedef struct Node {
    const void *private_; /* lxml's element, where it has made one */
    int type;
    const char *name;
    const struct Node *children, *last, *parent, *next, *previous;
    const void *document, *namespace_;
    const char *content;
} Node;

typedef struct {
    PyObject_HEAD PyObject *document;
    const Node *node;
} Element;

/* --- before it is parsed ------------------------------------------------------------------- */

INLINE int is_space(uint8_t c) { return c == ' ' || (uint8_t)(c - '\t') < 5; }

INLINE int is_letter(uint8_t c) { return (uint8_t)((c | 0x20) - 'a') < 26; }

/* Just past the first `c` from `at` on, or the end. */
INLINE const uint8_t *past(const uint8_t *at, const uint8_t *end, uint8_t c) {
    const uint8_t *found = at < end ? memchr(at, c, (size_t)(end - at)) : NULL;
    return found ? found + 1 : end;
}

/* Just past what is no tag but begins like one: a comment that begins after '<' at `at`. */
static const uint8_t *past_comment(const uint8_t *at, const uint8_t *end) {
    if (end - at < 3 || at[0] != '!' || at[1] != '-' || at[2] != '-') return past(at, end, '>');
    at++;
    if (end - at >= 3 && at[2] == '>') return at + 3;
    if (end - at >= 4 && at[2] == '-' && at[3] == '>') return at + 4;
    for (const uint8_t *close = past(at + 2, end, '>'); close < end;
         close = past(close, end, '>')) {
        if (close - at >= 5 && close[-2] == '-' && close[-3] == '-') return close;
        if (close - at >= 6 && close[-2] == '!' && close[-3] == '-' && close[-4] == '-')
            return close;
    }
    return end;
}

static int names(const uint8_t *at, const uint8_t *end, const char *name) {
    for (; *name; name++, at++)
        if (at == end || (*at | 0x20) != *name) return 0;
    return at == end || is_space(*at) || *at == '/' || *at == '>';
}

/* Where the text of a script or style ends, which is no markup: at its end tag. */
static const uint8_t *end_of_raw(const uint8_t *at, const uint8_t *end, const char *name) {
    while ((at = past(at, end, '<')) < end)
        if (*at == '/' && names(at + 1, end, name)) return at - 1;
    return end;
}

/* Just past an attribute that begins at `at`. */
static const uint8_t *past_attribute(const uint8_t *at, const uint8_t *end) {
    for (at++; at < end && !is_space(*at) && *at != '/' && *at != '>' && *at != '='; at++) {}
    const uint8_t *next = at;
    while (next < end && is_space(*next)) next++;
    if (next == end || *next != '=') return at;
    for (next++; next < end && is_space(*next); next++) {}
    if (next == end) return end;
    if (*next == '"' || *next == '\'') return past(next + 1, end, *next);
    while (next < end && !is_space(*next) && *next != '>') next++;
    return next;
}

/* In steps of 255 bytes, so that compilers can count in bytes, many at a time. */
static size_t n_tags_and_attributes(const uint8_t *page, size_t n) {
    size_t sum = 0;
    while (n) {
        size_t step = n < 255 ? n : 255;
        uint8_t found = 0;
        for (size_t i = 0; i < step; i++) found += (page[i] == '<') | (page[i] == '=');
        sum += found;
        page += step;
        n -= step;
    }
    return sum;
}

/* The most attributes that a tag of a page has, as HTML's tokenizer tells them; repeated ones and
 * those of end tags count, too. O(n). */
static size_t most_attributes(const uint8_t *at, size_t n) {
    const uint8_t *end = at + n;
    size_t most = 0;
    while ((at = past(at, end, '<')) < end) {
        const int closes = *at == '/';
        if (*at == '!' || *at == '?' || (closes && at + 1 < end && !is_letter(at[1]))) {
            at = past_comment(at, end);
            continue;
        }
        const char *raw = names(at, end, "script")  ? "script"
                          : names(at, end, "style") ? "style"
                                                    : NULL;
        size_t n_attributes = 0;
        at += closes;
        if (at == end || !is_letter(*at)) continue;
        while (at < end && !is_space(*at) && *at != '/' && *at != '>') at++;
        for (;;) {
            while (at < end && (is_space(*at) || *at == '/')) at++;
            if (at == end || *at == '>') break;
            at = past_attribute(at, end);
            n_attributes++;
        }
        if (n_attributes > most) most = n_attributes;
        if (raw && at[-1] != '/') at = end_of_raw(at, end, raw);
    }
    return most;
}

/* --- of a tree ----------------------------------------------------------------------------- */

/* What an element does to the text. */
typedef enum { IS_INLINE, IS_BLOCK, IS_INVISIBLE } Kind;

typedef struct {
    const char *name;
    Kind kind;
} Name;

#define MAX_NAMES 128
typedef struct {
    size_t n;
    Name names[MAX_NAMES]; /* of elements that are not inline, by strcmp */
} Names;

/* A document has each name once, so its address tells the kind for as long as it is read. */
#define REMEMBERED 64
typedef struct {
    const Names *names;
    Name remembered[REMEMBERED];
} Kinds;

typedef struct {
    char *bytes;
    size_t n, room;
} Text;

static int compare_names(const void *name, const void *other) {
    return strcmp(((const Name *)name)->name, ((const Name *)other)->name);
}

static Kind kind_of(Kinds *kinds, const Node *element) {
    if (element->namespace_) return IS_INLINE;
    Name *slot = &kinds->remembered[((uintptr_t)element->name >> 2) % REMEMBERED];
    if (slot->name != element->name) {
        const Name sought = {element->name, IS_INLINE};
        const Names *names = kinds->names;
        const Name *found = bsearch(&sought, names->names, names->n, sizeof sought, compare_names);
        *slot = sought;
        if (found) slot->kind = found->kind;
    }
    return slot->kind;
}

/* Whether there was memory for it. */
static int append(Text *text, const char *bytes, size_t n) {
    if (text->room - text->n < n) {
        size_t room = 2 * text->room + n + 4096;
        char *grown = realloc(text->bytes, room);
        if (!grown) return 0;
        text->bytes = grown;
        text->room = room;
    }
    memcpy(text->bytes + text->n, bytes, n);
    text->n += n;
    return 1;
}

/* The line break before or behind a block. */
static int append_edge(Text *text, Kinds *kinds, const Node *element) {
    return kind_of(kinds, element) != IS_BLOCK || append(text, "\n", 1);
}

/* What a node says by itself, or before its first child. */
static int append_start(Text *text, Kinds *kinds, const Node *node) {
    if (node->type == ELEMENT) return append_edge(text, kinds, node);
    if ((node->type == TEXT || node->type == CDATA) && node->content)
        return append(text, node->content, strlen(node->content));
    return 1;
}

/* Appends the text below a node, without recursion: however deep the tree is. Whether there was
 * memory for it. */
static int append_visible(Text *text, const Names *names, const Node *root) {
    Kinds kinds = {.names = names};
    const Node *node = root;
    while (node) {
        int is_seen = node->type == ELEMENT && kind_of(&kinds, node) != IS_INVISIBLE;
        if (!append_start(text, &kinds, node)) return 0;
        if (is_seen && node->children) {
            node = node->children;
            continue;
        }
        if (is_seen && !append_edge(text, &kinds, node)) return 0;
        while (node != root && !node->next) {
            node = node->parent;
            if (!append_edge(text, &kinds, node)) return 0;
        }
        node = node == root ? NULL : node->next;
    }
    return 1;
}

#endif
