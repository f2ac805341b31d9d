# What the segments of both indexes have in common; ../numpy_twin/segments.py is the contract.
#
# Include it behind the declarations of `segment_t`, a C structure that begins with a Segment,
# and of append() and take_pair() for it. Segments hold pointers, so that a look-up of one
# signature does not unpack ten arrays. Every function on many pairs releases the GIL. One thread may
# change a segment while others look up: they see each change, or do not yet.

cdef enum:
    MOST_SEGMENTS = 8
    MOST_WORDS = 16


cdef class Rows:
    """Signatures, their ids, and which of them are removed."""

    cdef segment_t c
    cdef object _tombstones, _read_only

    def __len__(self):
        """Pairs, removed ones included."""
        return self.c.base.n

    @property
    def tombstones(self):
        return self._tombstones

    @tombstones.setter
    def tombstones(self, marks):
        cdef const uint8_t[::1] view = marks
        self._tombstones = marks
        self.c.base.tombstones = <uint8_t *>&view[0] if view.shape[0] else NULL

    cdef make_removable(self):
        """Tombstones that can be written to; a read-only map is copied first."""
        if self._tombstones is None:
            self.tombstones = np.zeros(self.c.base.n, dtype=np.uint8)
        elif not self._tombstones.flags.writeable:
            self._read_only = self._tombstones  # a look-up may be reading it
            self.tombstones = self._tombstones.copy()


cdef class Frozen(Rows):
    """Arrays that never move; they may be read-only maps."""

    cdef readonly object arrays, rows, ids, offsets

    cdef take(self, arrays):
        self.arrays, self.rows, self.ids = arrays, arrays.rows, arrays.ids
        self.offsets = arrays.offsets

    @property
    def nbytes(self):
        tombstones = 0 if self._tombstones is None else self._tombstones.nbytes
        return tombstones + sum(array.nbytes for array in self.arrays)


cdef class Growing(Rows):
    """Room for `capacity` pairs, filled by appending."""

    cdef object _rows, _ids
    cdef readonly object capacity

    cdef make_room(self, capacity, int n_words):
        self.capacity = capacity
        # Pages that were never touched take no memory.
        self._rows = np.empty((capacity, n_words), dtype=np.uint64)
        self._ids = np.empty(capacity, dtype=np.uint32)
        self.c.base.n_words = n_words
        self.c.base.rows = <uint64_t *>words_at(self._rows)
        self.c.base.ids = <uint32_t *>numbers_at(self._ids)
        self.tombstones = np.zeros(capacity, dtype=np.uint8)

    def add(self, bytes signature, uint32_t id):
        """Append one pair; there must be room."""
        cdef uint64_t row[MOST_WORDS]
        memcpy(row, <const char *>signature, 8 * self.c.base.n_words)
        if self.c.base.n == <uint64_t>self.capacity or not append(&self.c, row, &id, 1):
            raise MemoryError(f"no room for one more pair in a memtable of {self.capacity} pairs")

    def add_many(self, rows, ids):
        """Append pairs; there must be room for all."""
        cdef const uint64_t *rows_at = words_at(rows)
        cdef const uint32_t *ids_at = numbers_at(ids)
        cdef int64_t n = len(ids)
        cdef int done
        if self.c.base.n + n > <uint64_t>self.capacity:
            raise MemoryError(f"no room for {n} more pairs in a memtable of {self.capacity} pairs")
        with nogil:
            done = append(&self.c, rows_at, ids_at, n)
        if not done:
            raise MemoryError(f"no memory for {n} pairs in a memtable")

    @property
    def rows(self):
        return self._rows[: self.c.base.n]

    @property
    def ids(self):
        return self._ids[: self.c.base.n]


cdef class Asked:
    """The segments that a look-up asks; empty ones are left out."""

    cdef segment_t *segments[MOST_SEGMENTS]
    cdef int n_segments

    def __cinit__(self, list segments, *_):
        cdef Rows segment
        if len(segments) > MOST_SEGMENTS:
            raise ValueError(f"{len(segments)} segments: take at most {MOST_SEGMENTS}")
        for segment in segments:
            self.segments[self.n_segments] = &segment.c
            self.n_segments += segment.c.base.n > 0


cdef copies(list segments, rows, ids, int forget):
    """How many copies there are of each pair; they are removed if they are to be forgotten."""
    cdef const uint64_t *rows_at = words_at(rows)
    cdef const uint32_t *ids_at = numbers_at(ids)
    cdef int64_t i, n = len(ids)
    counts = np.zeros(n, dtype=np.int64)
    cdef int64_t[::1] counts_at = counts
    cdef Rows segment
    for segment in segments:
        if segment.c.base.n and n:
            if forget:
                segment.make_removable()
            with nogil:
                for i in range(n):
                    counts_at[i] += take_pair(
                        &segment.c, rows_at + i * segment.c.base.n_words, ids_at[i], forget
                    )
    return counts


def count_many(list segments, rows, ids):
    """How many copies there are of each pair. O(list) each."""
    return copies(segments, rows, ids, 0)


def remove_many(list segments, rows, ids):
    """Remove every copy of the pairs; how many there were. O(list) each."""
    return int(copies(segments, rows, ids, 1).sum())


def expire(Rows segment, uint64_t before):
    """Remove every id below `before`; how many pairs there were. O(n)."""
    cdef int64_t n
    if not segment.c.base.n:
        return 0
    segment.make_removable()
    with nogil:
        n = remove_below(&segment.c.base, before)
    return n
