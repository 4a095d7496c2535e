/* timer.h - deadlines on a reactor
 *
 * Shape:    a timer is embedded in its owner and armed for one moment; arming again moves it.
 *           Moving it later costs nothing (the place in the reactor's heap is mended when the old
 *           moment comes), which is what sessions do. Never fires early.
 * Units:    milliseconds from now.
 * Threads:  the reactor that armed it.
 */
#pragma once

#include "posthouse/task.h"

typedef struct PhTimer PhTimer;
struct PhTimer {
    PhReactor *reactor; /* null: not armed */
    int64_t due_us;
    int64_t queued_us; /* the moment by which the heap has sorted it: due_us or earlier */
    size_t index;      /* in the heap */
    void (*func)(void *data);
    void *data;
    void *owner; /* whose code it was when the timer was made; the runtime's */
};

PH_API void ph_timer_init(PhTimer *timer, void (*func)(void *data), void *data);
PH_API PH_ON_REACTOR void ph_timer_arm_ms(PhTimer *timer, PhReactor *reactor, int64_t delay_ms);
PH_API PH_ON_REACTOR void ph_timer_disarm(PhTimer *timer);
PH_API bool ph_timer_is_armed(const PhTimer *timer);
