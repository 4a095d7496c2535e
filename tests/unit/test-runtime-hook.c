/* test-runtime-hook.c - deciders: order, answers, failures, removal; and services between
 * plugins */
#include "posthouse/hook.h"
#include "posthouse/service.h"
#include "runtime/owner.h"

#include "tests/support/test-client.h"

#include <string.h>

/* -- hooks ------------------------------------------------------------------------------------- */

static const PhHookRow open_row = { "test.open",
    1U << PH_DECISION_NONE | 1U << PH_DECISION_ACCEPT | 1U << PH_DECISION_REJECT, PH_HOOK_FAIL_OPEN,
    1000, "Open." };
static const PhHookRow defer_row = { "test.defer",
    1U << PH_DECISION_NONE | 1U << PH_DECISION_ACCEPT, PH_HOOK_FAIL_DEFER, 1000, "Defers." };

typedef struct Plan {
    PhDecisionKind kind;
    int code;
    bool fails;
    bool is_silent; /* fails without a word */
    int calls;
    int running;
    GMutex gate;
} Plan;

static bool
decide(const PhHookRow *row, const PhHookField *fields, size_t n_fields, int64_t deadline_us,
    PhDecision *decision, void *data, GError **error)
{
    Plan *plan = data;
    int64_t left_us = deadline_us - ph_monotonic_us();
    g_assert_cmpint(left_us, >, 500000);
    g_assert_cmpint(left_us, <=, 1000000);
    g_assert_true(g_str_has_prefix(row->name, "test."));
    g_assert_cmpuint(n_fields, ==, 1);
    g_assert_cmpstr(fields[0].name, ==, "sender");
    __atomic_fetch_add(&plan->running, 1, __ATOMIC_ACQ_REL);
    g_mutex_lock(&plan->gate);
    g_mutex_unlock(&plan->gate);
    plan->calls++;
    __atomic_fetch_sub(&plan->running, 1, __ATOMIC_ACQ_REL);
    if (plan->kind != PH_DECISION_NONE) {
        decision->kind = plan->kind;
        decision->code = plan->code;
        decision->text = g_strdup("a text");
    }
    if (plan->fails && !plan->is_silent)
        g_set_error(error, PH_ERROR, PH_ERROR_INTERNAL, "the script is broken");
    return !plan->fails;
}

static PhDecisionKind
ask(const PhHookRow *row, int *code_out)
{
    static const PhHookField field = { "sender", "a@example.org", 13 };
    PhDecision decision;
    ph_assert_in_job();
    ph_hook_call(row, &field, 1, &decision);
    PhDecisionKind kind = decision.kind;
    if (code_out != NULL)
        *code_out = decision.code;
    ph_decision_clear(&decision);
    g_assert_null(decision.text);
    return kind;
}

static void
test_hook_order(void)
{
    Plan none = { .kind = PH_DECISION_NONE };
    Plan first = { .kind = PH_DECISION_REJECT, .code = 1 };
    Plan second = { .kind = PH_DECISION_ACCEPT, .code = 2 };
    Plan same = { .kind = PH_DECISION_ACCEPT, .code = 3 };
    int code;
    g_assert_false(ph_hook_has_deciders("test.open"));
    g_assert_cmpint(ask(&open_row, NULL), ==, PH_DECISION_NONE);
    unsigned id_second = ph_hook_add_decider("test.open", 20, decide, &second);
    unsigned id_same = ph_hook_add_decider("test.open", 20, decide, &same);
    unsigned id_first = ph_hook_add_decider("test.open", 10, decide, &first);
    unsigned id_none = ph_hook_add_decider("test.open", -5, decide, &none);
    g_assert_true(ph_hook_has_deciders("test.open"));
    g_assert_false(ph_hook_has_deciders("test.other"));
    g_assert_cmpint(ask(&open_row, &code), ==, PH_DECISION_REJECT);
    g_assert_cmpint(code, ==, 1);
    g_assert_cmpint(none.calls, ==, 1);
    g_assert_cmpint(second.calls, ==, 0); /* the first opinion wins */
    ph_hook_remove_decider(id_first);
    ask(&open_row, &code);
    g_assert_cmpint(code, ==, 2); /* of equal order, who came first */
    ph_hook_remove_decider(id_second);
    ask(&open_row, &code);
    g_assert_cmpint(code, ==, 3);
    ph_hook_remove_decider(id_same);
    ph_hook_remove_decider(id_none);
    ph_hook_remove_decider(id_none); /* nobody: no harm */
    g_assert_false(ph_hook_has_deciders("test.open"));
}

