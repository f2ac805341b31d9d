/* Two pages' sketches → bits that differ, and how alike the odd sketches say the pages are.
 *
 * A row is a sketch of n_sketch words, then level << 32 | shingles taken, then the odd sketch.
 */
#ifndef NEARDUP_COMPARE_H
#define NEARDUP_COMPARE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "simd.h"

typedef struct {
    int width, n_sketch; /* words */
    const double *told;  /* shingles that differ where so many places of an odd sketch do */
    double left_out;     /* of the page's own shingles, counted once for either page */
    int64_t within;      /* sketch bits; -1 for pages farther apart */
} Measure;

INLINE double similarity_of(const Measure *by, const uint64_t *own, const uint64_t *other) {
    uint64_t page = own[by->n_sketch], that = other[by->n_sketch];
    double size = (double)(page & UINT32_MAX), its = (double)(that & UINT32_MAX);
    double both = its + size - by->left_out * size;
    int odd = by->n_sketch + 1;
    double differing = by->told[distance_of(own + odd, other + odd, by->width - odd)];
    if (page >> 32 != that >> 32) return NAN;
    both = both > 0 ? both : 0;
    differing = differing > fabs(its - size) ? differing : fabs(its - size);
    return (both > differing ? both - differing : 0) /
           (both + differing > 1 ? both + differing : 1);
}

/* How many rows are of another level, and so have no similarity. Steps are words from one row
 * to the next; 0 for one page. */
static int64_t compare_rows(const Measure *by, const uint64_t *own, size_t step,
                            const uint64_t *rows, size_t rows_step, size_t n, int64_t *bits,
                            double *similar) {
    int64_t unlike = 0;
    for (size_t i = 0; i < n; i++, own += step, rows += rows_step) {
        bits[i] = distance_of(own, rows, by->n_sketch);
        similar[i] = bits[i] <= by->within ? similarity_of(by, own, rows) : -1;
        unlike += isnan(similar[i]) != 0;
    }
    return unlike;
}

#endif
