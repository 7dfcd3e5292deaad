/* Gangs that start one after the other: the same as `reference.py`, which says what it means, on the same tables.
 *
 * All numbers are 64 bits wide. The fields of `Tables` are those of `native.py`, in its order. Nothing is allocated or
 * freed here, and nothing is called. `tables.py` has looked at every size, position and amount that is read here.
 */

#include <stdint.h>

#define NEVER INT64_MIN  /* key of a node on which no pod fits */
#define ABSENT INT64_MIN /* an account does not name the resource */
#define LARGEST ((int64_t)1 << 53)
#define SHARE_UNIT 1000000000
#define INFINITE_SHARE ((int64_t)1 << 62)
#define BLOCK 64 /* nodes with one largest key, kept behind the keys of a class */

enum { ALL_DONE, NEEDS_ITS_TURN, NOT_READ, PAUSED };
enum { BY_PRIORITY = 1, BY_SHARE = 2 };

typedef struct {
    int64_t nodes, accounts, queues, fills, first_comparator, second_comparator;
    int64_t *free, *base;
    uint64_t *idle;

    int64_t **keys, **gains, **biases;
    uint8_t **masks;
    int64_t *needs_first, *need_rows, *need_amounts, *card_rows, *card_counts, *scarcest, **rooms;
    int64_t *seen, *seen_by_rooms, *touched, touched_count;

    int64_t *level_domains, **level_rows, **level_bounds;
    int64_t *parts_first, *part_classes, *part_pods, *demands, *kind_pods; /* of one */
    int64_t *levels_first, *kind_levels, *together;

    int64_t *priorities, *caps, *held, *measures, *limited, *needs_turns, *line_first, *left, *known, *kind_of, *times_of;
    int64_t *heap, *order; /* queue by place, and two numbers that each queue is compared by */

    int64_t *start_queues, *start_kinds, *start_ends, *place_rows, *place_pods, *place_classes;
    uint64_t *place_idle;
    int64_t most_starts, most_places;
    int64_t starts, places, stopped, stopped_at;
} Tables;

/* ---- the keys of a class: each node's score for one more pod, and the largest of each block */

static void find_largest(Tables *t, int64_t *keys, int64_t block) {
    int64_t first = block * BLOCK, last = first + BLOCK < t->nodes ? first + BLOCK : t->nodes, largest = NEVER;
    for (int64_t row = first; row < last; row++)
        if (keys[row] > largest) largest = keys[row];
    keys[t->nodes + block] = largest;
}

static void set_key(Tables *t, int64_t *keys, int64_t row, int64_t key) {
    int64_t *largest = keys + t->nodes + row / BLOCK, before = keys[row];
    keys[row] = key;
    if (key >= *largest)
        *largest = key;
    else if (before == *largest)
        find_largest(t, keys, row / BLOCK);
}

static int64_t score(const Tables *t, int64_t class, int64_t row) {
    const int64_t *bias = t->biases[class];
    return t->base[row] + t->gains[class][row] + (bias ? bias[row] : 0);
}

static int64_t key_of(const Tables *t, int64_t class, int64_t row) {
    if (!t->masks[class][row]) return NEVER;
    for (int64_t at = t->needs_first[class]; at < t->needs_first[class + 1]; at++)
        if (t->free[t->need_rows[at] * t->nodes + row] < t->need_amounts[at]) return NEVER;
    return score(t, class, row);
}

static int64_t room(const Tables *t, int64_t class, int64_t row) { /* whatever its mask says */
    int64_t room = LARGEST;
    for (int64_t at = t->needs_first[class]; at < t->needs_first[class + 1]; at++) {
        int64_t fit = t->free[t->need_rows[at] * t->nodes + row] / t->need_amounts[at];
        if (fit < room) room = fit;
    }
    return room;
}

static void refresh(Tables *t, int64_t class) {
    int64_t *keys = t->keys[class], fresh = t->touched_count - t->seen[class];
    if (t->seen[class] < 0 || fresh * 4 > t->nodes) {
        for (int64_t row = 0; row < t->nodes; row++) keys[row] = key_of(t, class, row);
        for (int64_t block = 0; block * BLOCK < t->nodes; block++) find_largest(t, keys, block);
    } else {
        for (int64_t at = t->seen[class]; at < t->touched_count; at++)
            set_key(t, keys, t->touched[at], key_of(t, class, t->touched[at]));
    }
    t->seen[class] = t->touched_count;
}

