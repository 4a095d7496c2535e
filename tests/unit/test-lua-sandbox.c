/* test-lua-sandbox.c - what a script finds, what it does not, and that it always ends */
#include "lua/engine.h"
#include "lua/sandbox.h"
#include "lua/state.h"
#include "runtime/settings.h"

#include <string.h>

/* -- running text ------------------------------------------------------------------------------ */

static PhLuaBudget budget = { .limit = 8 * 1024 * 1024 };

typedef struct Text {
    const char *text;
    int results; /* on the stack at the end */
} Text;

static int
run_text(lua_State *lua)
{
    Text *text = lua_touserdata(lua, 1);
    ph_lua_push_chunk(lua, "test", text->text, strlen(text->text));
    lua_call(lua, 0, 0);
    return 0;
}

static bool
run_in(PhLuaState *state, const char *text, int64_t limit_ms, int64_t cpu_ms, GError **error)
{
    ph_assert_in_job();
    Text data = { .text = text };
    g_autoptr(GString) printed = g_string_new(NULL);
    PhLuaCall call = {
        .script = "test",
        .tenant_id = 7,
        .deadline_us = ph_monotonic_us() + limit_ms * 1000,
        .cpu_us = cpu_ms * 1000,
        .printed = printed,
    };
    return ph_lua_state_run(state, &call, run_text, &data, error);
}

static PhLuaState *
new_state(void)
{
    g_autoptr(GError) error = NULL;
    PhLuaState *state = ph_lua_state_new(&budget, &error);
    g_assert_no_error(error);
    return state;
}

typedef struct Case {
    const char *name;
    const char *text;
    const char *error; /* a part of it; null: it runs to its end */
} Case;

static void
check_case(const void *data)
{
    const Case *row = data;
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = new_state();
    bool good = run_in(state, row->text, 60000, 0, &error);
    if (row->error == NULL) {
        g_assert_no_error(error);
        g_assert_true(good);
        return;
    }
    g_assert_false(good);
    if (strstr(error->message, row->error) == NULL)
        g_error("%s: \"%s\" is not in \"%s\"", row->name, row->error, error->message);
}

/* -- what is there and what is not ------------------------------------------------------------- */

