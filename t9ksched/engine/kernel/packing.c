/* The points of nodes for one more pod, by what its cards would be worth to the usual shapes: the same as numpy's in
 * `placement/packing.py`, which says what it means.
 *
 * All numbers are 64 bits wide. The fields of `Packing` are those of `native_packing.py`, in its order. Nothing is allocated or
 * freed here, and nothing is called. `packing_tables.py` has looked at every size and position that is read here.
 */

#include <stdint.h>

#define CORES 1000         /* thousandths of a whole card */
#define REACH_PLACES 16    /* binary places of what one core, or one MiB, serves */
#define KEPT 256           /* nodes that others in the same state are compared with; a power of 2 */

typedef struct {
    int64_t nodes, width, shapes, sizes, limited, whole, steps;
    int64_t full, half, unit, weight; /* of scores */
    int64_t *cpu, *memory, *cards;    /* what is free: of each node, and of each card of it */
    int64_t *version, *valued, *value;
    int64_t *size, *size_of, *shape_cpu, *shape_memory, *shape_cards, *per_core, *per_mib, *weights;
    int64_t *step;                /* FGD's scores begin at these gains */
    int64_t *share, *fit, *share_after, *fit_after, *left; /* of one node, while it is looked at */
    int64_t *kept;                                         /* of one call: a node by its state, -1 for none */
} Packing;

typedef struct {
    int64_t cpu, memory, cards, each, step; /* a loss of so many steps halves the score */
} Asked;

/* By size of a part: the free thousandths of the cards on which it fits, and how many these are. */
static void sum(const Packing *p, const int64_t *cards) {
    for (int64_t at = 0; at < p->sizes; at++) p->share[at] = p->fit[at] = 0;
    for (int64_t card = 0; card < p->width; card++)
        for (int64_t at = 0; at < p->sizes && p->size[at] <= cards[card]; at++) { /* sizes are sorted */
            p->share[at] += cards[card];
            p->fit[at]++;
        }
}

static int64_t worth(const Packing *p, int64_t row, int64_t cpu, int64_t memory, const int64_t *share, const int64_t *fit) {
    const int64_t *weights = p->weights + row * p->shapes;
    int64_t worth = 0;
    for (int64_t at = 0; at < p->shapes; at++) {
        int64_t size = p->size_of[at], usable = share[size];
        if (!usable || !weights[at] || cpu < p->shape_cpu[at] || fit[size] < p->shape_cards[at]) continue;
        if (p->limited) {
            if (memory < p->shape_memory[at]) continue;
            int64_t by_cpu = cpu * p->per_core[at], by_memory = memory * p->per_mib[at];
            int64_t served = (by_cpu < by_memory ? by_cpu : by_memory) >> REACH_PLACES;
            if (served < usable) usable = served;
        }
        worth += usable * weights[at];
    }
    return worth;
}

/* Take a part of a card that has so much left. */
static void take(const Packing *p, int64_t before, int64_t each) {
    for (int64_t at = 0; at < p->sizes && p->size[at] <= before; at++) {
        int64_t has = p->size[at] <= before - each;
        p->share_after[at] -= has ? each : before;
        p->fit_after[at] -= !has;
    }
}

/* The fullest card on which a part fits, the first of equal ones; -1 where none. */
static int64_t fullest(const Packing *p, const int64_t *cards, int64_t each) {
    int64_t found = -1;
    for (int64_t at = 0; at < p->width; at++)
        if (cards[at] >= each && (found < 0 || cards[at] < cards[found])) found = at;
    return found;
}

static void copy_sums(const Packing *p) {
    for (int64_t at = 0; at < p->sizes; at++) {
        p->share_after[at] = p->share[at];
        p->fit_after[at] = p->fit[at];
    }
}

static int64_t lost(const Packing *p, const Asked *asked, int64_t row) {
    int64_t cpu = p->cpu[row] - asked->cpu, memory = p->memory[row] - asked->memory;
    return p->value[row] - worth(p, row, cpu, memory, p->share_after, p->fit_after);
}