static int64_t best_among(const int64_t *keys, const int64_t *rows, int64_t count) {
    int64_t best = -1, most = NEVER;
    for (int64_t at = 0; at < count; at++)
        if (keys[rows[at]] > most) most = keys[best = rows[at]];
    return best;
}

static int64_t best_row(const Tables *t, const int64_t *keys) {
    const int64_t *largest = keys + t->nodes;
    int64_t best = -1, most = NEVER;
    for (int64_t block = 0; block * BLOCK < t->nodes; block++)
        if (largest[block] > most) most = largest[best = block];
    for (int64_t row = best * BLOCK; best >= 0 && row < t->nodes; row++)
        if (keys[row] == most) return row;
    return -1;
}

/* ---- placing */

static void move(Tables *t, int64_t class, int64_t row, int64_t pods) {
    for (int64_t at = t->needs_first[class]; at < t->needs_first[class + 1]; at++)
        t->free[t->need_rows[at] * t->nodes + row] -= t->need_amounts[at] * pods;
    t->base[row] += t->gains[class][row] * pods;
    t->touched[t->touched_count++] = row;
}

static void take(Tables *t, int64_t class, int64_t row, int64_t pods) {
    int64_t at = t->places++;
    t->place_rows[at] = row;
    t->place_pods[at] = pods;
    t->place_classes[at] = class;
    t->place_idle[at] = 0;
    if (t->card_rows[class] >= 0) {
        uint64_t *idle = t->idle + t->card_rows[class] * t->nodes + row;
        t->place_idle[at] = *idle;
        for (int64_t cards = t->card_counts[class] * pods; cards && *idle; cards--) *idle &= *idle - 1;
    }
    move(t, class, row, pods);
}

static void undo(Tables *t, int64_t places) {
    while (t->places > places) {
        int64_t at = --t->places, class = t->place_classes[at], row = t->place_rows[at];
        if (t->card_rows[class] >= 0) t->idle[t->card_rows[class] * t->nodes + row] = t->place_idle[at];
        move(t, class, row, -t->place_pods[at]);
    }
}

static int place(Tables *t, int64_t class, int64_t pods, const int64_t *among, int64_t count_among) {
    int64_t *keys = t->keys[class];
    refresh(t, class);
    while (pods) {
        int64_t row = among ? best_among(keys, among, count_among) : best_row(t, keys);
        if (row < 0) break;
        int64_t fit = room(t, class, row), count = !t->fills ? 1 : fit < pods ? fit : pods;
        take(t, class, row, count);
        pods -= count;
        set_key(t, keys, row, count < fit ? score(t, class, row) : NEVER);
        t->seen[class] = t->touched_count;
    }
    return !pods;
}

/* ---- domains */

static void refresh_rooms(Tables *t, int64_t class) {
    int64_t *rooms = t->rooms[class], fresh = t->touched_count - t->seen_by_rooms[class];
    int all = t->seen_by_rooms[class] < 0 || fresh > t->nodes;
    for (int64_t at = 0; at < (all ? t->nodes : fresh); at++) {
        int64_t row = all ? at : t->touched[t->seen_by_rooms[class] + at], fit = t->masks[class][row] ? room(t, class, row) : 0;
        rooms[row] = fit > 0 ? fit : 0;
    }
    t->seen_by_rooms[class] = t->touched_count;
}

static int64_t domain_for(Tables *t, int64_t level, int64_t class, int64_t pods) {
    const int64_t *rooms = t->rooms[class], *rows = t->level_rows[level], *bounds = t->level_bounds[level];
    const int64_t *free = t->free + t->scarcest[class] * t->nodes;
    int64_t found = -1, least = INT64_MAX;
    for (int64_t domain = 0; domain < t->level_domains[level]; domain++) {
        int64_t fit = 0, left = 0, at = bounds[domain];
        for (; at < bounds[domain + 1] && left < least; at++) {
            fit += rooms[rows[at]] < pods ? rooms[rows[at]] : pods;
            left += free[rows[at]] > 0 ? free[rows[at]] : 0;
        }
        if (fit < pods || left >= least) continue;
        found = domain;
        least = left;
    }
    return found;
}

