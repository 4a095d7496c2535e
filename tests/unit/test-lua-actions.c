/* test-lua-actions.c - who may see and change which scripts, and what is checked */
#include "lua/engine.h"
#include "management/actions.h"
#include "runtime/settings.h"
#include "store/script.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <string.h>

static char *conninfo;

static void
set_up(void)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    conninfo = test_store_open(NULL);
    ph_settings_publish(g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free), 1);
    ph_lua_start(NULL);
    g_assert_true(ph_lua_sync_blocking(test_deadline(), &error));
}

static void
tear_down(void)
{
    ph_assert_in_job();
    ph_lua_stop_blocking();
    test_store_close(g_steal_pointer(&conninfo));
}

static const PhCaller operator= { .actor = "root", .origin = "test", .role = PH_ROLE_OPERATOR };

static PhCaller
tenant_caller(const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    PhCaller caller = { .actor = name, .origin = "test", .role = PH_ROLE_TENANT };
    ph_tenant_add_blocking(name, test_deadline(), &caller.tenant_id, &error);
    g_assert_no_error(error);
    return caller;
}

/* "ok" and the answer, or the error's code and the argument that it blames. Free it. */
static char *
call(const PhCaller *caller, const char *action, const char *arguments)
{
    ph_assert_in_job();
    g_autoptr(JsonParser) parser = json_parser_new();
    g_assert_true(json_parser_load_from_data(parser, arguments, -1, NULL));
    PhActionFailure failure = { .error = NULL };
    JsonObject *answer = ph_action_call_blocking(
        action, json_node_get_object(json_parser_get_root(parser)), caller, &failure);
    char *text = NULL;
    if (answer != NULL) {
        g_autofree char *json = ph_json_format(answer);
        text = g_strconcat("ok ", json, NULL);
        json_object_unref(answer);
    } else {
        text = g_strdup_printf("%s %s: %s", ph_error_name(ph_error_code(failure.error)),
            failure.argument != NULL ? failure.argument : "-", failure.error->message);
    }
    ph_action_failure_clear(&failure);
    return text;
}

#define assert_call(caller, action, arguments, expected) \
    do { \
        g_autofree char *said = call(caller, action, arguments); \
        if (strstr(said, expected) == NULL) \
            g_error("%s %s: \"%s\" is not in \"%s\"", action, arguments, expected, said); \
    } while (0)

#define GOOD "\"text\": \"return { deliver = function() return discard() end }\""

static void
test_install(void)
{
    set_up();
    assert_call(&operator, "lua.install", "{\"name\": \"one\", " GOOD "}", "\"version\":1");
    assert_call(&operator, "lua.install", "{\"name\": \"one\", " GOOD "}",
        "\"version\":1"); /* the same text */
    assert_call(&operator, "lua.show", "{\"name\": \"one\"}", "\"scope\":\"global\"");
    assert_call(&operator, "lua.show", "{\"name\": \"one\"}", "\"state\":\"inactive\"");
    assert_call(&operator, "lua.install", "{\"name\": \"one\", \"text\": \"return {\\n1\\n\"}",
        "syntax text: script \"one\", line 3");
    assert_call(&operator, "lua.install", "{\"name\": \"One\", " GOOD "}", "syntax name");
    assert_call(&operator, "lua.install", "{\"name\": \"a/b\", " GOOD "}", "syntax name");
    assert_call(&operator, "lua.install", "{\"name\": \"x\"}", "syntax text");
    assert_call(&operator, "lua.install", "{\"name\": \"x\", \"scope\": \"all\", " GOOD "}",
        "syntax scope");
    assert_call(&operator, "lua.install", "{\"name\": \"x\", \"scope\": \"domain\", " GOOD "}",
        "syntax scope_name");
    assert_call(&operator, "lua.install",
        "{\"name\": \"x\", \"scope\": \"domain\", \"scope_name\": \"no.example\", " GOOD "}",
        "not-found scope_name");
    assert_call(
        &operator, "lua.install", "{\"name\": \"one\", \"if_version\": 99, " GOOD "}", "conflict");
    assert_call(&operator, "lua.activate", "{\"name\": \"one\"}", "\"version\":1");
    assert_call(&operator, "lua.list", "{}", "\"state\":\"active\"");
    assert_call(&operator, "lua.list", "{\"filter\": \"deliver\"}", "\"name\":\"one\"");
    assert_call(&operator, "lua.rollback", "{\"name\": \"one\"}", "not-found");
    assert_call(&operator, "lua.versions", "{\"name\": \"one\"}", "\"active\":true");
    assert_call(&operator, "lua.show", "{\"name\": \"one\", \"version\": 5}", "not-found");
    assert_call(&operator, "lua.check", "{\"text\": \"x x\"}", "\"ok\":false,\"line\":1");
    assert_call(&operator, "lua.test", "{\"name\": \"none\"}", "not-found");
    assert_call(&operator, "lua.test",
        "{\"name\": \"one\", \"hook\": \"deliver\", \"input\": \"{}\"}", "discard");
    assert_call(
        &operator, "lua.test", "{\"name\": \"one\", \"hook\": \"nothing\"}", "\"ok\":false");
    assert_call(&operator, "lua.remove", "{\"name\": \"one\"}", "ok");
    assert_call(&operator, "lua.show", "{\"name\": \"one\"}", "not-found");
    tear_down();
}

