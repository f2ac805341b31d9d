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

/* What a name means: of an element, what it does to the text and what its attributes say; of an
 * attribute, when it counts. */
typedef enum {
    IS_INLINE,
    IS_BLOCK,
    IS_INVISIBLE,
    IS_UNSHOWN,
    IS_SPAN,
    IS_MARK,
    IS_CELL,
    IS_SILENT,
    IS_LOOK,
    IS_LINK,
} Kind;

typedef struct {
    const char *name;
    Kind kind;
} Name;

#define MAX_NAMES 128
#define SLOTS (4 * MAX_NAMES)
/* Those of another kind than 0, each in the first slot from its hash on that was free. */
typedef struct {
    Name slots[SLOTS];
} Names;

/* The slot of a name, or the free one where it would be; at most MAX_NAMES are taken. */
static const Name *slot_of(const Names *names, const char *name, size_t n) {
    uint32_t hash = 2166136261; /* FNV-1a */
    for (size_t i = 0; i < n; i++) hash = (hash ^ (uint8_t)name[i]) * 16777619;
    for (;; hash++) {
        const Name *slot = &names->slots[hash % SLOTS];
        if (!slot->name) return slot;
        if (strlen(slot->name) == n && memcmp(slot->name, name, n) == 0) return slot;
    }
}

/* name: ends with NUL, and lasts as long as `names`. */
static void add_name(Names *names, const char *name, Kind kind) {
    *(Name *)slot_of(names, name, strlen(name)) = (Name){name, kind};
}

/* --- before it is parsed ------------------------------------------------------------------- */

INLINE int is_space(uint8_t c) { return c == ' ' || (uint8_t)(c - '\t') < 5; }

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

/* A piece of a page. */
typedef struct {
    const uint8_t *start, *end;
} Piece;

/* Whether a piece is a name, in letters of either case. */
static int names_piece(Piece piece, const char *name) {
    const size_t n = strlen(name);
    return (size_t)(piece.end - piece.start) == n && names(piece.start, piece.end, name);
}

/* A page as HTML's tokenizer sees it, tag by tag; at: just past what was read. */
typedef struct {
    const uint8_t *at, *end;
    Piece name;      /* of the tag */
    int closes;      /* whether it is an end tag */
    const char *raw; /* the name of an element that holds no markup */
} Tags;

/* Whether there is another tag. */
static int next_tag(Tags *tags) {
    const uint8_t *end = tags->end;
    if (tags->raw && tags->at[-1] != '/') tags->at = end_of_raw(tags->at, end, tags->raw);
    tags->raw = NULL;
    while ((tags->at = past(tags->at, end, '<')) < end) {
        const uint8_t *at = tags->at;
        const int closes = *at == '/';
        if (*at == '!' || *at == '?' || (closes && at + 1 < end && !is_letter(at[1]))) {
            tags->at = past_comment(at, end);
            continue;
        }
        tags->raw = names(at, end, "script") ? "script" : names(at, end, "style") ? "style" : NULL;
        tags->at = at += closes;
        if (at == end || !is_letter(*at)) continue;
        while (at < end && !is_space(*at) && *at != '/' && *at != '>') at++;
        tags->name = (Piece){tags->at, at};
        tags->closes = closes;
        tags->at = at;
        return 1;
    }
    return 0;
}

/* The value of an attribute, from behind its '=' on; empty where there is none. */
static Piece attribute_value(Tags *tags, const uint8_t *at) {
    const uint8_t *end = tags->end;
    while (at < end && is_space(*at)) at++;
    Piece value = {at, at};
    if (at < end && (*at == '"' || *at == '\'')) {
        tags->at = past(at + 1, end, *at);
        value.start = at + 1;
        value.end = tags->at - (tags->at > at + 1 && tags->at[-1] == *at);
    } else {
        while (at < end && !is_space(*at) && *at != '>') at++;
        tags->at = value.end = at;
    }
    return value;
}