/* FGD's score: how many steps a gain has reached. */
static int64_t score(const Packing *p, int64_t gained) {
    int64_t first = 0, last = p->steps;
    while (first < last) {
        int64_t middle = (first + last) / 2;
        if (p->step[middle] <= gained)
            first = middle + 1;
        else
            last = middle;
    }
    return first;
}

static int64_t points_of(const Packing *p, const Asked *asked, int64_t row) {
    const int64_t *cards = p->cards + row * p->width;
    int64_t able = 0, demand = asked->cards * asked->each;
    for (int64_t at = 0; at < p->width; at++) able += cards[at] >= asked->each;
    if (p->cpu[row] < asked->cpu || p->memory[row] < asked->memory || able < asked->cards) return 0;
    sum(p, cards);
    if (p->valued[row] != p->version[row]) {
        p->value[row] = worth(p, row, p->cpu[row], p->memory[row], p->share, p->fit);
        p->valued[row] = p->version[row];
    }
    if (!p->limited && asked->cards == 1 && asked->each < CORES) { /* FGD looks at each card */
        int64_t best = -1;
        for (int64_t at = 0; at < p->width; at++) {
            if (cards[at] < asked->each) continue;
            copy_sums(p);
            take(p, cards[at], asked->each);
            int64_t found = score(p, demand * p->whole - lost(p, asked, row));
            if (found > best) best = found;
        }
        return best * p->unit * p->weight;
    }
    copy_sums(p);
    if (asked->cards && asked->each == CORES) {
        for (int64_t at = 0; at < p->sizes; at++) {
            p->share_after[at] -= CORES * asked->cards;
            p->fit_after[at] -= asked->cards;
        }
    } else {
        for (int64_t at = 0; at < p->width; at++) p->left[at] = cards[at];
        for (int64_t part = 0; part < asked->cards; part++) {
            int64_t at = fullest(p, p->left, asked->each);
            take(p, p->left[at], asked->each);
            p->left[at] = -1; /* the pod's next part is of another card */
        }
    }
    int64_t less = lost(p, asked, row);
    if (!p->limited) return score(p, demand * p->whole - less) * p->unit * p->weight;
    return p->full / (p->half + (less > 0 ? less : 0) / asked->step) * p->weight;
}

static int64_t place_of(const Packing *p, int64_t row) {
    uint64_t hash = (uint64_t)p->cpu[row] * 0x9E3779B97F4A7C15u + (uint64_t)p->memory[row];
    for (int64_t at = 0; at < p->width; at++) hash = hash * 31 + (uint64_t)p->cards[row * p->width + at];
    return (int64_t)((hash * 0x9E3779B97F4A7C15u) >> 56) & (KEPT - 1);
}

/* Whether all that decides points is the same on both nodes. */
static int alike(const Packing *p, int64_t one, int64_t other) {
    if (p->cpu[one] != p->cpu[other] || p->memory[one] != p->memory[other]) return 0;
    for (int64_t at = 0; at < p->width; at++)
        if (p->cards[one * p->width + at] != p->cards[other * p->width + at]) return 0;
    for (int64_t at = 0; at < p->shapes; at++)
        if (p->weights[one * p->shapes + at] != p->weights[other * p->shapes + at]) return 0;
    return 1;
}

void points(const Packing *p, const Asked *asked, const uint8_t *mask, int64_t *seen, int64_t *points) {
    for (int64_t at = 0; at < KEPT; at++) p->kept[at] = -1;
    for (int64_t row = 0; row < p->nodes; row++) {
        if (!mask[row] || seen[row] == p->version[row]) continue;
        seen[row] = p->version[row];
        int64_t *kept = p->kept + place_of(p, row);
        if (*kept >= 0 && alike(p, row, *kept)) { /* many are, after what is usual was weighed anew */
            points[row] = points[*kept];
            if (p->valued[*kept] == p->version[*kept]) {
                p->value[row] = p->value[*kept];
                p->valued[row] = p->version[row];
            }
            continue;
        }
        points[row] = points_of(p, asked, row);
        *kept = row;
    }
}
