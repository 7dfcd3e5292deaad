/* The keys of a class on some nodes: the same as numpy's in `placement/class_fit.py`, which says what it means.
 *
 * All numbers are 64 bits wide. The fields of `Keys` are those of `native_keys.py`, in its order. Nothing is allocated
 * or freed here, and nothing is called. `key_tables.py` has looked at every size and position that is read here.
 */

#include <stdint.h>

#define NEVER INT64_MIN /* key of a node on which no pod fits */

typedef struct {
    int64_t nodes, needs, cards, count, cores, all_divide;
    int64_t *free, *base, *gain, *bias; /* no bias: 0 */
    uint8_t *mask;
    int64_t *need_rows, *need_amounts;
    int64_t *cores_rows, *memory_rows, *places_rows, *wanted; /* of each card; what is wanted of its memory by node */
    uint8_t *divide;                                          /* nodes that divide cards */
} Keys;

static int fits(const Keys *k, int64_t row) {
    if (!k->mask[row]) return 0;
    for (int64_t at = 0; at < k->needs; at++)
        if (k->free[k->need_rows[at] * k->nodes + row] < k->need_amounts[at]) return 0;
    if (!k->count || !(k->all_divide || k->divide[row])) return 1;
    int64_t able = 0;
    for (int64_t card = 0; card < k->cards; card++) {
        able += k->free[k->cores_rows[card] * k->nodes + row] >= k->cores &&
                k->free[k->memory_rows[card] * k->nodes + row] >= k->wanted[card * k->nodes + row] &&
                k->free[k->places_rows[card] * k->nodes + row] > 0;
    }
    return able >= k->count;
}

/* The keys of these rows, or without them of so many first ones. Whether all exist; else it ends at the first that does
 * not. */
int keys(const Keys *k, const int64_t *points, const int64_t *rows, int64_t count, int64_t *key) {
    for (int64_t at = 0; at < count; at++) {
        int64_t row = rows ? rows[at] : at;
        if (row < 0 || row >= k->nodes) return 0;
        key[row] = !fits(k, row) ? NEVER
                                 : k->base[row] + k->gain[row] + (k->bias ? k->bias[row] : 0) + (points ? points[row] : 0);
    }
    return 1;
}