/* Whether the tag has another attribute. */
static int next_attribute(Tags *tags, Piece *name, Piece *value) {
    const uint8_t *at = tags->at, *end = tags->end;
    while (at < end && (is_space(*at) || *at == '/')) at++;
    tags->at = at;
    if (at == end || *at == '>') return 0;
    name->start = at;
    for (at++; at < end && !is_space(*at) && *at != '/' && *at != '>' && *at != '='; at++) {}
    tags->at = name->end = at;
    *value = (Piece){at, at};
    while (at < end && is_space(*at)) at++;
    if (at < end && *at == '=') *value = attribute_value(tags, at + 1);
    return 1;
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

/* The most attributes that a tag of a page has, as HTML's tokenizer tells them, and in `all` how
 * many all tags have; repeated ones and those of end tags count, too. O(n). */
static size_t most_attributes(const uint8_t *page, size_t n, size_t *all) {
    Tags tags = {.at = page, .end = page + n};
    Piece name, value;
    size_t most = 0;
    *all = 0;
    while (next_tag(&tags)) {
        size_t n_attributes = 0;
        while (next_attribute(&tags, &name, &value)) n_attributes++;
        *all += n_attributes;
        if (n_attributes > most) most = n_attributes;
    }
    return most;
}

/* Writes a piece in lower case; its length. */
static size_t write_lower(char *lower, Piece piece) {
    const size_t n = (size_t)(piece.end - piece.start);
    for (size_t i = 0; i < n; i++) {
        const uint8_t c = piece.start[i];
        lower[i] = (char)((uint8_t)(c - 'A') < 26 ? c | 0x20 : c);
    }
    return n;
}

/* Writes "element.name value", the names in lower case; its length, or 0 where there is no room. */
static size_t write_line(char *line, size_t room, Piece element, Piece name, Piece value) {
    const size_t n_value = (size_t)(value.end - value.start);
    const size_t n_names = (size_t)(element.end - element.start + name.end - name.start);
    if (n_names > room || n_value > room || n_names + n_value + 2 > room) return 0;
    char *at = line;
    at += write_lower(at, element);
    *at++ = '.';
    at += write_lower(at, name);
    *at++ = ' ';
    memcpy(at, value.start, n_value);
    return n_names + n_value + 2;
}

/* The kind of a name in letters of either case. */
static Kind kind_of_piece(const Names *names, Piece piece) {
    char lower[32];
    if ((size_t)(piece.end - piece.start) > sizeof lower) return IS_INLINE;
    const size_t n = write_lower(lower, piece);
    return slot_of(names, lower, n)->kind;
}

/* Whether a link leads to anything but a page of the site: it has a scheme, or its path ends as the
 * name of a file does that is no page. */
static int leads_away(Piece link, const Names *pages) {
    const uint8_t *end = link.start, *dot = NULL;
    for (; end < link.end && *end != '?' && *end != '#'; end++) {
        if (*end == ':') return 1;
        if (*end == '/') dot = NULL;
        if (*end == '.') dot = end + 1;
    }
    if (!dot || end - dot < 2 || end - dot > 5) return 0;
    return !kind_of_piece(pages, (Piece){dot, end});
}

/* Whether a look is a style that shows an image, sets a variable or hides something. */
static int is_showing(Piece name, Piece value) {
    if (name.end - name.start != 5 || (*name.start | 0x20) != 's') return 0; /* style, not class */
    for (const uint8_t *at = value.start; value.end - at >= 2; at++) {
        if (at[0] == '-' && at[1] == '-') return 1;
        if (value.end - at >= 4 && memcmp(at, "url(", 4) == 0) return 1;
        if (value.end - at >= 7 && memcmp(at, "display", 7) == 0) return 1;
    }
    return 0;
}

/* Whether an attribute says something beside the text. */
static int counts(Kind element, Piece name, Piece value, const Names *attributes,
                  const Names *pages) {
    switch (kind_of_piece(attributes, name)) {
    case IS_SILENT:
        return 0;
    case IS_LOOK:
        return element == IS_SPAN || element == IS_MARK || element == IS_CELL ||
               is_showing(name, value);
    case IS_LINK:
        return element == IS_SPAN || leads_away(value, pages);
    default:
        return 1;
    }
}

/* Whether nothing stands between a tag, whose attributes were read, and an end tag. */
static int is_empty(const Tags *tags) {
    const uint8_t *at = tags->at, *end = tags->end;
    if (at == end || *at != '>') return 0;
    for (at++; at < end && is_space(*at); at++) {}
    return end - at >= 2 && at[0] == '<' && at[1] == '/';
}

/* --- of a tree ----------------------------------------------------------------------------- */

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

static Kind kind_of(Kinds *kinds, const Node *element) {
    if (element->namespace_) return IS_INLINE;
    Name *slot = &kinds->remembered[((uintptr_t)element->name >> 2) % REMEMBERED];
    if (slot->name != element->name) {
        const size_t n = strlen(element->name);
        *slot = (Name){element->name, slot_of(kinds->names, element->name, n)->kind};
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