static const Case cases[] = {
    { "absent",
        "for _, name in ipairs { 'io', 'debug', 'package', 'dofile', 'loadfile', 'warn', '_G' } do\n"
        "  assert(_ENV[name] == nil, name)\n"
        "end\n"
        "for _, name in ipairs { 'execute', 'exit', 'getenv', 'remove', 'rename', 'setlocale',\n"
        "    'tmpname', 'clock' } do assert(os[name] == nil, name) end\n"
        "assert(string.dump == nil)",
        NULL },
    { "present",
        "assert(os.time() > 0 and type(os.date()) == 'string')\n"
        "assert(math.max(1, 2) == 2 and utf8.len('aé') == 2)\n"
        "assert(collectgarbage('count') > 0)\n"
        "assert(select('#', 1, 2) == 2 and type(posthouse.time.now()) == 'number')\n"
        "assert(require('posthouse.json') == posthouse.json)",
        NULL },
    { "collectgarbage", "collectgarbage('stop')", "count" },
    { "require", "require('socket')", "there is no module \"socket\"" },
    { "bytecode", "assert(load('\\27Lua', 'x', 'b'))", "only text is loaded" },
    { "bytecode-as-text",
        "local f, e = load('\\27Lua') assert(not f and e:find('attempt to load'))", NULL },
    { "load", "local f = load('x = 1 return x') assert(f() == 1 and x == nil)", NULL },
    { "load-env", "local e = {} assert(load('y = 2', 'n', 't', e))() assert(e.y == 2 and y == nil)",
        NULL },
    { "load-large", "load(('x = 1 '):rep(20000))", "64 KiB" },
    { "load-sees-libraries", "assert(load('return string.upper(\"a\")')() == 'A')", NULL },
    { "string-metatable", "getmetatable('').__index = {}", "attempt to index a boolean value" },
    { "string-metatable-set", "setmetatable('', {})", "table expected" },
    { "library-write", "string.upper = nil", "\"string\" is read-only" },
    { "library-rawset", "rawset(string, 'upper', nil)", "table expected" },
    { "library-insert", "table.insert(table, 1)", "table expected" },
    { "module-write", "posthouse.json.decode = nil", "read-only" },
    { "posthouse-write", "posthouse.x = 1", "read-only" },
    { "library-pairs",
        "local n = 0\n"
        "for k, v in pairs(string) do n = n + 1 assert(type(v) == 'function') end\n"
        "assert(n > 10)\n"
        "local f, s = pairs(string) assert(type(s) == 'userdata')",
        NULL },
    { "library-metatable", "assert(getmetatable(string) == false)", NULL },
    { "globals-metatable", "assert(getmetatable(_ENV) == false) setmetatable(_ENV, {})",
        "protected metatable" },
    { "globals-own", "string = nil assert(string ~= nil)", NULL },
    { "gc", "setmetatable({}, { __gc = function() end })", "\"__gc\" is not offered" },
    { "gc-later",
        "local m = {} local t = setmetatable({}, m)\n"
        "m.__gc = function() error('ran') end t = nil\n"
        "for i = 1, 100000 do local x = {} end",
        NULL },
    { "mode", "setmetatable({}, { __mode = 'k' })", "\"__mode\" is not offered" },
    { "xpcall",
        "local ok, e = xpcall(error, function(m) return 'seen ' .. m end, 'x')\n"
        "assert(not ok and e == 'seen x', e)\n"
        "local ok, a, b = xpcall(function(...) return ... end, print, 1, 2)\n"
        "assert(ok and a == 1 and b == 2)",
        NULL },
    { "xpcall-handler-fails",
        "local ok, e = xpcall(error, function() error('again', 0) end) assert(not ok and e == 'again')",
        NULL },
    { "tostring",
        "assert(tostring({}) == 'table' and tostring(print) == 'function')\n"
        "assert(string.format('%s', {}) == 'table' and tostring(1.5) == '1.5')\n"
        "assert(tostring(setmetatable({}, { __tostring = function() return 'me' end })) == 'me')",
        NULL },
    { "format-address", "string.format('%p', {})", "\"%p\" is not offered" },
    { "format", "assert(('%5.1f|%-4s|%q|%%p'):format(1.25, 'a', 'x') == '  1.2|a   |\"x\"|%p')",
        NULL },
    { "rep-huge", "string.rep('x', 1 << 40)", "too large" },
    { "rep-nothing", "assert(string.rep('', 1 << 60) == '' and ('ab'):rep(3, ',') == 'ab,ab,ab')",
        NULL },
    { "answer-forged", "assert(getmetatable(accept()) == false)", NULL },
    { "db-while-loading", "posthouse.log.info('x')", NULL },
    { "no-context", "local c = accept { mailbox = 'x', other = 1 }", "only \"mailbox\"" },
    { "coroutine",
        "local co = coroutine.wrap(function(a) local b = coroutine.yield(a + 1) return b * 2 end)\n"
        "assert(co(1) == 2 and co(5) == 10)\n"
        "assert(not pcall(co))\n"
        "local c = coroutine.create(function() error('x') end)\n"
        "local ok, e = coroutine.resume(c) assert(not ok and e:find('x'))\n"
        "assert(coroutine.status(c) == 'dead' and coroutine.close(c) == false or true)\n"
        "local closed = false\n"
        "local d = coroutine.create(function()\n"
        "  local x <close> = setmetatable({}, { __close = function() closed = true end })\n"
        "  coroutine.yield() end)\n"
        "coroutine.resume(d) assert(coroutine.close(d) and closed)\n"
        "assert(coroutine.isyieldable() == false)",
        NULL },
    { "yield-outside", "coroutine.yield()", "outside a coroutine" },
    { "close-chain",
        "local function deep(n, f)\n"
        "  if n == 0 then return f() end\n"
        "  return (string.gsub('x', 'x', function() deep(n - 1, f) return '' end))\n"
        "end\n"
        "local last\n"
        "for i = 1, 300 do\n"
        "  local before = last\n"
        "  last = coroutine.create(function()\n"
        "    local c <close> = setmetatable({}, { __close = function()\n"
        "      if before then deep(80, function() assert(coroutine.close(before)) end) end\n"
        "    end })\n"
        "    coroutine.yield()\n"
        "  end)\n"
        "  coroutine.resume(last)\n"
        "end\n"
        "assert(coroutine.close(last))",
        "C stack overflow" },
    { "c-stack",
        "local function f() return pcall(string.gsub, 'a', 'a', f) end\n"
        "f()",
        NULL },
    { "nested-parens", "load('return ' .. ('('):rep(30000) .. '1')", NULL },
};

