/* Gangs that start one after the other: the same as `reference.py`, which says what it means, on the same tables.
 *
 * All numbers are 64 bits wide. The fields of `Tables`, and of the rows that it points to, are those of `native.py`, in
 * its order. Nothing is allocated or freed here, and nothing is called. `tables.py` has looked at every size, position
 * and amount that is read here.
 */

#include <stdint.h>

#define NEVER INT64_MIN  /* key of a node on which no pod fits */
#define ABSENT INT64_MIN /* an account does not name the resource */
#define LARGEST ((int64_t)1 << 53)
#define SHARE_UNIT 1000000000
#define INFINITE_SHARE ((int64_t)1 << 62)
#define BLOCK 32 /* nodes with one largest key, kept behind the keys of a class */

enum { ALL_DONE, NEEDS_ITS_TURN, NOT_READ, PAUSED };
enum { BY_PRIORITY = 1, BY_SHARE = 2 };

typedef struct {
    int64_t *keys, *gains, *biases, *rooms;
    uint8_t *mask;
    int64_t first_need, end_needs, card_row, cards, scarcest;
} Class;

typedef struct { int64_t row, amount; } Need;
typedef struct { int64_t domains, *rows, *bounds; } Level;
typedef struct { int64_t first_part, end_parts, pods, first_level, end_levels, together; } Kind; /* pods: of one */
typedef struct { int64_t class, pods; } Part;

typedef struct {
    int64_t nodes, accounts, queues, fills, first_comparator, second_comparator;
    int64_t *free, *base;
    uint64_t *idle;

    Class *classes;
    Need *needs;
    int64_t *seen, *seen_by_rooms, *touched, touched_count; /* the first two by class */
    Level *levels;
    Kind *kinds;
    Part *parts;
    int64_t *kind_levels, *demands;

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

static int64_t score(const Tables *t, const Class *class, int64_t row) {
    return t->base[row] + class->gains[row] + (class->biases ? class->biases[row] : 0);
}

static int64_t key_of(const Tables *t, const Class *class, int64_t row) {
    if (!class->mask[row]) return NEVER;
    for (int64_t at = class->first_need; at < class->end_needs; at++)
        if (t->free[t->needs[at].row * t->nodes + row] < t->needs[at].amount) return NEVER;
    return score(t, class, row);
}

static int64_t room(const Tables *t, const Class *class, int64_t row) { /* whatever its mask says */
    int64_t room = LARGEST;
    for (int64_t at = class->first_need; at < class->end_needs; at++) {
        int64_t fit = t->free[t->needs[at].row * t->nodes + row] / t->needs[at].amount;
        if (fit < room) room = fit;
    }
    return room;
}

static void refresh(Tables *t, int64_t number) {
    const Class *class = t->classes + number;
    int64_t *keys = class->keys, fresh = t->touched_count - t->seen[number];
    if (t->seen[number] < 0 || fresh * 4 > t->nodes) {
        for (int64_t row = 0; row < t->nodes; row++) keys[row] = key_of(t, class, row);
        for (int64_t block = 0; block * BLOCK < t->nodes; block++) find_largest(t, keys, block);
    } else {
        for (int64_t at = t->seen[number]; at < t->touched_count; at++)
            set_key(t, keys, t->touched[at], key_of(t, class, t->touched[at]));
    }
    t->seen[number] = t->touched_count;
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

static void move(Tables *t, const Class *class, int64_t row, int64_t pods) {
    for (int64_t at = class->first_need; at < class->end_needs; at++)
        t->free[t->needs[at].row * t->nodes + row] -= t->needs[at].amount * pods;
    t->base[row] += class->gains[row] * pods;
    t->touched[t->touched_count++] = row;
}

static void take(Tables *t, int64_t number, int64_t row, int64_t pods) {
    const Class *class = t->classes + number;
    int64_t at = t->places++;
    t->place_rows[at] = row;
    t->place_pods[at] = pods;
    t->place_classes[at] = number;
    t->place_idle[at] = 0;
    if (class->card_row >= 0) {
        uint64_t *idle = t->idle + class->card_row * t->nodes + row;
        t->place_idle[at] = *idle;
        for (int64_t cards = class->cards * pods; cards && *idle; cards--) *idle &= *idle - 1;
    }
    move(t, class, row, pods);
}

static void undo(Tables *t, int64_t places) {
    while (t->places > places) {
        int64_t at = --t->places, row = t->place_rows[at];
        const Class *class = t->classes + t->place_classes[at];
        if (class->card_row >= 0) t->idle[class->card_row * t->nodes + row] = t->place_idle[at];
        move(t, class, row, -t->place_pods[at]);
    }
}

static int place(Tables *t, int64_t number, int64_t pods, const int64_t *among, int64_t count_among) {
    const Class *class = t->classes + number;
    refresh(t, number);
    while (pods) {
        int64_t row = among ? best_among(class->keys, among, count_among) : best_row(t, class->keys);
        if (row < 0) break;
        int64_t fit = room(t, class, row), count = !t->fills ? 1 : fit < pods ? fit : pods;
        take(t, number, row, count);
        pods -= count;
        set_key(t, class->keys, row, count < fit ? score(t, class, row) : NEVER);
        t->seen[number] = t->touched_count;
    }
    return !pods;
}

/* ---- domains */

static void refresh_rooms(Tables *t, int64_t number) {
    const Class *class = t->classes + number;
    int64_t seen = t->seen_by_rooms[number], fresh = t->touched_count - seen;
    int all = seen < 0 || fresh > t->nodes;
    for (int64_t at = 0; at < (all ? t->nodes : fresh); at++) {
        int64_t row = all ? at : t->touched[seen + at], fit = class->mask[row] ? room(t, class, row) : 0;
        class->rooms[row] = fit > 0 ? fit : 0;
    }
    t->seen_by_rooms[number] = t->touched_count;
}

static int64_t domain_for(const Tables *t, const Level *level, const Class *class, int64_t pods) {
    const int64_t *rooms = class->rooms, *rows = level->rows, *bounds = level->bounds;
    const int64_t *free = t->free + class->scarcest * t->nodes;
    int64_t found = -1, least = INT64_MAX;
    for (int64_t domain = 0; domain < level->domains; domain++) {
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

static int place_all(Tables *t, const Kind *kind, int64_t times) {
    int64_t before = t->places;
    const Part *first = t->parts + kind->first_part;
    for (int64_t at = kind->first_level; at < kind->end_levels; at++) {
        const Level *level = t->levels + t->kind_levels[at];
        refresh_rooms(t, first->class);
        int64_t domain = domain_for(t, level, t->classes + first->class, first->pods * times);
        if (domain < 0) continue;
        int64_t begin = level->bounds[domain], end = level->bounds[domain + 1];
        return place(t, first->class, first->pods * times, level->rows + begin, end - begin);
    }
    if (kind->together) return 0;
    for (const Part *part = first; part < t->parts + kind->end_parts; part++) {
        if (!place(t, part->class, part->pods * times, 0, 0)) {
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
        int64_t more = t->kinds[kind].pods * times;
        if (t->starts == t->most_starts || (t->starts && t->places + more > t->most_places)) {
            t->stopped = PAUSED;
            return;
        }
        if (!place_all(t, t->kinds + kind, times)) return;
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
