/* What a tree that lxml holds says, read in place, and a page before it is parsed; markup.pyx says
 * what that is.
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
    const struct Node *properties; /* attributes, which have all of the above but content */
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
    IS_SCRIPT,
    IS_META,
    IS_OWN, /* its own text counts, not that of what is in it */
    IS_DIV,
    IS_ITEMPROP,
    /* Of these one in another of the kind is read with that. */
    IS_H1,
    IS_TITLE,
    IS_PRE,
    IS_HIDDEN,
    N_KINDS,
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

/* Of the text behind a tag: bytes, and tags between. */
enum { MAX_BEHIND = 40, MAX_BETWEEN = 4 };

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

/* Whether a name is that of an element that a page has in any case. */
static int is_root(Piece name) {
    const uint8_t first = *name.start | 0x20; /* which tells most from these three */
    if (first != 'h' && first != 'b') return 0;
    return names_piece(name, "html") || names_piece(name, "head") || names_piece(name, "body");
}

/* How many elements the tags of a page open, but html, head and body. O(n). */
static size_t n_tagged(const uint8_t *page, size_t n) {
    Tags tags = {.at = page, .end = page + n};
    Piece name, value;
    size_t found = 0;
    while (next_tag(&tags)) {
        found += !tags.closes && !is_root(tags.name);
        while (next_attribute(&tags, &name, &value)) continue;
    }
    return found;
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

/* Whether a link leads to anything but a page of the site: it has a scheme or begins with a host,
 * or its path ends as the name of a file does that is no page. */
static int leads_away(Piece link, const Names *pages) {
    const uint8_t *end = link.start, *dot = NULL;
    if (link.end - end >= 2 && end[0] == '/' && end[1] == '/') return 1;
    for (; end < link.end && *end != '?' && *end != '#'; end++) {
        if (*end == ':') return 1;
        if (*end == '/') dot = NULL;
        if (*end == '.') dot = end + 1;
    }
    if (!dot || end - dot < 2 || end - dot > 5) return 0;
    return !kind_of_piece(pages, (Piece){dot, end});
}

/* Whether a look is a style that shows an image or a share, sets a variable or hides something. */
static int is_showing(Piece name, Piece value) {
    if (name.end - name.start != 5 || (*name.start | 0x20) != 's') return 0; /* style, not class */
    for (const uint8_t *at = value.start; at < value.end; at++) {
        if (*at == '%') return 1;
        if (value.end - at >= 2 && at[0] == '-' && at[1] == '-') return 1;
        if (value.end - at >= 4 && memcmp(at, "url(", 4) == 0) return 1;
        if (value.end - at >= 7 && memcmp(at, "display", 7) == 0) return 1;
    }
    return 0;
}

/* The value of a tag's last attribute `name`; the tag's name was read. */
static Piece own_name(Tags tags) {
    Piece name, value, own = {NULL, NULL};
    while (next_attribute(&tags, &name, &value))
        if (names_piece(name, "name")) own = value;
    return own;
}

/* Whether a value is ASCII with one space at a time, and has neither a quoted URL nor an argument
 * that may only keep a file from being taken out of a cache: those begin with one of CUT. */
static int is_plain(Piece value) {
    static const char CUT[] = "vVtTrRcC_";
    const uint8_t *argument = NULL;
    uint8_t before = ' ';
    for (const uint8_t *at = value.start; at < value.end; before = *at++) {
        if (*at < ' ' || *at > '~' || (*at == ' ' && before == ' ')) return 0;
        if (*at == '%' && value.end - at > 2 && at[1] == '3' && at[2] == 'A') return 0;
        if (*at == '?' || *at == '&' || *at == ';') argument = at + 1;
        if (*at == '=' && argument && memchr(CUT, *argument, sizeof CUT - 1)) return 0;
    }
    return before != ' ' || value.start == value.end;
}

/* Whether a name may be of what is made anew for each visit, by how it ends. */
static int may_be_of_the_visit(Piece name) {
    static const char *const ENDS[] = {"modified", "modified_", "time",       "date",   "nonce",
                                       "csrf",     "xsrf",      "validation", "id",     "etag",
                                       "token",    "state",     "value",      "onclick"};
    for (const uint8_t *at = name.start; at < name.end; at++)
        if (*at > '~') return 1;
    char lower[16];
    const ptrdiff_t n_last = name.end - name.start < 16 ? name.end - name.start : 16;
    write_lower(lower, (Piece){name.end - n_last, name.end});
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        const ptrdiff_t n = (ptrdiff_t)strlen(ENDS[i]);
        if (n_last >= n && memcmp(lower + n_last - n, ENDS[i], (size_t)n) == 0) return 1;
    }
    return 0;
}