/* -- the string library as Lua's own ----------------------------------------------------------- */

static const Case string_cases[] = {
    { "find",
        "assert(('hello'):find('l') == 3 and ('hello'):find('xyz') == nil)\n"
        "local a, b = ('hello world'):find('o w') assert(a == 5 and b == 7)\n"
        "assert(('a.b'):find('.', 1, true) == 2 and ('a.b'):find('%.') == 2)\n"
        "assert(('abc'):find('b', -1) == nil and ('abc'):find('', 10) == nil)\n"
        "assert(('abc'):find('', 4) == 4 and ('a\\0b'):find('\\0') == 2)\n"
        "local s, e, c = ('key=value'):find('(%w+)=') assert(s == 1 and e == 4 and c == 'key')",
        NULL },
    { "match",
        "assert(('key = value'):match('^(%w+)%s*=%s*(%w+)$') == 'key')\n"
        "assert(('2026-11-30'):match('(%d+)-(%d+)-(%d+)') == '2026')\n"
        "assert(('abc'):match('()b()') == 2 and ('x'):match('y') == nil)\n"
        "assert(('[[x]]'):match('%[%[(.-)%]%]') == 'x')\n"
        "assert(('f(a(b)c)d'):match('%b()') == '(a(b)c)')\n"
        "assert(('THE (quick) fox'):find('%f[%a]%a+%f[%A]') == 1)\n"
        "assert(('\"it\\'s\"'):match('([\"\\'])(.-)%1') == '\"')\n"
        "assert(('aaa'):match('^a-$') == 'aaa' and ('aab'):match('a*b') == 'aab')\n"
        "assert(('ab'):match('^a?b') == 'ab' and ('b'):match('^a?b') == 'b')\n"
        "assert((']'):match('[]]') == ']' and ('a'):match('[^]]') == 'a')\n"
        "assert(('-'):match('[a-]') == '-' and ('m'):match('[a-z]') == 'm')\n"
        "assert(('_x9'):match('[%w_]+') == '_x9' and ('é'):match('%a') == nil)\n"
        "assert(('aXb'):match('%u') == 'X' and ('$5'):match('%$%d') == '$5')",
        NULL },
    { "gmatch",
        "local t = {} for w in ('one two three'):gmatch('%a+') do t[#t + 1] = w end\n"
        "assert(#t == 3 and t[3] == 'three')\n"
        "local n = 0 for k, v in ('a=1, b=2'):gmatch('(%w+)=(%w+)') do n = n + tonumber(v) end\n"
        "assert(n == 3)\n"
        "n = 0 for _ in ('abc'):gmatch('') do n = n + 1 end assert(n == 4)\n"
        "n = 0 for _ in ('abc'):gmatch('x*') do n = n + 1 end assert(n == 4)\n"
        "assert(('^a'):gmatch('^a')() == '^a')",
        NULL },
    { "gsub",
        "assert(('hello'):gsub('l', 'L') == 'heLLo')\n"
        "local s, n = ('hello'):gsub('l', 'L', 1) assert(s == 'heLlo' and n == 1)\n"
        "assert(('abc'):gsub('%w', '%0%0') == 'aabbcc' and ('abc'):gsub('', '-') == '-a-b-c-')\n"
        "assert(('hello world'):gsub('(%w+) (%w+)', '%2 %1') == 'world hello')\n"
        "assert(('$name'):gsub('%$(%w+)', { name = 'x' }) == 'x')\n"
        "assert(('abc'):gsub('b', function() return false end) == 'abc')\n"
        "assert(('abc'):gsub('.', function(c) return c:upper() end) == 'ABC')\n"
        "assert(('  x '):gsub('^%s+', '') == 'x ' and ('100%'):gsub('%%', '%%%%') == '100%%')\n"
        "assert(('abc'):gsub('x*', '-') == '-a-b-c-')",
        NULL },
    { "gsub-bad", "('x'):gsub('x', '%2')", "invalid capture index %2" },
    { "gsub-bad-value", "('x'):gsub('x', function() return {} end)", "invalid replacement value" },
    { "malformed-set", "('x'):find('[a')", "missing ']'" },
    { "malformed-end", "('x'):find('x%')", "ends with '%'" },
    { "malformed-balance", "('x'):find('%b(')", "missing arguments to '%b'" },
    { "malformed-frontier", "('x'):find('%f')", "missing '['" },
    { "malformed-capture", "('x'):find('(x')", "unfinished capture" },
    { "malformed-close", "('x'):match('x)')", "invalid pattern capture" },
    { "malformed-reference", "('x'):find('%1')", "invalid capture index %1" },
    { "reference-within", "('x'):find('(%1)')", "invalid capture index %1" },
    { "too-long", "('x'):find(('x'):rep(300) .. '.')", "pattern too long" },
    { "many-captures", "('x'):find(('()'):rep(33))", "too many captures" },
    { "budget", "('a'):rep(3000):find('.-.-.-.-b')", "takes too long" },
    { "budget-captures", "(('a'):rep(40)):match('(a*)*(a*)*(a*)*(a*)*(a*)*b')", NULL },
    { "plain-long", "assert(not (('a'):rep(1000000)):find(('a'):rep(500000) .. 'b', 1, true))",
        NULL },
    { "methods",
        "assert(('x'):upper() == 'X' and #('ab'):rep(10) == 20 and ('abc'):sub(-2) == 'bc')",
        NULL },
};

