# Taking pairs out of tiers. Include it behind the class Tier.


cdef copies(list tiers, rows, ids, int forget):
    """How many copies there are of each pair; they are removed if they are to be forgotten."""
    cdef const uint64_t *rows_at = words_at(rows)
    cdef const uint32_t *ids_at = numbers_at(ids)
    cdef int64_t n = len(ids)
    counts = np.zeros(n, dtype=np.int64)
    cdef int64_t[::1] counts_at = counts
    cdef Tier tier
    for tier in tiers:
        if tier.c.n and n:
            if forget:
                tier.make_removable()
            with nogil:
                take_pairs(&tier.c, rows_at, ids_at, n, forget, &counts_at[0])
    return counts


def count_many(list tiers, rows, ids):
    """How many copies there are of each pair. O(bucket), or O(list), each."""
    return copies(tiers, rows, ids, 0)


def remove_many(list tiers, rows, ids):
    """Forget every copy of the pairs; how many there were. O(bucket), or O(list), each."""
    return int(copies(tiers, rows, ids, 1).sum())


def expire(Tier tier, uint64_t before):
    """Forget every id below `before`; how many pairs there were. O(n)."""
    cdef int64_t n
    if not tier.c.n:
        return 0
    tier.make_removable()
    with nogil:
        n = remove_below(&tier.c, before)
    return n
