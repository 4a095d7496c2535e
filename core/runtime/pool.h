/* pool.h - the worker threads: lanes, each with reserved workers
 *
 * Shape:    a job is embedded in its owner and pushed to a lane. A lane may use every worker that
 *           is not reserved for another lane, so that a flood in one never stops the rest.
 * Threads:  push from anywhere; start and stop from one controlling thread.
 */
#pragma once

#include "posthouse/task.h"

typedef struct PhJobNode PhJobNode;
struct PhJobNode {
    PhJobNode *next;
    int64_t pushed_us;
    void (*run)(PhJobNode *node);
};

/* 0: the default, 4 a CPU and at least 8. */
void ph_pool_start(unsigned n_workers);
/* Runs what is queued, then ends the workers. */
void ph_pool_stop(void);
void ph_pool_push(PhLane lane, PhJobNode *node);
/* On a reactor, at the end of each turn: what it pushed goes to the workers. */
void ph_pool_flush(void);

typedef struct PhLaneState {
    unsigned queued;
    unsigned running;
    unsigned most; /* at a time */
    int64_t jobs;  /* done so far */
    int64_t waited_us;
} PhLaneState;

void ph_pool_lane_state(PhLane lane, PhLaneState *state_out);
const char *ph_lane_name(PhLane lane);
/* The lane of the job that this thread runs; on other threads what they said, first
 * PH_LANE_MAIL. */
PhLane ph_lane_current(void);
void ph_lane_set_current(PhLane lane);
