/* actions.h - the tables of actions and their dispatcher
 *
 * Shape:    a call is an action's name and an object of arguments; its result an object of fields
 *           (lists are "items", "next" goes on) or a failure. On the control socket a request is JSON
 *           {"action": NAME, "args": {...}}, an answer {"ok": true, "answer": {...}} or {"ok": false,
 *           "error": {"code": CODE, "text": TEXT, "argument": NAME}}.
 * Threads:  in a job.
 */
#pragma once

#include "posthouse/account.h"
#include "posthouse/action.h"

#include <json-glib/json-glib.h>

typedef struct PhCaller {
    const char *actor;  /* for the audit log */
    const char *origin; /* "control" or an address */
    PhRole role;
    int64_t tenant_id;  /* of a tenant's administrator or a user */
    int64_t account_id; /* of a user */
} PhCaller;

/* -- tables ------------------------------------------------------------------------------------ */

extern const PhActionRow ph_domain_actions[];
extern const PhActionRow ph_account_actions[];
extern const PhActionRow ph_contact_actions[];
extern const PhActionRow ph_dns_actions[];
extern const PhActionRow ph_site_actions[];
extern const PhActionRow ph_lua_actions[];
extern const PhActionRow ph_setting_actions[];
extern const PhActionRow ph_server_actions[];
extern const PhActionRow ph_operator_actions[];

/* The row of a core action, or null. */
const PhActionRow *ph_core_action_find(const char *name);
/* All rows: the core's, then those of the plugins that serve now. */
typedef void (*PhActionRowFunc)(const char *plugin, const PhActionRow *row, void *data);
void ph_actions_each(PhActionRowFunc func, void *data);
const PhArgumentRow *ph_action_argument(const PhActionRow *row, const char *name);
const char *ph_role_name(PhRole role);

/* -- calling ----------------------------------------------------------------------------------- */

typedef struct PhActionFailure {
    GError *error;
    char *argument;      /* that the error is about, or null */
    JsonObject *current; /* on a CONFLICT by `if_version`: how the thing is now; else null */
} PhActionFailure;

void ph_action_failure_clear(PhActionFailure *failure);

/* The answer, or null and a failure. `arguments` may be null. */
PH_IN_JOB JsonObject *ph_action_call_blocking(
    const char *name, JsonObject *arguments, const PhCaller *caller, PhActionFailure *failure_out);
/* Would it be run: is there such an action, may the caller, are the arguments right? Runs nothing. */
bool ph_action_check(
    const char *name, JsonObject *arguments, const PhCaller *caller, GError **error);
/* Text of the control socket. Always gives an answer; free it. */
PH_IN_JOB char *ph_action_dispatch_blocking(
    const char *request, size_t length, const PhCaller *caller);
/* JSON text from a stranger to its root, which the parser keeps. Null with SYNTAX. */
JsonNode *ph_json_parse(JsonParser *parser, const char *text, size_t length, GError **error);
char *ph_json_format(JsonObject *object);

/* -- for the functions of the tables ----------------------------------------------------------- */

/* -- what a caller may touch ------------------------------------------------------------------- */

/* The account that the argument names, if the caller may see it; NOT_FOUND otherwise, whatever the
 * reason. */
PH_IN_JOB PhAccount *ph_action_account_blocking(
    PhActionCall *call, const char *argument, GError **error);
/* The same for a domain. */
PH_IN_JOB PhDomain *ph_action_domain_blocking(
    PhActionCall *call, const char *argument, GError **error);
/* May the caller touch this address's domain? */
PH_IN_JOB bool ph_action_may_address_blocking(
    PhActionCall *call, const char *argument, GError **error);
/* The verifier of a new password, or null with SYNTAX when it is too weak. */
PH_IN_JOB char *ph_action_hash_blocking(
    PhActionCall *call, const PhSecret *password, GError **error);
/* Called through the control socket. */
bool ph_action_is_local(const PhActionCall *call);
/* Where the caller is: "control", or an address. */
const char *ph_action_origin(const PhActionCall *call);
int64_t ph_action_account_id(const PhActionCall *call);
/* The thing belongs to this tenant: its administrators see the line of the audit log. */
void ph_action_about_tenant(PhActionCall *call, int64_t tenant_id);