static void
test_hook_failures(void)
{
    Plan broken = { .kind = PH_DECISION_ACCEPT, .fails = true };
    Plan behind = { .kind = PH_DECISION_ACCEPT };
    Plan forbidden = { .kind = PH_DECISION_DISCARD };
    unsigned open_id = ph_hook_add_decider("test.open", 1, decide, &broken);
    unsigned defer_id = ph_hook_add_decider("test.defer", 1, decide, &broken);
    unsigned behind_id = ph_hook_add_decider("test.defer", 2, decide, &behind);
    g_assert_cmpint(ask(&open_row, NULL), ==, PH_DECISION_NONE);
    g_assert_cmpint(ask(&defer_row, NULL), ==, PH_DECISION_DEFER);
    g_assert_cmpint(behind.calls, ==, 0);
    ph_hook_remove_decider(open_id);
    ph_hook_remove_decider(defer_id);
    ph_hook_remove_decider(behind_id);
    /* A failure without a word, and an answer that the point does not allow, are failures too. */
    Plan silent = { .kind = PH_DECISION_ACCEPT, .fails = true, .is_silent = true };
    defer_id = ph_hook_add_decider("test.defer", 1, decide, &silent);
    g_assert_cmpint(ask(&defer_row, NULL), ==, PH_DECISION_DEFER);
    ph_hook_remove_decider(defer_id);
    open_id = ph_hook_add_decider("test.open", 1, decide, &forbidden);
    defer_id = ph_hook_add_decider("test.defer", 1, decide, &forbidden);
    g_assert_cmpint(ask(&open_row, NULL), ==, PH_DECISION_NONE);
    g_assert_cmpint(ask(&defer_row, NULL), ==, PH_DECISION_DEFER);
    ph_hook_remove_decider(open_id);
    ph_hook_remove_decider(defer_id);
}

static void *
ask_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    ask(&open_row, NULL);
    return NULL;
}

typedef struct Removal {
    unsigned id;
    int done;
} Removal;

