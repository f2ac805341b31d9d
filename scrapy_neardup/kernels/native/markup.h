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
    PyObject_HEAD
    PyObject *document;
    const Node *node;
} Element;

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
    if (element->namespace_)
        return IS_INLINE;
    Name *slot = &kinds->remembered[((uintptr_t)element->name >> 2) % REMEMBERED];
    if (slot->name != element->name) {
        const Name sought = {element->name, IS_INLINE};
        const Names *names = kinds->names;
        const Name *found = bsearch(&sought, names->names, names->n, sizeof sought, compare_names);
        *slot = sought;
        if (found)
            slot->kind = found->kind;
    }
    return slot->kind;
}

/* Whether there was memory for it. */
static int append(Text *text, const char *bytes, size_t n) {
    if (text->room - text->n < n) {
        size_t room = 2 * text->room + n + 4096;
        char *grown = realloc(text->bytes, room);
        if (!grown)
            return 0;
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
    if (node->type == ELEMENT)
        return append_edge(text, kinds, node);
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
        if (!append_start(text, &kinds, node))
            return 0;
        if (is_seen && node->children) {
            node = node->children;
            continue;
        }
        if (is_seen && !append_edge(text, &kinds, node))
            return 0;
        while (node != root && !node->next) {
            node = node->parent;
            if (!append_edge(text, &kinds, node))
                return 0;
        }
        node = node == root ? NULL : node->next;
    }
    return 1;
}

#endif
