/* reactor.h - one thread, one epoll, and what runs on it
 *
 * Shape:    a reactor owns its sources (descriptors), timers, posted functions and connections. One
 *           turn of its loop: events, posted functions, due timers, then the connections that were
 *           touched.
 * Threads:  ph_reactor_new, _start, _stop, _free: one controlling thread. ph_reactor_post_node:
 *           anywhere.
 * Rules:    nothing here blocks except epoll_wait.
 */
#pragma once

#include "posthouse/task.h"
#include "posthouse/timer.h"

typedef struct PhSource PhSource;

/* Embedded in what waits for a descriptor. `ready` gets the epoll events. */
struct PhSource {
    int fd;
    void (*ready)(PhSource *source, uint32_t events);
};

/* A function to run on the reactor, embedded in its data: posting it allocates nothing. */
typedef struct PhPost PhPost;
struct PhPost {
    PhPost *next;
    void (*func)(PhPost *post);
};

/* Something to look at once at the end of the turn; each is on the list at most once. */
typedef struct PhTouch PhTouch;
struct PhTouch {
    PhTouch *next;
    bool queued;
    void (*func)(PhTouch *touch);
};

PhReactor *ph_reactor_new(unsigned index, GError **error);
void ph_reactor_start(PhReactor *reactor);
/* Ends the loop after the present turn and waits for the thread. */
void ph_reactor_stop(PhReactor *reactor);
void ph_reactor_free(PhReactor *reactor);
unsigned ph_reactor_index(const PhReactor *reactor);
/* The reactor of the calling thread, or null. */
PhReactor *ph_reactor_self(void);

bool ph_reactor_add(PhReactor *reactor, PhSource *source, uint32_t events, GError **error);
void ph_reactor_remove(PhReactor *reactor, PhSource *source);
void ph_reactor_post_node(PhReactor *reactor, PhPost *post);
void ph_reactor_touch(PhReactor *reactor, PhTouch *touch);
/* Frees at the end of the turn, when no event of this turn can still name it. */
void ph_reactor_free_later(PhReactor *reactor, void *memory, GDestroyNotify func);
/* A buffer of PH_SCRATCH_BYTES for use within one callback. */
enum { PH_SCRATCH_BYTES = 64 * 1024 };
uint8_t *ph_reactor_scratch(PhReactor *reactor);
/* The monotonic time at the start of this turn: for deadlines, not for measuring. */
int64_t ph_reactor_now_us(const PhReactor *reactor);

/* Every connection of the reactor, for stop and lists. */
typedef struct PhConnectionLink PhConnectionLink;
struct PhConnectionLink {
    PhConnectionLink *next;
    PhConnectionLink *previous;
};
PhConnectionLink *ph_reactor_connections(PhReactor *reactor);

/* Waits until `func` has run on the reactor. Not from a reactor. */
void ph_reactor_call_blocking(
    PhReactor *reactor, void (*func)(PhReactor *reactor, void *data), void *data);

/* -- the reactors of this process -------------------------------------------------------------- */

/* 0: one per CPU. And one more, which is apart. */
bool ph_reactors_start(unsigned n, GError **error);
void ph_reactors_stop(void);
/* Without the one that is apart. */
unsigned ph_reactors_count(void);
PhReactor *ph_reactor_at(unsigned index);
/* Runs `func` on each, the one apart too, one after the other. Not from a reactor. */
void ph_reactors_call_blocking(void (*func)(PhReactor *reactor, void *data), void *data);