/* A tenant's administrator has to do with the tenant's scripts, and knows of no others. */
static void
test_tenants(void)
{
    ph_assert_in_job();
    set_up();
    PhCaller acme = tenant_caller("acme");
    PhCaller umbrella = tenant_caller("umbrella");
    g_assert_true(ph_domain_add_blocking("acme.test", acme.tenant_id, test_deadline(), NULL, NULL));
    assert_call(
        &operator, "lua.install", "{\"name\": \"global\", \"activate\": true, " GOOD "}", "ok");
    assert_call(&acme, "lua.install", "{\"name\": \"own\", \"activate\": true, " GOOD "}", "ok");
    assert_call(
        &acme, "lua.show", "{\"name\": \"own\"}", "\"scope\":\"tenant\",\"scope_name\":\"acme\"");
    assert_call(&acme, "lua.install",
        "{\"name\": \"own\", \"scope\": \"domain\", \"scope_name\": \"acme.test\", " GOOD "}",
        "ok");
    assert_call(&acme, "lua.show", "{\"name\": \"own\"}", "\"scope_name\":\"acme.test\"");
    assert_call(
        &acme, "lua.install", "{\"name\": \"x\", \"scope\": \"global\", " GOOD "}", "denied scope");
    assert_call(&umbrella, "lua.install",
        "{\"name\": \"x\", \"scope\": \"domain\", \"scope_name\": \"acme.test\", " GOOD "}",
        "not-found scope_name");
    assert_call(&umbrella, "lua.install",
        "{\"name\": \"x\", \"scope\": \"tenant\", \"scope_name\": \"acme\", " GOOD "}",
        "not-found scope_name");
    static const char *const actions[] = { "lua.show", "lua.versions", "lua.activate",
        "lua.rollback", "lua.deactivate", "lua.remove", "lua.test" };
    for (size_t i = 0; i < G_N_ELEMENTS(actions); i++) {
        assert_call(&umbrella, actions[i], "{\"name\": \"own\"}", "not-found");
        assert_call(&acme, actions[i], "{\"name\": \"global\"}", "not-found");
    }
    /* The name is taken, and that is all they learn. */
    assert_call(&umbrella, "lua.install", "{\"name\": \"own\", " GOOD "}", "conflict name");
    g_autofree char *list = call(&umbrella, "lua.list", "{}");
    g_assert_null(strstr(list, "own"));
    g_autofree char *own = call(&acme, "lua.list", "{}");
    g_assert_nonnull(strstr(own, "\"name\":\"own\""));
    g_assert_null(strstr(own, "global"));
    PhCaller user = {
        .actor = "u", .origin = "test", .role = PH_ROLE_USER, .tenant_id = acme.tenant_id
    };
    assert_call(&user, "lua.list", "{}", "denied");
    tear_down();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ph_settings_declare(ph_lua_settings);
    test_database_start();
    g_test_add_func("/lua-actions/install", test_install);
    g_test_add_func("/lua-actions/tenants", test_tenants);
    int status = g_test_run();
    test_database_stop();
    return status;
}
