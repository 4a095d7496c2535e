/* test-lua-engine.c - scripts from the store: asking them, failing, their database, pages */
#include "lua/engine.h"
#include "posthouse/hook.h"
#include "posthouse/lua-page.h"
#include "runtime/settings.h"
#include "store/script.h"

#include "tests/support/test-database.h"
#include "tests/support/test-store.h"

#include <fcntl.h>
#include <glib/gstdio.h>
#include <string.h>
#include <unistd.h>

static char *conninfo;

static void
set_setting(const char *key, const char *value)
{
    GPtrArray *values = g_ptr_array_new_with_free_func((GDestroyNotify)ph_setting_value_free);
    if (key != NULL) {
        PhSettingValue *row = g_new(PhSettingValue, 1);
        *row = (PhSettingValue){ g_strdup(key), PH_SCOPE_GLOBAL, 0, g_strdup(value) };
        g_ptr_array_add(values, row);
    }
    ph_settings_publish(values, 1);
}

static void
sync_scripts(void)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_assert_true(ph_lua_sync_blocking(test_deadline(), &error));
    g_assert_no_error(error);
}

static void
set_up(void)
{
    ph_assert_in_job();
    conninfo = test_store_open(NULL);
    set_setting(NULL, NULL);
    g_autoptr(PhSecret) key = ph_secret_new("a key of the tests", 18);
    ph_script_db_configure(key);
    ph_lua_start(NULL);
    sync_scripts();
}

static void
tear_down(void)
{
    ph_assert_in_job();
    ph_lua_stop_blocking();
    test_store_close(g_steal_pointer(&conninfo));
}

static int64_t
tenant(const char *name)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    int64_t id = 0;
    ph_tenant_add_blocking(name, test_deadline(), &id, &error);
    g_assert_no_error(error);
    return id;
}

typedef struct Place {
    PhScriptScope scope;
    int64_t tenant_id;
    int64_t scope_id;
    int order;
} Place;

/* Checked, kept and active, as by the actions. */
static void
install(const char *name, const Place *place, const char *text)
{
    ph_assert_in_job();
    g_autoptr(GError) error = NULL;
    g_autoptr(PhStoredScript) old = ph_script_find_blocking(name, 0, test_deadline(), NULL);
    PhLuaReport report;
    int64_t zone = place->scope == PH_SCRIPT_GLOBAL ? PH_SCRIPT_CORE : place->tenant_id;
    ph_lua_check_blocking(name, text, zone, test_deadline(), &report);
    if (!report.good)
        g_error("%s:%d: %s", name, report.line, report.message);
    PhScriptPut put = {
        .id = old != NULL ? old->id : 0,
        .name = name,
        .tenant_id = place->tenant_id,
        .scope = place->scope,
        .scope_id = place->scope_id,
        .order = place->order,
        .text = text,
        .hooks = report.hooks,
        .by = "test",
        .activate = true,
        .if_version = -1,
    };
    ph_script_put_blocking(&put, test_deadline(), NULL, &error);
    g_assert_no_error(error);
    ph_lua_report_clear(&report);
    sync_scripts();
}

static const Place everywhere = { .scope = PH_SCRIPT_GLOBAL, .order = 100 };

/* -- asking ------------------------------------------------------------------------------------ */

#define ALL_ANSWERS 0x7fU
static const PhHookRow rcpt = { "smtp.rcpt", ALL_ANSWERS, PH_HOOK_FAIL_DEFER, 1000, "" };
/* Of scripts that use the database, which a loaded machine makes slow. */
static const PhHookRow rcpt_with_db = { "smtp.rcpt", ALL_ANSWERS, PH_HOOK_FAIL_DEFER, 4000, "" };
static const PhHookRow deliver = { "deliver", ALL_ANSWERS, PH_HOOK_FAIL_OPEN, 1000, "" };

/* "accept", "550 text" ... of a sender; free it. */
static char *
ask_as(const PhHookRow *row, const char *sender, const char *tenant_id, const char *domain)
{
    ph_assert_in_job();
    const PhHookField fields[] = {
        { "sender", sender, strlen(sender) },
        { "peer.ip", "192.0.2.7", 9 },
        { "peer.port", "4711", 4 },
        { "size", "1000", 4 },
        { "domain", domain, strlen(domain) },
        { "tenant_id", tenant_id, strlen(tenant_id) },
        { "headers", "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\nX-Spam: yes\r\n\r\n", 53 },
    };
    PhDecision decision;
    ph_hook_call(row, fields, G_N_ELEMENTS(fields), &decision);
    char *text = g_strdup_printf("%d %d %s%s%s%s", (int)decision.kind, decision.code,
        decision.text != NULL ? decision.text : "", decision.target != NULL ? decision.target : "",
        decision.mailbox != NULL ? decision.mailbox : "",
        decision.flags != NULL ? decision.flags : "");
    ph_decision_clear(&decision);
    return g_strchomp(text);
}

#define assert_asked(row, sender, expected) \
    do { \
        g_autofree char *asked = ask_as(row, sender, "0", "example.test"); \
        g_assert_cmpstr(asked, ==, expected); \
    } while (0)