static const Case table_cases[] = {
    { "insert",
        "local t = {1, 3} table.insert(t, 2, 2) table.insert(t, 4) assert(table.concat(t, ',') == '1,2,3,4')",
        NULL },
    { "insert-outside", "table.insert({}, 5, 1)", "position out of bounds" },
    { "remove",
        "local t = {1, 2, 3} assert(table.remove(t, 1) == 1 and #t == 2 and table.remove(t) == 3)\n"
        "assert(table.remove({}) == nil)",
        NULL },
    { "move",
        "local t = table.move({1, 2, 3}, 1, 3, 2) assert(table.concat(t, ',') == '1,1,2,3')\n"
        "local u = table.move({1, 2}, 1, 2, 3, {}) assert(u[3] == 1 and u[4] == 2)",
        NULL },
    { "sort",
        "local t = {} for i = 1, 500 do t[i] = (i * 7919) % 1009 end\n"
        "table.sort(t) for i = 2, #t do assert(t[i - 1] <= t[i]) end\n"
        "table.sort(t, function(a, b) return a > b end) for i = 2, #t do assert(t[i - 1] >= t[i]) end\n"
        "local w = { 'pear', 'apple', 'fig' } table.sort(w) assert(w[1] == 'apple' and w[3] == 'pear')\n"
        "table.sort({}) table.sort({ 1 })",
        NULL },
    { "sort-mixed", "table.sort({ 1, 'x' })", "attempt to compare" },
    { "pack",
        "local p = table.pack(1, nil, 3) assert(p.n == 3 and select('#', table.unpack(p, 1, 3)) == 3)",
        NULL },
    { "concat-hole", "table.concat({ 1, {}, 3 })", "invalid value (at index 2)" },
    { "length-ignored",
        "local t = setmetatable({}, { __len = function() return 1 << 53 end })\n"
        "table.insert(t, 'x') assert(rawlen(t) == 1)",
        NULL },
};