static int place_all(Tables *t, int64_t kind, int64_t times) {
    int64_t before = t->places, first = t->parts_first[kind], class = t->part_classes[first];
    for (int64_t at = t->levels_first[kind]; at < t->levels_first[kind + 1]; at++) {
        int64_t level = t->kind_levels[at], pods = t->part_pods[first] * times;
        refresh_rooms(t, class);
        int64_t domain = domain_for(t, level, class, pods), *bounds = t->level_bounds[level];
        if (domain < 0) continue;
        return place(t, class, pods, t->level_rows[level] + bounds[domain], bounds[domain + 1] - bounds[domain]);
    }
    if (t->together[kind]) return 0;
    for (int64_t part = first; part < t->parts_first[kind + 1]; part++) {
        if (!place(t, t->part_classes[part], t->part_pods[part] * times, 0, 0)) {
            undo(t, before);
            return 0;
        }
    }
    return 1;
}

/* ---- quotas and the order of queues */

static int may_charge(const Tables *t, int64_t queue, int64_t kind, int64_t times) {
    const int64_t *caps = t->caps + queue * t->accounts, *held = t->held + queue * t->accounts;
    const int64_t *demand = t->demands + kind * t->accounts;
    for (int64_t at = 0; at < t->accounts; at++)
        if (caps[at] != ABSENT && demand[at] > 0 && demand[at] * times > caps[at] - held[at]) return 0;
    return 1;
}

static int64_t share(const Tables *t, int64_t queue) {
    const int64_t *measures = t->measures + queue * t->accounts, *held = t->held + queue * t->accounts;
    int64_t largest = 0;
    for (int64_t at = 0; at < t->accounts; at++) {
        if (measures[at] == ABSENT || held[at] <= 0) continue;
        if (measures[at] <= 0) {
            if (t->limited[queue]) return INFINITE_SHARE;
            continue;
        }
        int64_t part = (int64_t)((__int128)held[at] * SHARE_UNIT / measures[at]);
        if (part > largest) largest = part;
    }
    return largest;
}

static void compare_anew(Tables *t, int64_t queue) {
    int64_t by[2] = {t->first_comparator, t->second_comparator};
    for (int at = 0; at < 2; at++)
        t->order[2 * queue + at] = by[at] == BY_PRIORITY ? -t->priorities[queue] : by[at] == BY_SHARE ? share(t, queue) : 0;
}

static int goes_first(const Tables *t, int64_t one, int64_t other) {
    for (int at = 0; at < 2; at++)
        if (t->order[2 * one + at] != t->order[2 * other + at]) return t->order[2 * one + at] < t->order[2 * other + at];
    return one < other; /* queues are sorted by name */
}

static void sink(Tables *t, int64_t place, int64_t size) {
    int64_t *heap = t->heap, queue = heap[place];
    for (int64_t below; (below = 2 * place + 1) < size; place = below) {
        if (below + 1 < size && goes_first(t, heap[below + 1], heap[below])) below++;
        if (!goes_first(t, heap[below], queue)) break;
        heap[place] = heap[below];
    }
    heap[place] = queue;
}

/* ---- what is called */

void run(Tables *t) {
    int64_t size = 0;
    t->starts = t->places = t->stopped_at = 0;
    t->stopped = ALL_DONE;
    for (int64_t queue = 0; queue < t->queues; queue++) {
        if (!t->left[queue]) continue;
        compare_anew(t, queue);
        t->heap[size++] = queue;
    }
    for (int64_t place = size / 2 - 1; place >= 0; place--) sink(t, place, size);
    while (size) {
        int64_t queue = t->heap[0], next = t->left[queue] - 1;
        t->stopped_at = queue;
        t->stopped = NEEDS_ITS_TURN;
        if (t->needs_turns[queue]) return;
        if (next < t->known[queue]) {
            t->stopped = NOT_READ;
            return;
        }
        int64_t kind = t->kind_of[t->line_first[queue] + next], times = t->times_of[t->line_first[queue] + next];
        if (kind < 0 || !may_charge(t, queue, kind, times)) return;
        /* A pod has one place at most. */
        int64_t more = t->kind_pods[kind] * times;
        if (t->starts == t->most_starts || (t->starts && t->places + more > t->most_places)) {
            t->stopped = PAUSED;
            return;
        }
        if (!place_all(t, kind, times)) return;
        for (int64_t at = 0; at < t->accounts; at++)
            t->held[queue * t->accounts + at] += t->demands[kind * t->accounts + at] * times;
        t->start_queues[t->starts] = queue;
        t->start_kinds[t->starts] = kind;
        t->start_ends[t->starts++] = t->places;
        if (--t->left[queue])
            compare_anew(t, queue);
        else
            t->heap[0] = t->heap[--size];
        if (size) sink(t, 0, size);
    }
    t->stopped = ALL_DONE;
}

const char *source(void) { return SOURCE; }