static void
test_ask_answers(void)
{
    set_up();
    install("one", &everywhere,
        "return { ['smtp.rcpt'] = function(ctx)\n"
        "  local s = ctx.sender\n"
        "  if s == 'reject' then return reject(554, 'no ' .. ctx.peer.ip .. ' ' .. ctx.peer.port + 1) end\n"
        "  if s == 'short' then return reject('no') end\n"
        "  if s == 'temp' then return tempfail('later\\r\\n250 yes') end\n"
        "  if s == 'discard' then return discard() end\n"
        "  if s == 'junk' then return quarantine('x') end\n"
        "  if s == 'redirect' then return redirect('bob@example.test') end\n"
        "  if s == 'accept' then return accept() end\n"
        "  if s == 'place' then return accept { mailbox = 'Lists', flags = { '\\\\Seen', '$x' } } end\n"
        "  if s == 'header' then return reject(550, ctx:header('subject') .. ctx.size // 10) end\n"
        "  if s == 'write' then ctx.sender = 'x' end\n"
        "  if s == 'text' then return 'yes' end\n"
        "  if s == 'forged' then return { kind = 'accept' } end\n"
        "  if s == 'code' then return reject(250, 'x') end\n"
        "  if s == 'changed' then local a = accept() a.kind = 'all' return a end\n"
        "  if s == 'missing' then assert(ctx.nothing == nil and ctx.peer.nothing == nil) end\n"
        "  if s == 'all' then local n = 0 for k, v in pairs(ctx) do n = n + 1 end return reject(550, n) end\n"
        "end }");
    g_assert_true(ph_hook_has_deciders("smtp.rcpt"));
    g_assert_false(ph_hook_has_deciders("deliver"));
    assert_asked(&rcpt, "nobody", "0 0");
    assert_asked(&rcpt, "accept", "1 0");
    assert_asked(&rcpt, "reject", "2 554 no 192.0.2.7 4712");
    assert_asked(&rcpt, "short", "2 0 no");
    assert_asked(&rcpt, "temp", "3 0 later  250 yes");
    assert_asked(&rcpt, "discard", "4 0");
    assert_asked(&rcpt, "junk", "5 0 x");
    assert_asked(&rcpt, "redirect", "6 0 bob@example.test");
    assert_asked(&rcpt, "place", "1 0 Lists\\Seen $x");
    assert_asked(&rcpt, "header", "2 550 Grüße100");
    assert_asked(&rcpt, "missing", "0 0");
    assert_asked(&rcpt, "all", "2 550 7");
    static const char *const failing[] = { "write", "text", "forged", "code", "changed" };
    for (size_t i = 0; i < G_N_ELEMENTS(failing); i++)
        assert_asked(&rcpt, failing[i], "3 0");
    PhLuaScriptState state;
    ph_lua_script_state("one", &state);
    g_assert_cmpint(state.errors, ==, (int)G_N_ELEMENTS(failing));
    g_assert_false(state.is_aside);
    tear_down();
}