static void *
remove_main(void *data)
{
    Removal *removal = data;
    ph_hook_remove_decider(removal->id);
    __atomic_store_n(&removal->done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Removing waits for the call under way. */
static void
test_hook_removal(void)
{
    Plan slow = { .kind = PH_DECISION_ACCEPT };
    Removal removal = { .id = ph_hook_add_decider("test.open", 1, decide, &slow) };
    g_mutex_lock(&slow.gate);
    GThread *asker = g_thread_new("asker", ask_main, NULL);
    test_wait_for(__atomic_load_n(&slow.running, __ATOMIC_ACQUIRE) == 1);
    GThread *remover = g_thread_new("remover", remove_main, &removal);
    g_usleep(20000);
    g_assert_cmpint(__atomic_load_n(&removal.done, __ATOMIC_ACQUIRE), ==, 0);
    /* New calls do not see it. */
    test_wait_for(!ph_hook_has_deciders("test.open"));
    g_assert_cmpint(ask(&open_row, NULL), ==, PH_DECISION_NONE);
    g_mutex_unlock(&slow.gate);
    g_thread_join(asker);
    g_thread_join(remover);
    g_assert_cmpint(slow.calls, ==, 1);
}

/* -- services ---------------------------------------------------------------------------------- */

static const int table_one = 1;
static const int table_two = 2;

static bool
publish(PhOwner *as, unsigned version, const int *table, GError **error)
{
    PhOwner *previous = ph_owner_enter(as);
    bool good = ph_service_publish("test.service", version, table, error);
    ph_owner_leave(previous);
    return good;
}

static void
test_service_hold(void)
{
    g_autoptr(GError) error = NULL;
    PhOwner owner = { .name = "provider" };
    g_assert_null(ph_service_hold("test.service", 1));
    g_assert_true(publish(&owner, 3, &table_one, &error));
    g_assert_null(ph_service_hold("test.service", 4));
    PhServiceHold *hold = ph_service_hold("test.service", 2);
    PhServiceHold *more = ph_service_hold("test.service", 3);
    g_assert_true(ph_service_table(hold) == &table_one);
    g_assert_cmpuint(ph_service_holders("test.service", &table_one), ==, 2);
    g_assert_cmpint(ph_owner_uses(&owner), ==, 2); /* it stays mapped */
    ph_service_release(more);
    ph_service_withdraw("test.service", &table_two); /* not what is offered */
    g_assert_cmpuint(ph_service_holders("test.service", &table_one), ==, 1);
    ph_service_withdraw("test.service", &table_one);
    g_assert_null(ph_service_hold("test.service", 1));
    g_assert_true(ph_service_table(hold) == &table_one); /* who holds it keeps it */
    g_assert_cmpint(ph_owner_uses(&owner), ==, 1);
    ph_service_release(hold);
    ph_service_release(NULL);
    g_assert_cmpint(ph_owner_uses(&owner), ==, 0);
}

static void
test_service_conflict(void)
{
    g_autoptr(GError) error = NULL;
    PhOwner one = { .name = "one" };
    PhOwner two = { .name = "two" };
    g_assert_true(publish(&one, 1, &table_one, &error));
    g_assert_false(publish(&two, 1, &table_two, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    g_clear_error(&error);
    g_assert_false(publish(&one, 1, &table_two, &error)); /* twice by the same generation */
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    g_clear_error(&error);
    g_assert_false(publish(NULL, 1, &table_two, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_CONFLICT);
    ph_service_withdraw("test.service", &table_one);
}

/* A plugin is replaced: its new generation offers the service while the old one still does. */
static void
test_service_generations(void)
{
    g_autoptr(GError) error = NULL;
    PhOwner old = { .name = "plugin" };
    PhOwner new_ = { .name = "plugin" };
    g_assert_true(publish(&old, 1, &table_one, &error));
    PhServiceHold *before = ph_service_hold("test.service", 1);
    g_assert_true(publish(&new_, 2, &table_two, &error));
    g_assert_no_error(error);
    PhServiceHold *after = ph_service_hold("test.service", 1);
    g_assert_true(ph_service_table(before) == &table_one);
    g_assert_true(ph_service_table(after) == &table_two);
    g_assert_cmpuint(ph_service_holders("test.service", &table_one), ==, 1);
    ph_service_withdraw("test.service", &table_one); /* the old one stops */
    PhServiceHold *later = ph_service_hold("test.service", 2);
    g_assert_true(ph_service_table(later) == &table_two);
    ph_service_release(before);
    ph_service_release(after);
    ph_service_release(later);
    g_assert_cmpint(ph_owner_uses(&old), ==, 0);
    g_assert_cmpint(ph_owner_uses(&new_), ==, 0);
    /* A new generation that failed to start leaves the old one in place. */
    g_assert_true(publish(&old, 1, &table_one, &error));
    ph_service_withdraw("test.service", &table_two);
    PhServiceHold *back = ph_service_hold("test.service", 1);
    g_assert_true(ph_service_table(back) == &table_one);
    ph_service_release(back);
    ph_service_withdraw("test.service", &table_one);
    g_assert_null(ph_service_hold("test.service", 1));
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/hook/call/order", test_hook_order);
    g_test_add_func("/hook/call/failures", test_hook_failures);
    g_test_add_func("/hook/remove/waits", test_hook_removal);
    g_test_add_func("/service/hold/life", test_service_hold);
    g_test_add_func("/service/publish/conflict", test_service_conflict);
    g_test_add_func("/service/publish/generations", test_service_generations);
    return g_test_run();
}
