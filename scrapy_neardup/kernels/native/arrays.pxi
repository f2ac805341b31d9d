# Pointers into arrays that the caller keeps alive; NULL for empty ones.


cdef const uint64_t *words_at(const uint64_t[:, ::1] rows) noexcept:
    return &rows[0, 0] if rows.shape[0] and rows.shape[1] else NULL


cdef const uint32_t *numbers_at(const uint32_t[::1] numbers) noexcept:
    return &numbers[0] if numbers.shape[0] else NULL


cdef const uint32_t *table_at(const uint32_t[:, ::1] numbers) noexcept:
    return &numbers[0, 0] if numbers.shape[0] and numbers.shape[1] else NULL