/* Global before the tenant's before the domain's; who has no opinion passes on. */
static void
test_ask_order(void)
{
    set_up();
    ph_assert_in_job();
    int64_t acme = tenant("acme");
    int64_t domain = 0;
    ph_domain_add_blocking("acme.test", acme, test_deadline(), &domain, NULL);
    const Place late = { PH_SCRIPT_GLOBAL, 0, 0, 1000 };
    const Place of_tenant = { PH_SCRIPT_TENANT, acme, acme, 5 };
    const Place of_domain = { PH_SCRIPT_DOMAIN, acme, domain, 1 };
#define SAYS(who) \
    "return { ['smtp.rcpt'] = function(ctx) if ctx.sender:find('" who "', 1, true) then\n" \
    "  return reject(550, '" who "') end end }"
    install("z-first", &everywhere, SAYS("global"));
    install("late", &late, SAYS("last"));
    install("of-tenant", &of_tenant, SAYS("tenant"));
    install("of-domain", &of_domain, SAYS("domain"));
    g_autofree char *id = g_strdup_printf("%" G_GINT64_FORMAT, acme);
    static const struct {
        const char *sender;
        const char *expected;
    } rows[] = {
        { "last domain tenant global", "2 550 global" },
        { "last domain tenant", "2 550 tenant" },
        { "last domain", "2 550 domain" },
        { "last", "2 550 last" },
        { "none", "0 0" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autofree char *asked = ask_as(&rcpt, rows[i].sender, id, "acme.test");
        g_assert_cmpstr(asked, ==, rows[i].expected);
    }
    /* Another domain, another tenant. */
    g_autofree char *other = ask_as(&rcpt, "domain", id, "other.test");
    g_assert_cmpstr(other, ==, "0 0");
    g_autofree char *another = ask_as(&rcpt, "domain tenant", "0", "acme2.test");
    g_assert_cmpstr(another, ==, "0 0");
    tear_down();
}

/* A call's globals are its own; what is local to the script is kept as long as its state. */
static void
test_ask_globals(void)
{
    set_up();
    install("globals", &everywhere,
        "made_at_load = 'kept'\n"
        "local n = 0\n"
        "local function count() calls = (calls or 0) + 1 return calls end\n"
        "return { ['smtp.rcpt'] = function(ctx)\n"
        "  n = n + 1\n"
        "  made_at_load = made_at_load .. '!'\n"
        "  return reject(550, count() .. made_at_load .. n)\n"
        "end }");
    assert_asked(&rcpt, "x", "2 550 1kept!1");
    assert_asked(&rcpt, "x", "2 550 1kept!2");
    tear_down();
}

static void
test_ask_generations(void)
{
    ph_assert_in_job();
    set_up();
    install("policy", &everywhere,
        "return { ['smtp.rcpt'] = function() return reject(550, 'old') end }");
    assert_asked(&rcpt, "x", "2 550 old");
    install("policy", &everywhere,
        "return { ['smtp.rcpt'] = function() return reject(550, 'new') end }");
    assert_asked(&rcpt, "x", "2 550 new");
    g_autoptr(GError) error = NULL;
    g_autoptr(PhStoredScript) script =
        ph_script_find_blocking("policy", 0, test_deadline(), &error);
    g_assert_cmpint(script->active_version, ==, 2);
    int before = 0;
    g_assert_true(ph_script_previous_blocking(script->id, test_deadline(), &before, &error));
    g_assert_cmpint(before, ==, 1);
    g_assert_true(
        ph_script_activate_blocking(script->id, before, NULL, "test", test_deadline(), &error));
    sync_scripts();
    assert_asked(&rcpt, "x", "2 550 old");
    g_assert_true(
        ph_script_activate_blocking(script->id, 0, NULL, "test", test_deadline(), &error));
    sync_scripts();
    g_assert_false(ph_hook_has_deciders("smtp.rcpt"));
    assert_asked(&rcpt, "x", "0 0");
    g_assert_false(
        ph_script_activate_blocking(script->id, 99, NULL, "test", test_deadline(), &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_NOT_FOUND);
    tear_down();
}

/* -- failing ----------------------------------------------------------------------------------- */

static void
test_fail_policy(void)
{
    ph_assert_in_job();
    set_up();
    install("late", &everywhere,
        "return {\n"
        "  ['smtp.rcpt'] = function(ctx)\n"
        "    if ctx.sender == 'fine' then return reject(550, 'no') end\n"
        "    while true do pcall(function() while true do end end) end\n"
        "  end,\n"
        "  deliver = function() error({}) end,\n"
        "}");
    int64_t begin_us = ph_monotonic_us();
    assert_asked(&rcpt, "x", "3 0");
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 3 * G_USEC_PER_SEC);
    assert_asked(&deliver, "x", "0 0"); /* fails open */
    assert_asked(&rcpt, "fine", "2 550 no");
    g_autoptr(PhStoredScript) script = ph_script_find_blocking("late", 0, test_deadline(), NULL);
    g_assert_nonnull(strstr(script->error_text, "time limit"));
    g_assert_cmpint(script->error_line, >=, 3);
    g_assert_nonnull(strstr(script->error_input, "192.0.2.7"));
    g_assert_null(strstr(script->error_input, "X-Spam"));
    tear_down();
}

static void
test_fail_breaker(void)
{
    set_up();
    set_setting("lua.breaker.errors", "3");
    install("bad", &everywhere,
        "return { ['smtp.rcpt'] = function(ctx) if ctx.sender == 'bad' then error('x') end\n"
        "  return accept() end }");
    PhLuaScriptState state;
    for (int i = 0; i < 3; i++)
        assert_asked(&rcpt, "bad", "3 0");
    ph_lua_script_state("bad", &state);
    g_assert_true(state.is_aside);
    g_assert_cmpint(state.calls, ==, 3);
    assert_asked(&rcpt, "good", "3 0"); /* not asked: the policy for failures */
    ph_lua_script_state("bad", &state);
    g_assert_cmpint(state.calls, ==, 3);
    /* Activated anew, of the same version too. */
    install("bad", &everywhere,
        "return { ['smtp.rcpt'] = function(ctx) if ctx.sender == 'bad' then error('x') end\n"
        "  return accept() end }");
    assert_asked(&rcpt, "good", "1 0");
    tear_down();
}

/* Before the scripts are known, and for one that this node cannot load, nothing is let through. */
static void
test_fail_unknown(void)
{
    ph_assert_in_job();
    set_up();
    install("fine", &everywhere, "return { ['smtp.rcpt'] = function() return accept() end }");
    ph_lua_stop_blocking();
    ph_lua_start(NULL);
    assert_asked(&rcpt, "x", "3 0");
    sync_scripts();
    assert_asked(&rcpt, "x", "1 0");
    g_free(test_database_ask(conninfo,
        "UPDATE script_version SET text = 'return {'; UPDATE script_counter SET counter = counter + 1"));
    ph_lua_stop_blocking();
    ph_lua_start(NULL);
    sync_scripts();
    assert_asked(&rcpt, "x", "3 0");
    PhLuaScriptState state;
    ph_lua_script_state("fine", &state);
    g_assert_nonnull(strstr(state.broken, "line 1"));
    g_free(state.broken);
    tear_down();
}

/* A copy of the last scripts is used when the database is away at start. */
static void
test_fail_cache(void)
{
    ph_assert_in_job();
    set_up();
    g_autofree char *path = g_build_filename(g_get_tmp_dir(), "ph-test-scripts.cache", NULL);
    ph_lua_stop_blocking();
    g_unlink(path);
    ph_lua_start(path);
    install("kept", &everywhere,
        "return { ['smtp.rcpt'] = function() return reject(550, 'kept') end }");
    ph_lua_stop_blocking();
    ph_lua_start(path);
    assert_asked(&rcpt, "x", "2 550 kept");
    ph_lua_stop_blocking();
    g_assert_true(g_file_set_contents(path, "rubbish", 7, NULL));
    ph_lua_start(path);
    assert_asked(&rcpt, "x", "3 0");
    g_unlink(path);
    tear_down();
}

/* -- checks ------------------------------------------------------------------------------------ */

static void
test_check(void)
{
    ph_assert_in_job();
    set_up();
    static const struct {
        const char *text;
        int line; /* 0: good */
        const char *message;
    } rows[] = {
        { "return { ['smtp.rcpt'] = function() end }", 0, NULL },
        { "local x =\n\nreturn {", 3, "unexpected symbol" },
        { "\nerror('at load')", 2, "at load" },
        { "return 1", -1, "no table of hooks" },
        { "return { ['smtp.rcp'] = function() end }", -1, "there is no hook \"smtp.rcp\"" },
        { "return { deliver = 1 }", -1, "\"deliver\" is a number" },
        { "return { 1 }", -1, "names of hooks only" },
        { "while true do end", 1, "time limit" },
        { "local t = {} while true do t[#t+1] = ('x'):rep(100000) .. #t end", -1, "memory limit" },
        { "posthouse.db.query('SELECT 1') return {}", 1, "while a script is loaded" },
        { "return { tests = { a = function()\n assert(false, 'nope') end } }", 2, "test \"a\": " },
        { "return { tests = { a = function(run)\n run('deliver', {}) end } }", 2,
            "takes no \"deliver\"" },
        { "return { ['smtp.rcpt'] = function(c) return reject(550, c.a.b) end, tests = { a = function(run)\n"
          "  local r = run('smtp.rcpt', { a = { b = 'x' } }) assert(r.text == 'x' and r.code == 550)\n"
          "  assert(run('smtp.rcpt', { a = { b = 'y' } }).kind == 'reject') end } }",
            0, NULL },
        { "return function(req, res) res:write(req.path) end", 0, NULL },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        PhLuaReport report;
        ph_lua_check_blocking("s", rows[i].text, 0, ph_monotonic_us() + 3000000, &report);
        if (report.good != (rows[i].line == 0))
            g_error("%s: %s", rows[i].text, report.message);
        if (rows[i].line > 0)
            g_assert_cmpint(report.line, ==, rows[i].line);
        if (rows[i].message != NULL && strstr(report.message, rows[i].message) == NULL)
            g_error("%s: %s", rows[i].text, report.message);
        ph_lua_report_clear(&report);
    }
    PhLuaReport report;
    ph_lua_try_blocking("s",
        "return { deliver = function(c) print('seen', c.sender) return accept { flags = 'a' } end }",
        0, "deliver", "{\"sender\": \"x\", \"peer\": {\"ip\": \"::1\"}}", test_deadline(), &report);
    g_assert_true(report.good);
    g_assert_cmpstr(report.output->str, ==, "seen\tx\n");
    g_assert_nonnull(strstr(report.result, "\"kind\":\"accept\""));
    ph_lua_report_clear(&report);
    ph_lua_try_blocking("s",
        "return function(req, res) res.status = 404 res:json { a = req.query.q } end", 0,
        "http.content", "{\"query\": \"q=a+b%21\"}", test_deadline(), &report);
    g_assert_true(report.good);
    g_assert_nonnull(strstr(report.result, "\"status\":404"));
    g_assert_nonnull(strstr(report.result, "a b!"));
    ph_lua_report_clear(&report);
    ph_lua_try_blocking("s", "return {}", 0, "deliver", "[", test_deadline(), &report);
    g_assert_false(report.good);
    ph_lua_report_clear(&report);
    tear_down();
}

/* -- the database of scripts ------------------------------------------------------------------- */

/* Runs the text as a handler of the tenant; gives its answer's text, or the error. */
static char *
run_in_zone(int64_t zone, const char *body)
{
    ph_assert_in_job();
    g_autofree char *text = g_strdup_printf(
        "return { ['smtp.rcpt'] = function(ctx)\nlocal db = posthouse.db\n%s\nend }", body);
    const Place place =
        zone == PH_SCRIPT_CORE ? everywhere : (Place){ PH_SCRIPT_TENANT, zone, zone, 100 };
    install("db", &place, text);
    g_autofree char *id = g_strdup_printf("%" G_GINT64_FORMAT, MAX(zone, 0));
    g_autofree char *asked = ask_as(&rcpt_with_db, "x", id, "example.test");
    if (!g_str_has_prefix(asked, "3 "))
        return g_strdup(asked + (strlen(asked) > 6 ? 6 : strlen(asked)));
    g_autoptr(PhStoredScript) script = ph_script_find_blocking("db", 0, test_deadline(), NULL);
    return g_strdup(script->error_text);
}

#define assert_db(zone, body, expected) \
    do { \
        g_autofree char *got = run_in_zone(zone, body); \
        bool late = got != NULL && strstr(got, "too long") != NULL; \
        if (got == NULL || strstr(got, expected) == NULL || \
            late != (strcmp(expected, "too long") == 0)) \
            g_error("%s: \"%s\" is not in \"%s\"", body, expected, got); \
    } while (0)

static void
test_db_use(void)
{
    ph_assert_in_job();
    set_up();
    assert_db(PH_SCRIPT_CORE,
        "db.exec('CREATE TABLE IF NOT EXISTS seen (who text PRIMARY KEY, n bigint, f float8, b boolean)')\n"
        "db.exec('DELETE FROM seen')\n"
        "assert(db.exec('INSERT INTO seen VALUES ($1, $2, $3, $4)', \"o'x\", 3, 1.5, true) == 1)\n"
        "local r = db.query('SELECT *, NULL AS none, count(*) OVER () AS c FROM seen WHERE who = $1', \"o'x\")\n"
        "assert(#r == 1 and r[1].who == \"o'x\" and r[1].n == 3 and math.type(r[1].n) == 'integer')\n"
        "assert(r[1].f == 1.5 and r[1].b == true and r[1].none == nil and r[1].c == 1)\n"
        "assert(#db.query('SELECT 1 WHERE false') == 0)\n"
        "assert(db.query([[SELECT '\\x0041'::bytea AS x]])[1].x == '\\0A')\n"
        "assert(db.query('SELECT $1::text AS x', nil)[1].x == nil)\n"
        "return reject(550, 'good')",
        "good");
    assert_db(PH_SCRIPT_CORE,
        "db.exec('DELETE FROM seen')\n"
        "local ok = pcall(db.transaction, function() db.exec(\"INSERT INTO seen (who) VALUES ('a')\") error('no') end)\n"
        "assert(not ok and db.query('SELECT count(*) AS n FROM seen')[1].n == 0)\n"
        "local x = db.transaction(function()\n"
        "  db.exec(\"INSERT INTO seen (who) VALUES ('b')\")\n"
        "  pcall(db.transaction, function() db.exec(\"INSERT INTO seen (who) VALUES ('c')\") error('no') end)\n"
        "  local bad = pcall(db.transaction, function() db.exec('SELECT nothing') end)\n"
        "  assert(not bad)\n"
        "  return db.query('SELECT count(*) AS n FROM seen')[1].n end)\n"
        "return reject(550, 'n=' .. x)",
        "n=1");
    assert_db(PH_SCRIPT_CORE, "db.query('SELECT nonsense')",
        "db:3: database: column \"nonsense\" does not exist");
    assert_db(
        PH_SCRIPT_CORE, "db.query('SELECT generate_series(1, 100000)')", "more than 10000 rows");
    assert_db(PH_SCRIPT_CORE, "db.query([[SELECT repeat('x', 5000000)]])", "4 MiB");
    assert_db(PH_SCRIPT_CORE,
        "db.query('SELECT ' .. ('NULL,'):rep(1500) .. 'NULL FROM generate_series(1, 9000)')",
        "4 MiB");
    assert_db(PH_SCRIPT_CORE, "db.query('SELECT pg_sleep(30)')", "too long");
    assert_db(PH_SCRIPT_CORE, "db.query('SELECT 1; SELECT 2')", "multiple commands");
    assert_db(PH_SCRIPT_CORE, "db.exec('COPY (SELECT 1) TO STDOUT')", "COPY is not offered");
    assert_db(PH_SCRIPT_CORE, "db.query('SELECT $1::text', {})", "a parameter is nil");
    /* And the connections are fine. */
    assert_db(PH_SCRIPT_CORE, "return reject(550, 'n=' .. db.query('SELECT 5 AS n')[1].n)", "n=5");
    tear_down();
}

/* SQL that catches its cancellation is ended all the same, and what it locked is free. */
static void
test_db_stubborn(void)
{
    ph_assert_in_job();
    set_up();
    assert_db(PH_SCRIPT_CORE,
        "db.query([[DO $$ BEGIN\n"
        "  SET LOCAL statement_timeout = 0;\n"
        "  PERFORM pg_advisory_lock(5);\n"
        "  LOOP\n"
        "    BEGIN PERFORM pg_sleep(100); EXCEPTION WHEN query_canceled THEN NULL; END;\n"
        "  END LOOP;\n"
        "END $$]])",
        "too long");
    assert_db(PH_SCRIPT_CORE, "db.query('SELECT pg_advisory_lock(5)') return reject(550, 'free')",
        "free");
    tear_down();
}

/* What tests of a script do to its tables is taken back. */
static void
test_db_tests(void)
{
    ph_assert_in_job();
    set_up();
    assert_db(PH_SCRIPT_CORE,
        "db.exec('CREATE TABLE IF NOT EXISTS t (x int)') db.exec('DELETE FROM t') return reject(550, 'ok')",
        "ok");
    PhLuaReport report;
    ph_lua_check_blocking("t",
        "return { tests = { a = function()\n"
        "  posthouse.db.exec('INSERT INTO t VALUES (1)')\n"
        "  posthouse.db.transaction(function() posthouse.db.exec('INSERT INTO t VALUES (2)') end)\n"
        "  assert(posthouse.db.query('SELECT count(*) AS n FROM t')[1].n == 2) end } }",
        PH_SCRIPT_CORE, test_deadline(), &report);
    if (!report.good)
        g_error("%s", report.message);
    g_assert_nonnull(strstr(report.output->str, "ok 1 - a\n1..1\n"));
    ph_lua_report_clear(&report);
    assert_db(PH_SCRIPT_CORE,
        "return reject(550, 'n=' .. db.query('SELECT count(*) AS n FROM t')[1].n)", "n=0");
    tear_down();
}

/* The walls: nothing of the store, nothing of another zone, whatever the SQL. */
static void
test_db_walls(void)
{
    ph_assert_in_job();
    set_up();
    test_account("alice");
    int64_t one = tenant("one");
    int64_t two = tenant("two");
    assert_db(one,
        "db.exec('CREATE TABLE mine (x text)') db.exec([[INSERT INTO mine VALUES ('secret')]]) return reject(550, 'made')",
        "made");
    g_autofree char *schema = g_strdup_printf("script_t%" G_GINT64_FORMAT, one);
    static const char *const tables[] = { "account", "credential", "operator", "message", "blob",
        "mailbox", "setting", "script", "script_version", "certificate", "console_session",
        "audit_log" };
    for (size_t i = 0; i < G_N_ELEMENTS(tables); i++) {
        g_autofree char *read = g_strdup_printf("db.query('SELECT * FROM public.%s')", tables[i]);
        assert_db(two, read, "permission denied");
        g_autofree char *write = g_strdup_printf("db.exec('DELETE FROM public.%s')", tables[i]);
        assert_db(two, write, "permission denied");
    }
    g_autofree char *other = g_strdup_printf("db.query('SELECT * FROM %s.mine')", schema);
    assert_db(two, other, "permission denied");
    assert_db(PH_SCRIPT_CORE, other, "permission denied");
    static const char *const ways_out[] = {
        "db.exec('RESET ROLE') db.query('SELECT * FROM public.account')",
        "db.exec('RESET SESSION AUTHORIZATION') db.query('SELECT * FROM public.account')",
        "db.exec('SET search_path = public') db.query('SELECT * FROM account')",
        "db.query([[SELECT set_config('role', 'none', false)]]) db.query('SELECT * FROM public.account')",
        "db.exec([[DO $$ BEGIN RESET ROLE; PERFORM * FROM public.account; END $$]])",
        "db.exec([[CREATE FUNCTION f() RETURNS bigint LANGUAGE sql SECURITY DEFINER AS 'SELECT count(*) FROM public.account']]) db.query('SELECT f()')",
        "db.exec('CREATE VIEW v AS SELECT * FROM public.account') db.query('SELECT * FROM v')",
        "db.exec('SET ROLE posthouse')",
        "db.exec('SET SESSION AUTHORIZATION posthouse')",
        "db.query([[SELECT pg_read_file('/etc/passwd')]])",
        "db.exec([[COPY mine TO '/tmp/ph-out']]) ",
        "db.exec([[COPY (SELECT 1) TO PROGRAM 'true']])",
        "db.exec('CREATE ROLE intruder')",
        "db.exec('CREATE TABLE public.mine (x int)')",
        "db.exec('CREATE SCHEMA mine')",
        "db.exec('CREATE EXTENSION dblink')",
        "db.query('SELECT * FROM pg_authid')",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(ways_out); i++) {
        g_autofree char *got = run_in_zone(two, ways_out[i]);
        if (strstr(got, "permission denied") == NULL && strstr(got, "must be superuser") == NULL &&
            strstr(got, "does not exist") == NULL && strstr(got, "must be") == NULL)
            g_error("%s: %s", ways_out[i], got);
    }
    /* What a session left behind is gone at the next call. */
    assert_db(two,
        "db.exec('CREATE TEMP TABLE left_over (x int)') db.query('SELECT pg_advisory_lock(1)') return reject(550, 'ok')",
        "ok");
    assert_db(two, "db.query('SELECT * FROM left_over')", "does not exist");
    g_assert_cmpint(test_database_ask_number(conninfo,
                        "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 1"),
        ==, 0);
    tear_down();
}

static void
test_user_find(void)
{
    set_up();
    test_account("alice");
    assert_db(PH_SCRIPT_CORE,
        "local a = posthouse.user.find('alice@example.test')\n"
        "assert(a.name == 'alice' and a.state == 'active' and posthouse.user.find('nobody@example.test') == nil)\n"
        "assert(posthouse.user.find('nonsense') == nil) return reject(550, a.address)",
        "alice@example.test");
    int64_t other = tenant("other");
    assert_db(
        other, "return reject(550, tostring(posthouse.user.find('alice@example.test')))", "nil");
    tear_down();
}

/* -- pages ------------------------------------------------------------------------------------- */

typedef struct Site {
    char *folder;
    int root_fd;
} Site;

static void
write_page(const Site *site, const char *name, const char *text)
{
    g_autofree char *path = g_build_filename(site->folder, name, NULL);
    g_autofree char *parent = g_path_get_dirname(path);
    g_mkdir_with_parents(parent, 0755);
    g_assert_true(g_file_set_contents(path, text, -1, NULL));
}

static Site *
site_new(void)
{
    Site *site = g_new0(Site, 1);
    site->folder = g_dir_make_tmp("ph-test-site-XXXXXX", NULL);
    site->root_fd = open(site->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return site;
}

static void
remove_tree(const char *path)
{
    GDir *folder = g_dir_open(path, 0, NULL);
    const char *name;
    while (folder != NULL && (name = g_dir_read_name(folder)) != NULL) {
        g_autofree char *inner = g_build_filename(path, name, NULL);
        remove_tree(inner);
    }
    if (folder != NULL)
        g_dir_close(folder);
    g_remove(path);
}

static void
site_free(Site *site)
{
    close(site->root_fd);
    remove_tree(site->folder);
    g_free(site->folder);
    g_free(site);
}

static const PhPageHeader page_headers[] = {
    { "host", "www.example.test" },
    { "cookie", "a=1; b=x%20y; a=2" },
    { "content-type", "application/x-www-form-urlencoded; charset=utf-8" },
    { "accept", "text/html" },
    { "accept", "*/*" },
};

static PhPageRequest
page_request(const Site *site, int64_t limit_ms)
{
    return (PhPageRequest){
        .id = "r1",
        .method = "POST",
        .scheme = "https",
        .host = "www.example.test",
        .path = "/p",
        .query = "q=1+2&q=3&e=&%41=b",
        .headers = page_headers,
        .n_headers = G_N_ELEMENTS(page_headers),
        .peer_address = "192.0.2.1",
        .peer_port = 99,
        .tenant_id = 0,
        .site_id = 1,
        .site_name = "www.example.test",
        .root_fd = site->root_fd,
        .deadline_us = ph_monotonic_us() + limit_ms * 1000,
    };
}

/* "STATUS body" of a page, or "CODE message". */
static char *
get(const Site *site, const char *name, PhPageResponse *response_out)
{
    ph_assert_in_job();
    g_autofree char *path = g_build_filename(site->folder, name, NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    g_autoptr(GError) error = NULL;
    g_autoptr(GBytes) body = g_bytes_new_static("f=%C3%A4&g=2", 12);
    PhPageRequest request = page_request(site, 1500);
    request.body = body;
    PhPageResponse response;
    bool good = ph_page_run_file_blocking(name, fd, &request, &response, &error);
    close(fd);
    if (!good)
        return g_strdup_printf("%s %s", ph_error_name(ph_error_code(error)), error->message);
    gsize length = 0;
    const char *bytes = response.body != NULL ? g_bytes_get_data(response.body, &length) : "";
    char *text = g_strdup_printf("%d %.*s", response.status, (int)length, bytes);
    if (response_out != NULL)
        *response_out = response;
    else
        ph_page_response_clear(&response);
    return text;
}

#define assert_page(site, name, expected) \
    do { \
        g_autofree char *page_text = get(site, name, NULL); \
        g_assert_cmpstr(page_text, ==, expected); \
    } while (0)

#define assert_page_has(site, name, expected) \
    do { \
        g_autofree char *page_text = get(site, name, NULL); \
        if (strstr(page_text, expected) == NULL) \
            g_error("%s: \"%s\" is not in \"%s\"", name, expected, page_text); \
    } while (0)

static void
test_page_request(void)
{
    set_up();
    Site *site = site_new();
    write_page(site, "a.lua",
        "return function(req, res)\n"
        "  assert(req.method == 'POST' and req.path == '/p' and req.scheme == 'https' and req.user == nil)\n"
        "  assert(req.query.q == '1 2' and req.query.e == '' and req.query.A == 'b' and req.query_string:find('%%41'))\n"
        "  assert(req.headers.host == 'www.example.test' and req.headers.accept == 'text/html, */*')\n"
        "  assert(req:header('HOST') == 'www.example.test' and req:header('none') == nil)\n"
        "  assert(req.cookies.a == '1' and req.cookies.b == 'x y')\n"
        "  assert(req.body == 'f=%C3%A4&g=2' and req.form.f == 'ä' and req.form.g == '2' and req.json == nil)\n"
        "  assert(req.peer.ip == '192.0.2.1' and req.peer.port == 99 and req.site == 'www.example.test')\n"
        "  assert(req.nothing == nil and not pcall(function() req.path = 'x' end))\n"
        "  return 'fine'\n"
        "end");
    assert_page(site, "a.lua", "200 fine");
    assert_page(site, "a.lua", "200 fine");
    site_free(site);
    tear_down();
}

static const char *
header_of(const PhPageResponse *response, const char *name)
{
    for (guint i = 0; i < response->headers->len; i += 2)
        if (g_ascii_strcasecmp(response->headers->pdata[i], name) == 0)
            return response->headers->pdata[i + 1];
    return NULL;
}

static void
test_page_response(void)
{
    set_up();
    set_setting("lua.page.output_bytes", "200000");
    sync_scripts();
    Site *site = site_new();
    PhPageResponse response;
    write_page(site, "a.lua",
        "return function(req, res)\n"
        "  res.status = 201\n"
        "  res:header('X-One', 'a'):header('x-one', 'b')\n"
        "  res:cookie('s', 'a;b', { max_age = 60, same_site = 'Strict' })\n"
        "  res:write('a', 1, 'b')\n"
        "end");
    g_autofree char *got = get(site, "a.lua", &response);
    g_assert_cmpstr(got, ==, "201 a1b");
    g_assert_cmpstr(header_of(&response, "X-One"), ==, "b");
    g_assert_cmpstr(header_of(&response, "Content-Type"), ==, "text/html; charset=utf-8");
    g_assert_cmpstr(header_of(&response, "Set-Cookie"), ==,
        "s=a%3Bb; Path=/; Max-Age=60; SameSite=Strict; Secure; HttpOnly");
    ph_page_response_clear(&response);
    write_page(site, "b.lua", "return function(req, res) res:redirect('/x?y=1') end");
    g_autofree char *moved = get(site, "b.lua", &response);
    g_assert_cmpstr(moved, ==, "302 ");
    g_assert_cmpstr(header_of(&response, "Location"), ==, "/x?y=1");
    ph_page_response_clear(&response);
    write_page(site, "c.lua", "return function(req, res) res:sendfile('/img/a.png') end");
    g_autofree char *file = get(site, "c.lua", &response);
    g_assert_cmpstr(file, ==, "200 ");
    g_assert_cmpstr(response.send_file, ==, "img/a.png");
    ph_page_response_clear(&response);
    static const struct {
        const char *body;
        const char *error;
    } refused[] = {
        { "res:header('X', 'a\\r\\nY: b')", "control character" },
        { "res:header('X\\r\\n', 'a')", "no name of a header" },
        { "res:header('Content-Length', '1')", "the server itself says" },
        { "res:header('transfer-encoding', 'chunked')", "the server itself says" },
        { "res:redirect('/a\\nb')", "without blanks" },
        { "res.status = 99", "from 200 to 599" },
        { "res.body = 'x'", "only \"status\"" },
        { "res:sendfile('../secret')", "may be sent" },
        { "res:sendfile('a/../../secret')", "may be sent" },
        { "res:sendfile('.htpasswd')", "may be sent" },
        { "res:sendfile('page.lua')", "may be sent" },
        { "res:sendfile('a\\0b')", "without NUL" },
        { "res:cookie('a b', 'x')", "a name of letters" },
        { "res:cookie('a', 'x', { path = '/;x' })", "holds what it may not" },
        { "for i = 1, 200 do res:header('Vary', tostring(i)) end", "too large" },
        { "while true do res:write(('x'):rep(100000)) end", "writes more than" },
        { "while true do end", "time limit" },
        { "error('broken')", "d.lua:1: broken" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(refused); i++) {
        g_autofree char *text =
            g_strdup_printf("return function(req, res) %s end", refused[i].body);
        write_page(site, "d.lua", text);
        g_usleep(2000);
        assert_page_has(site, "d.lua", refused[i].error);
    }
    write_page(site, "e.lua",
        "return function(req, res) while true do res:write(('x'):rep(100000)) end end");
    assert_page_has(site, "e.lua", "too-large ");
    write_page(site, "f.lua", "return function(req, res) while true do end end");
    assert_page_has(site, "f.lua", "temporary ");
    write_page(site, "g.lua", "x x");
    assert_page_has(site, "g.lua", "internal g.lua:1: ");
    write_page(site, "h.lua", "return {}");
    assert_page_has(site, "h.lua", "h.lua: gives no page");
    site_free(site);
    tear_down();
}

static void
test_page_template(void)
{
    set_up();
    Site *site = site_new();
    write_page(site, "a.lp",
        "<p><%= req.query.q .. '<&>\"' .. \"'\" %></p>\n"
        "<%-- nothing\n here --%><% for i = 1, 2 do %>[<%= i %>]<% end %><%%= x %>\n"
        "<%= raw('<b>') %><%= nil %>\\n\"\n<% include('part.lp', { name = '<x>' }) %>");
    write_page(site, "part.lp", "hello <%= data.name %>");
    assert_page(site, "a.lp",
        "200 <p>1 2&lt;&amp;&gt;&quot;&#39;</p>\n[1][2]<%= x %>\n<b>\\n\"\nhello &lt;x&gt;");
    write_page(site, "line.lp", "a\n<%-- b\n --%>\n\"\r\n<%= nothing.x %>");
    assert_page_has(site, "line.lp", "line.lp:5: ");
    write_page(site, "open.lp", "a\n\n<% x");
    assert_page_has(site, "open.lp", "open.lp:3: a tag \"<%\" has no end");
    write_page(site, "syntax.lp", "a\n<% if %>");
    assert_page_has(site, "syntax.lp", "syntax.lp:2: ");
    write_page(site, "deep.lp", "<% include('deep.lp') %>");
    assert_page_has(site, "deep.lp", "more than 16 deep");
    write_page(site, "up.lp", "<% include('../x.lp') %>");
    assert_page_has(site, "up.lp", "up.lp:1: ");
    write_page(site, "other.lp", "<% include('/etc/passwd') %>");
    assert_page_has(site, "other.lp", "is no template");
    g_autofree char *outside = g_strconcat(site->folder, ".lp", NULL);
    g_autofree char *inside = g_build_filename(site->folder, "link.lp", NULL);
    g_assert_true(g_file_set_contents(outside, "secret", -1, NULL));
    g_assert_cmpint(symlink(outside, inside), ==, 0);
    write_page(site, "link2.lp", "<% include('link.lp') %>");
    g_autofree char *linked = get(site, "link2.lp", NULL);
    g_assert_null(strstr(linked, "200 "));
    g_assert_null(strstr(linked, "secret"));
    g_unlink(outside);
    /* A changed file is a new page. */
    write_page(site, "part.lp", "good bye, <%= data.name %>");
    assert_page_has(site, "a.lp", "good bye, &lt;x&gt;");
    write_page(
        site, "r.lua", "return function(req, res) res:render('part.lp', { name = 'n' }) end");
    assert_page(site, "r.lua", "200 good bye, n");
    site_free(site);
    tear_down();
}

/* A stored script answers for its own sites only; a template can be one. */
static void
test_page_script(void)
{
    ph_assert_in_job();
    set_up();
    Site *site = site_new();
    int64_t acme = tenant("acme");
    const Place of_acme = { PH_SCRIPT_TENANT, acme, acme, 1 };
    install("app", &of_acme,
        "return { ['http.content'] = function(req, res) return 'app of ' .. req.site end }");
    install("hello.lp", &everywhere, "hi <%= req.path %>");
    install("mail", &everywhere, "return { ['smtp.rcpt'] = function() end }");
    static const struct {
        const char *script;
        bool is_acme;
        const char *expected;
    } rows[] = {
        { "app", true, "app of www.example.test" },
        { "app", false, "not-found" },
        { "hello.lp", false, "hi /p" },
        { "mail", true, "not-found" },
        { "missing", true, "not-found" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(rows); i++) {
        g_autoptr(GError) error = NULL;
        PhPageRequest request = page_request(site, 1000);
        PhPageResponse response;
        request.tenant_id = rows[i].is_acme ? acme : 0;
        if (ph_page_run_script_blocking(rows[i].script, &request, &response, &error)) {
            gsize length;
            const char *bytes = g_bytes_get_data(response.body, &length);
            g_assert_cmpmem(bytes, (int)length, rows[i].expected, (int)strlen(rows[i].expected));
            ph_page_response_clear(&response);
        } else {
            g_assert_cmpstr(ph_error_name(ph_error_code(error)), ==, rows[i].expected);
        }
    }
    site_free(site);
    tear_down();
}

/* -- how long ---------------------------------------------------------------------------------- */

/* Not a test of the machine: it only says, with -m perf. */
static void
test_perf(void)
{
    ph_assert_in_job();
    if (!g_test_perf()) {
        g_test_skip("only with -m perf");
        return;
    }
    set_up();
    install("fast", &everywhere,
        "return { ['smtp.rcpt'] = function(ctx) if ctx.sender == 'spam' then return reject(550, 'x') end end }");
    Site *site = site_new();
    write_page(site, "hello.lua", "return function(req, res) res:write('hello world') end");
    enum { N = 200000 };
    int64_t begin_us = ph_monotonic_us();
    const PhHookField field = { "sender", "x@example.org", 13 };
    for (int i = 0; i < N; i++) {
        PhDecision decision;
        ph_hook_call(&rcpt, &field, 1, &decision);
        ph_decision_clear(&decision);
    }
    g_test_minimized_result((double)(ph_monotonic_us() - begin_us) / N, "us a hook call: %.3f",
        (double)(ph_monotonic_us() - begin_us) / N);
    g_autofree char *path = g_build_filename(site->folder, "hello.lua", NULL);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    begin_us = ph_monotonic_us();
    for (int i = 0; i < N; i++) {
        PhPageRequest request = page_request(site, 10000);
        PhPageResponse response;
        g_assert_true(ph_page_run_file_blocking("hello.lua", fd, &request, &response, NULL));
        ph_page_response_clear(&response);
    }
    g_test_minimized_result((double)(ph_monotonic_us() - begin_us) / N, "us a page: %.3f",
        (double)(ph_monotonic_us() - begin_us) / N);
    close(fd);
    site_free(site);
    tear_down();
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ph_settings_declare(ph_lua_settings);
    test_database_start();
    g_test_add_func("/lua-engine/ask/answers", test_ask_answers);
    g_test_add_func("/lua-engine/ask/order", test_ask_order);
    g_test_add_func("/lua-engine/ask/globals", test_ask_globals);
    g_test_add_func("/lua-engine/ask/generations", test_ask_generations);
    g_test_add_func("/lua-engine/fail/policy", test_fail_policy);
    g_test_add_func("/lua-engine/fail/breaker", test_fail_breaker);
    g_test_add_func("/lua-engine/fail/unknown", test_fail_unknown);
    g_test_add_func("/lua-engine/fail/cache", test_fail_cache);
    g_test_add_func("/lua-engine/check", test_check);
    g_test_add_func("/lua-engine/db/use", test_db_use);
    g_test_add_func("/lua-engine/db/tests", test_db_tests);
    g_test_add_func("/lua-engine/db/stubborn", test_db_stubborn);
    g_test_add_func("/lua-engine/db/walls", test_db_walls);
    g_test_add_func("/lua-engine/user/find", test_user_find);
    g_test_add_func("/lua-engine/page/request", test_page_request);
    g_test_add_func("/lua-engine/page/response", test_page_response);
    g_test_add_func("/lua-engine/page/template", test_page_template);
    g_test_add_func("/lua-engine/page/script", test_page_script);
    g_test_add_func("/lua-engine/perf", test_perf);
    int status = g_test_run();
    test_database_stop();
    return status;
}