static const Case json_cases[] = {
    { "round-trip",
        "local j = posthouse.json\n"
        "local t = j.decode('{\"a\":[1,2.5,\"x\",true,null],\"b\":{},\"c\":[]}')\n"
        "assert(t.a[1] == 1 and math.type(t.a[1]) == 'integer' and t.a[2] == 2.5 and t.a[5] == j.null)\n"
        "assert(j.encode(t.c) == '[]' and j.encode(t.b) == '{}' and j.encode(j.array {}) == '[]')\n"
        "assert(j.encode { 1, 'a', false } == '[1,\"a\",false]' and j.encode(j.null) == 'null')\n"
        "assert(j.encode { k = 'v' } == '{\"k\":\"v\"}' and j.encode(nil) == 'null')\n"
        "assert(j.decode(j.encode('ä\\n\"\\\\')) == 'ä\\n\"\\\\')\n"
        "assert(j.decode('\"\\\\u00e4\\\\ud83d\\\\ude00\"') == 'ä😀')\n"
        "assert(j.encode('</script>'):find('<') == nil)\n"
        "assert(j.decode(' [ 1 , 2 ] ')[2] == 2 and j.decode('-0.5e2') == -50)\n"
        "assert(j.decode('12345678901234567890') > 1e19)",
        NULL },
    { "deep", "posthouse.json.decode(('['):rep(100000))", "nested too deeply" },
    { "deep-encode", "local t = {} t[1] = t posthouse.json.encode(t)", "nested so deeply" },
    { "trailing", "posthouse.json.decode('1 2')", "something follows" },
    { "half", "posthouse.json.decode('\"\\\\ud800\"')", "half a character" },
    { "control", "posthouse.json.decode('\"a\\nb\"')", "control character" },
    { "number", "posthouse.json.decode('01')", "something follows" },
    { "utf8", "posthouse.json.decode('\"\\xff\"')", "no UTF-8" },
    { "utf8-encode", "posthouse.json.encode('\\xff')", "no UTF-8" },
    { "function", "posthouse.json.encode({ print })", "cannot be JSON" },
    { "infinite", "posthouse.json.encode(1/0)", "without end" },
    { "time",
        "assert(posthouse.time.format(0) == '1970-01-01T00:00:00Z')\n"
        "assert(posthouse.time.parse('2026-11-30T15:00:00Z') == 1796050800)\n"
        "assert(posthouse.time.parse('2026-11-30T15:00:00+01:00') == 1796047200)\n"
        "assert(posthouse.time.parse('yesterday') == nil)",
        NULL },
    { "time-far", "posthouse.time.format(1e300)", "years 1 to 9999" },
};

/* -- ends -------------------------------------------------------------------------------------- */

/* None of these ends by itself. */
static const Case endless[] = {
    { "loop", "while true do end", NULL },
    { "empty-goto", "::a:: goto a", NULL },
    { "pcall", "while true do pcall(function() while true do end end) end", NULL },
    { "pcall-error", "while true do pcall(error) end", NULL },
    { "pcall-recursive", "local function f() while true do pcall(f) end end f()", NULL },
    { "xpcall", "xpcall(error, function() while true do end end)", NULL },
    { "xpcall-loop",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        NULL },
    { "coroutine", "coroutine.wrap(function() while true do end end)()", NULL },
    { "coroutine-pcall",
        "while true do pcall(coroutine.wrap(function() while true do end end)) end", NULL },
    { "coroutine-resume",
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
        NULL },
    { "coroutine-nested",
        "local function f(n) coroutine.wrap(function() if n > 0 then f(n - 1) else while true do end end end)() end f(20)",
        NULL },
    { "coroutine-kept",
        "co = coroutine.wrap(function() while true do coroutine.yield() end end) while true do co() end",
        NULL },
    { "close",
        "local co = coroutine.create(function()\n"
        "  local x <close> = setmetatable({}, { __close = function() while true do end end })\n"
        "  coroutine.yield() end)\n"
        "coroutine.resume(co) coroutine.close(co)",
        NULL },
    { "close-error",
        "while true do local x <close> = setmetatable({}, { __close = function() while true do end end })\n"
        "error('x') end",
        NULL },
    { "sort", "while true do table.sort({ 3, 1, 2 }, function() while true do end end) end", NULL },
    { "sort-border",
        "local t = {} for i = 0, 30 do t[1 << i] = 0 end\n"
        "while true do pcall(table.sort, t, rawequal) end",
        NULL },
    { "move", "table.move({}, 1, math.maxinteger - 1, 2)", NULL },
    { "move-pcall", "while true do pcall(table.move, {}, 1, math.maxinteger - 1, 2) end", NULL },
    { "insert-border",
        "local t = {} for i = 0, 61 do t[1 << i] = 0 end while true do table.insert(t, 1, 'x') end",
        NULL },
    { "gsub-function", "('x'):gsub('x', function() while true do end end)", NULL },
    { "gsub-pattern", "while true do pcall(string.find, ('a'):rep(3000), '.-.-.-.-b') end", NULL },
    { "index",
        "local t = setmetatable({}, { __index = function() while true do end end }) return t.x",
        NULL },
    { "index-recursive",
        "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end })\n"
        "while true do pcall(function() return t[1] end) end",
        NULL },
    { "tostring", "tostring(setmetatable({}, { __tostring = function() while true do end end }))",
        NULL },
    { "concat",
        "local x = setmetatable({}, { __concat = function() while true do end end }) return x .. x",
        NULL },
    { "load", "while true do load('x = 1') end", NULL },
    { "load-runs", "load('while true do end')()", NULL },
    { "iterator", "for _ in function() return 1 end do end", NULL },
    { "pairs",
        "for _ in pairs(setmetatable({}, { __pairs = function() return function() return 1 end end })) do end",
        NULL },
    { "string-growth", "while true do pcall(string.rep, 'x', 7 * 1024 * 1024) end", NULL },
    { "table-growth",
        "while true do pcall(function() local t = {} while true do t[#t + 1] = {} end end) end",
        NULL },
    { "recursion",
        "while true do pcall(function() local function f() return f() + 1 end f() end) end", NULL },
    { "json",
        "local t = {} for i = 1, 1000 do t[i] = i end while true do posthouse.json.encode(t) end",
        NULL },
};