static int may_be_a_time(Piece value) {
    return value.end - value.start >= 10 && *value.start >= '0' && *value.start <= '9';
}

/* Whether a URL, without fragment and final slashes, ends like this. */
static int ends_with(Piece url, const char *end, size_t n) {
    const uint8_t *at = memchr(url.start, '#', (size_t)(url.end - url.start));
    if (!at) at = url.end;
    while (at > url.start && at[-1] == '/') at--;
    return (size_t)(at - url.start) >= n && memcmp(at - n, end, n) == 0;
}

/* Whether a name, in letters of either case, begins with "data-". */
static int is_data(Piece name) {
    return name.end - name.start >= 5 && names_piece((Piece){name.start, name.start + 5}, "data-");
}

/* Whether an attribute says something beside the text. */
static int counts(Kind element, Piece name, Piece value, const Names *attributes,
                  const Names *pages) {
    if (element == IS_SCRIPT && !is_data(name)) return 0;
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

/* Whether nothing stands between a tag, whose name was read, and an end tag. */
static int is_empty(Tags tags) {
    Piece name, value;
    while (next_attribute(&tags, &name, &value)) {}
    const uint8_t *at = tags.at, *end = tags.end;
    if (at == end || *at != '>') return 0;
    for (at++; at < end && is_space(*at); at++) {}
    return end - at >= 2 && at[0] == '<' && at[1] == '/';
}

/* The first bytes of the text behind a tag, whose name was read; markup.py says which. */
static Piece text_behind(Tags tags) {
    Piece name, value, text = {tags.end, tags.end};
    if (tags.raw) return text;
    while (next_attribute(&tags, &name, &value)) {}
    const uint8_t *at = tags.at, *end = tags.end;
    for (int n_between = 0;; n_between++) {
        for (at = past(at, end, '>'); at < end && is_space(*at); at++) {}
        if (at == end) return text;
        if (*at != '<') break;
        if (n_between == MAX_BETWEEN || at + 1 == end || at[1] == '!') return text;
        if (names(at + 1, end, "script") || names(at + 1, end, "style")) return text;
    }
    const uint8_t *start = at;
    for (; at < end && *at != '<' && at - start < MAX_BEHIND; at++)
        if ((uint8_t)(*at - '0') < 10) return text;
    return (Piece){start, at};
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

/* The node that is read after one, of those below `root`; NULL behind the last. open: elements by
 * kind, or NULL; those that are left on the way are open no more. */
static const Node *next_node(const Node *node, const Node *root, const Node **open) {
    if (node->type == ELEMENT && node->children) return node->children;
    for (;; node = node->parent) {
        if (open)
            for (int kind = IS_H1; kind < N_KINDS; kind++)
                if (open[kind] == node) open[kind] = NULL;
        if (node == root) return NULL;
        if (node->next) return node->next;
    }
}

/* How many elements are below a node, itself included, but html, head and body. */
static size_t n_elements(const Node *root) {
    size_t found = 0;
    for (const Node *node = root; node; node = next_node(node, root, NULL)) {
        if (node->type != ELEMENT) continue;
        const uint8_t *name = (const uint8_t *)node->name;
        found += !is_root((Piece){name, name + strlen(node->name)});
    }
    return found;
}

static int is_text(const Node *node) {
    return (node->type == TEXT || node->type == CDATA) && node->content;
}

static int append_field(Text *said, const char *field) {
    return append(said, field, strlen(field) + 1);
}

/* The text from a node on, up to the first that is none. */
static int append_texts(Text *said, const Node *node) {
    for (; node && is_text(node); node = node->next)
        if (!append(said, node->content, strlen(node->content))) return 0;
    return append(said, "", 1);
}

/* All text below a node. */
static int append_text_in(Text *said, const Node *root) {
    for (const Node *node = root; node; node = next_node(node, root, NULL))
        if (is_text(node) && !append(said, node->content, strlen(node->content))) return 0;
    return append(said, "", 1);
}

/* An element's attribute, or NULL. */
static const Node *attribute_of(const Node *element, const char *name) {
    const Node *at = element->properties;
    while (at && (at->namespace_ || strcmp(at->name, name) != 0)) at = at->next;
    return at;
}

static int append_value(Text *said, const Node *attribute) {
    return append_texts(said, attribute ? attribute->children : NULL);
}

/* Whether there is text from a node on. */
static int has_text(const Node *node) {
    while (node && is_text(node) && !*node->content) node = node->next;
    return node && is_text(node);
}

static int has_value(const Node *attribute) { return attribute && has_text(attribute->children); }

static int append_script(Text *said, const Node *script) {
    return !has_text(script->children) ||
           (append_field(said, script->name) && append_texts(said, script->children) &&
            append_value(said, attribute_of(script, "type")) &&
            append_value(said, attribute_of(script, "id")));
}

static int append_meta(Text *said, const Node *meta) {
    const Node *name = attribute_of(meta, "property"), *content = attribute_of(meta, "content");
    const Node *stands_for = attribute_of(meta, "http-equiv");
    if (!has_value(name)) name = attribute_of(meta, "name");
    if (!has_value(content) || !(has_value(name) || has_value(stands_for))) return 1;
    return append_field(said, meta->name) && append_value(said, content) &&
           append_value(said, name) && append_value(said, stands_for);
}

/* All text in an element, with a name that tells where it stands. */
static int append_whole(Text *said, const Node *element, const char *name) {
    return append_field(said, element->name) && append_text_in(said, element) &&
           append_field(said, name) && append_field(said, "");
}

static int append_own(Text *said, const Node *element) {
    return append_field(said, element->name) && append_texts(said, element->children) &&
           append_field(said, "") && append_field(said, "");
}

static int append_itemprop(Text *said, const Node *element, const Node *itemprop) {
    static const char *const VALUES[] = {"content", "datetime", "href", "src", "value"};
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        const Node *value = attribute_of(element, VALUES[i]);
        if (has_value(value) && !(append_field(said, itemprop->name) && append_value(said, value) &&
                                  append_value(said, itemprop) && append_field(said, "")))
            return 0;
    }
    return 1;
}

static int is_in_head(const Node *element) {
    const Node *parent = element->parent;
    return parent && parent->type == ELEMENT && !parent->namespace_ &&
           strcmp(parent->name, "head") == 0;
}

/* Whether a `div` is called a title. */
static int is_called_title(const Node *div) {
    const Node *class = attribute_of(div, "class");
    return class && class->children && is_text(class->children) && !class->children->next &&
           strcmp(class->children->content, "title") == 0;
}

typedef struct {
    Text now, late;            /* what is told in order, and what is told at the end */
    const Node *open[N_KINDS]; /* the outermost element of a kind that is being read */
    int has_called_title;
} Said;

static int append_element(Said *said, const Node *element, Kind kind) {
    Text *now = &said->now;
    switch (kind) {
    case IS_SCRIPT:
        return append_script(now, element);
    case IS_META:
        return append_meta(now, element);
    case IS_OWN:
        return append_own(now, element);
    case IS_DIV:
        if (said->has_called_title || !is_called_title(element)) return 1;
        said->has_called_title = 1;
        return append_whole(&said->late, element, "");
    case IS_TITLE:
        if (is_in_head(element)) return append_whole(now, element, "head");
        /* fall through */
    case IS_H1:
    case IS_PRE:
    case IS_HIDDEN:
        if (said->open[kind]) return 1;
        said->open[kind] = element;
        return append_whole(now, element, "");
    default:
        return 1;
    }
}

static int append_itemprops(Text *said, Kinds *kinds, const Node *element) {
    for (const Node *at = element->properties; at; at = at->next)
        if (kind_of(kinds, at) == IS_ITEMPROP) return append_itemprop(said, element, at);
    return 1;
}

/* Appends what a tree says outside its visible text: of each piece tag, text, name and id, each
 * with a NUL behind it. Whether there was memory for it; text->bytes is to be freed in any case. */
static int append_said(Text *text, const Names *names, const Node *root) {
    Said said = {.now = *text};
    Kinds kinds = {.names = names};
    int has_memory = 1;
    for (const Node *node = root; node && has_memory; node = next_node(node, root, said.open))
        if (node->type == ELEMENT)
            has_memory = append_element(&said, node, kind_of(&kinds, node)) &&
                         append_itemprops(&said.late, &kinds, node);
    if (has_memory && said.late.n) has_memory = append(&said.now, said.late.bytes, said.late.n);
    free(said.late.bytes);
    *text = said.now;
    return has_memory;
}

#endif