/* Each within the limit and a little; with pcall around or not, it ends as a failure. */
static void
check_endless(const void *data)
{
    const Case *row = data;
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = new_state();
    int64_t begin_us = ph_monotonic_us();
    g_assert_false(run_in(state, row->text, 100, 0, &error));
    int64_t took_ms = (ph_monotonic_us() - begin_us) / 1000;
    if (took_ms > 2000)
        g_error("%s: took %d ms", row->name, (int)took_ms);
    g_assert_nonnull(error);
    if (state->is_spoiled)
        g_assert_true(
            ph_error_code(error) == PH_ERROR_TEMPORARY || ph_error_code(error) == PH_ERROR_LIMIT);
}

static void
test_watch_cpu(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = new_state();
    int64_t begin_us = ph_monotonic_us();
    g_assert_false(run_in(state, "while true do end", 20000, 50, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    g_assert_cmpint(ph_monotonic_us() - begin_us, <, 5 * G_USEC_PER_SEC);
}

/* The line is that of the loop. */
static void
test_watch_line(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = new_state();
    g_assert_false(run_in(state, "local x = 1\n\nwhile true do\n  x = x + 1\nend", 50, 0, &error));
    g_assert_nonnull(strstr(error->message, "test:"));
    g_assert_nonnull(strstr(error->message, "the time limit is over"));
}

static void
nothing(int64_t n, const char *text)
{
    g_autoptr(PhLuaState) state = new_state();
    for (int64_t i = 0; i < n; i++) {
        g_autoptr(GError) error = NULL;
        run_in(state, text, 1000, 0, &error);
        g_assert_no_error(error);
    }
}

/* Calls that end in time are not touched, however the looks fall. */
static void
test_watch_short(void)
{
    nothing(2000, "local n = 0 for i = 1, 100 do n = n + i end assert(n == 5050)");
}

static void *
short_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    nothing(500, "local t = {} for i = 1, 50 do t[i] = i end assert(#t == 50)");
    return NULL;
}

static void *
late_main(void *data)
{
    (void)data;
    ph_thread_set_kind(PH_THREAD_WORKER);
    for (int i = 0; i < 5; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhLuaState) state = new_state();
        g_assert_false(run_in(
            state, "while true do pcall(function() while true do end end) end", 30, 0, &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    }
    return NULL;
}

/* Threads come and go; one that is late does not end another's call. */
static void
test_watch_threads(void)
{
    GThread *threads[4];
    for (int i = 0; i < 4; i++)
        threads[i] = g_thread_new("lua", i < 2 ? short_main : late_main, NULL);
    for (int i = 0; i < 4; i++)
        g_thread_join(threads[i]);
}

/* With a stack of calls so deep that setting the hook takes longer than the time between two looks,
 * the thread must still come to the end of its call. */
static void
test_watch_deep(void)
{
    PhLuaBudget large = { .limit = 64 * 1024 * 1024 };
    for (int i = 0; i < 5; i++) {
        g_autoptr(GError) error = NULL;
        g_autoptr(PhLuaState) state = ph_lua_state_new(&large, &error);
        g_assert_no_error(error);
        g_assert_false(
            run_in(state, "local function f() return f() + 1 end while true do pcall(f) end",
                50 + 7 * i, 0, &error));
        g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
    }
}

/* After a quiet second the watchdog sleeps; the next call wakes it. */
static void
test_watch_asleep(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) state = new_state();
    g_usleep(1300 * 1000);
    g_assert_false(run_in(state, "while true do end", 100, 0, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_TEMPORARY);
}

/* -- memory ------------------------------------------------------------------------------------ */

static void
test_memory_cap(void)
{
    g_autoptr(GError) error = NULL;
    g_assert_cmpuint(budget.taken, ==, 0);
    PhLuaState *state = new_state();
    g_assert_false(run_in(state, "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        20000, 0, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_LIMIT);
    g_assert_true(state->is_spoiled);
    g_assert_cmpuint(budget.taken, <=, budget.limit);
    g_clear_error(&error);
    /* What was used up is free again, also in the same state. */
    g_assert_true(run_in(
        state, "local s = ('x'):rep(2 * 1024 * 1024) assert(#s == 2097152)", 5000, 0, &error));
    g_assert_no_error(error);
    ph_lua_state_free(state);
    g_assert_cmpuint(budget.taken, ==, 0);
}

/* The states of a zone share what there is. */
static void
test_memory_shared(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) one = new_state();
    g_autoptr(PhLuaState) two = new_state();
    g_assert_true(run_in(one, "local s = ('x'):rep(3 * 1024 * 1024) kept = s rawset(_ENV, 'k', s)",
        5000, 0, &error));
    g_assert_no_error(error);
    g_assert_false(run_in(two,
        "local t = {} for i = 1, 8 do t[i] = ('x'):rep(1024 * 1024) .. i end", 5000, 0, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_LIMIT);
    g_assert_cmpuint(budget.taken, <=, budget.limit);
}

static void
test_memory_none(void)
{
    g_autoptr(GError) error = NULL;
    PhLuaBudget none = { .limit = 1000 };
    g_assert_null(ph_lua_state_new(&none, &error));
    g_assert_error(error, PH_ERROR, PH_ERROR_LIMIT);
    g_assert_cmpuint(none.taken, ==, 0);
    /* At any size, making a state works or fails, and leaves nothing. */
    for (size_t limit = 0; limit < 3; limit++) {
        g_clear_error(&error);
        PhLuaBudget little = { .limit = limit * 64 * 1024 };
        g_autoptr(PhLuaState) state = ph_lua_state_new(&little, &error);
        g_assert_true(state != NULL || error != NULL);
    }
}

/* -- states ------------------------------------------------------------------------------------ */

/* Two states share nothing. */
static void
test_state_apart(void)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhLuaState) one = new_state();
    g_autoptr(PhLuaState) two = new_state();
    g_assert_true(run_in(one, "shared = 1 assert(shared == 1)", 1000, 0, &error));
    g_assert_true(run_in(two, "assert(shared == nil)", 1000, 0, &error));
    g_assert_true(run_in(one, "assert(shared == nil)", 1000, 0, &error));
    g_assert_no_error(error);
}

static void
add(const char *group, const Case *rows, size_t n, GTestDataFunc func)
{
    for (size_t i = 0; i < n; i++) {
        g_autofree char *path = g_strdup_printf("/lua/%s/%s", group, rows[i].name);
        g_test_add_data_func(path, &rows[i], func);
    }
}

int
main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ph_settings_declare(ph_lua_settings);
    add("sandbox", cases, G_N_ELEMENTS(cases), check_case);
    add("string", string_cases, G_N_ELEMENTS(string_cases), check_case);
    add("table", table_cases, G_N_ELEMENTS(table_cases), check_case);
    add("json", json_cases, G_N_ELEMENTS(json_cases), check_case);
    add("endless", endless, G_N_ELEMENTS(endless), check_endless);
    g_test_add_func("/lua/watch/cpu", test_watch_cpu);
    g_test_add_func("/lua/watch/line", test_watch_line);
    g_test_add_func("/lua/watch/short", test_watch_short);
    g_test_add_func("/lua/watch/threads", test_watch_threads);
    g_test_add_func("/lua/watch/asleep", test_watch_asleep);
    g_test_add_func("/lua/watch/deep", test_watch_deep);
    g_test_add_func("/lua/memory/cap", test_memory_cap);
    g_test_add_func("/lua/memory/shared", test_memory_shared);
    g_test_add_func("/lua/memory/none", test_memory_none);
    g_test_add_func("/lua/state/apart", test_state_apart);
    return g_test_run();
}
