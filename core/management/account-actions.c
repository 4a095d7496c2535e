/* account-actions.c - accounts, their passwords, their mailboxes and their mail */
#include "identity/password.h"
#include "management/actions.h"
#include "posthouse/login.h"
#include "posthouse/mailbox-view.h"
#include "posthouse/message-header.h"
#include "posthouse/message-imap.h"
#include "store/store.h"

#include <string.h>

#define ADDRESS PH_NEEDED("address", "the mail address, which is the login")

static const PhArgumentRow address_arguments[] = { ADDRESS, { 0 } };
static const PhAnswerRow id_answers[] = { PH_FIELD("id", INT, "its number"), { 0 } };

/* -- accounts ---------------------------------------------------------------------------------- */

static const PhArgumentRow user_add_arguments[] = {
    ADDRESS,
    { "password", PH_ARGUMENT_SECRET, 0, "without one nobody can log in", NULL, 0, 1024 },
    { "name", PH_ARGUMENT_TEXT, 0, "the name to show", NULL, 0, 255 },
    PH_NUMBER("quota_bytes", "0: no limit"),
    { 0 },
};

static const PhArgumentRow user_change_arguments[] = {
    ADDRESS,
    { "name", PH_ARGUMENT_TEXT, 0, "the name to show", NULL, 0, 255 },
    PH_NUMBER("quota_bytes", "0: no limit"),
    PH_NUMBER("quota_messages", "0: no limit"),
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

static const PhArgumentRow user_list_arguments[] = {
    PH_OPTION("domain", "only of this domain"),
    PH_CHOICE("state", "active|suspended|closing", "only those that are so"),
    PH_ARGUMENTS_LIST,
    { 0 },
};

#define ACCOUNT_ANSWERS(KIND) \
    PH_##KIND("address", TEXT, "the mail address, which is the login"), \
        PH_##KIND("name", TEXT, "the name to show"), \
        PH_##KIND("state", TEXT, "active, suspended (receives only) or closing (neither)"), \
        PH_##KIND("messages", INT, "how many it holds"), \
        PH_##KIND("bytes", INT, "how much it holds"), \
        PH_##KIND("quota_bytes", INT, "how much it may hold; 0: no limit"), \
        PH_##KIND("quota_messages", INT, "how many it may hold; 0: no limit"), \
        PH_##KIND("created", TIME, "when it was made")

static const PhAnswerRow user_answers[] = {
    ACCOUNT_ANSWERS(FIELD),
    PH_FIELD("version", INT, "raised by each change"),
    PH_FIELD("has_password", BOOL, "somebody can log in with one"),
    PH_FIELD("app_passwords", INT, "how many"),
    PH_FIELD("last_login", TIME, "with an app password"),
    { 0 },
};

static const PhAnswerRow user_list_answers[] = { ACCOUNT_ANSWERS(ITEM), { 0 } };

static const char *const state_names[] = {
    [PH_ACCOUNT_ACTIVE] = "active",
    [PH_ACCOUNT_SUSPENDED] = "suspended",
    [PH_ACCOUNT_CLOSING] = "closing",
    [PH_ACCOUNT_ERASED] = "erased",
};

static void
answer_account(PhActionCall *call, const PhAccount *account)
{
    ph_answer_text(call, "address", account->address);
    ph_answer_text(call, "name", account->display_name);
    ph_answer_text(call, "state", state_names[account->state]);
    ph_answer_int(call, "messages", account->used_messages);
    ph_answer_int(call, "bytes", account->used_bytes);
    ph_answer_int(call, "quota_bytes", account->quota_bytes);
    ph_answer_int(call, "quota_messages", account->quota_messages);
    ph_answer_time(call, "created", account->created_us);
}

char *
ph_action_hash_blocking(PhActionCall *call, const PhSecret *password, GError **error)
{
    ph_action_blame(call, "password");
    return ph_password_check(password, error) ? ph_password_hash_blocking(password, error) : NULL;
}

/* Null and true: no password was given. */
PH_IN_JOB static bool
hash_given(PhActionCall *call, char **verifier_out, GError **error)
{
    const PhSecret *password = ph_action_secret(call, "password");
    *verifier_out = NULL;
    return password == NULL ||
           (*verifier_out = ph_action_hash_blocking(call, password, error)) != NULL;
}

static bool
user_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autofree char *verifier = NULL;
    int64_t id;
    if (!ph_action_may_address_blocking(call, "address", error) ||
        !hash_given(call, &verifier, error) ||
        !ph_account_add_blocking(ph_action_text(call, "address"), ph_action_text(call, "name"),
            verifier, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    const PhAccountChange quota = {
        .quota_bytes = ph_action_int(call, "quota_bytes", 0),
        .if_version = -1,
    };
    return quota.quota_bytes == 0 ||
           ph_account_change_blocking(id, &quota, ph_action_deadline_us(call), error);
}

static bool
user_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    g_autoptr(PhLoginRecord) record = account != NULL ? ph_login_record_blocking(account->address,
                                                            ph_action_deadline_us(call), error)
                                                      : NULL;
    if (record == NULL)
        return false;
    answer_account(call, account);
    ph_answer_int(call, "version", account->version);
    int64_t n_app = 0;
    int64_t last_us = INT64_MIN;
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        n_app += credential->kind == PH_CREDENTIAL_APP ? 1 : 0;
        last_us = MAX(last_us, credential->last_used_us);
    }
    ph_answer_bool(call, "has_password", (guint)n_app < record->credentials->len);
    ph_answer_int(call, "app_passwords", n_app);
    ph_answer_time(call, "last_login", last_us);
    return true;
}

static bool
user_change(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    if (account == NULL)
        return false;
    const PhAccountChange change = {
        .display_name = ph_action_text(call, "name"),
        .quota_bytes = ph_action_int(call, "quota_bytes", -1),
        .quota_messages = ph_action_int(call, "quota_messages", -1),
        .if_version = ph_action_int(call, "if_version", -1),
    };
    return ph_account_change_blocking(account->id, &change, ph_action_deadline_us(call), error);
}

PH_IN_JOB static bool
set_state(PhActionCall *call, PhAccountState state, GError **error)
{
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    return account != NULL &&
           ph_account_set_state_blocking(account->id, state, ph_action_deadline_us(call), error);
}

static bool
user_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_CLOSING, error);
}

static bool
user_suspend(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_SUSPENDED, error);
}

static bool
user_activate(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return set_state(call, PH_ACCOUNT_ACTIVE, error);
}

static bool
user_erase(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    if (account == NULL)
        return false;
    if (account->state != PH_ACCOUNT_CLOSING) {
        g_set_error(error, PH_ERROR, PH_ERROR_CONFLICT,
            "\"%s\" is not closed; close it first: posthouse user remove", account->address);
        return false;
    }
    return ph_account_set_state_blocking(
        account->id, PH_ACCOUNT_ERASED, ph_action_deadline_us(call), error);
}

static bool
user_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *state = ph_action_text(call, "state");
    PhListFilter filter = {
        .tenant_id = ph_action_tenant(call),
        .domain = ph_action_text(call, "domain"),
        .text = ph_action_text(call, "filter"),
    };
    for (size_t i = 0; state != NULL && i < G_N_ELEMENTS(state_names); i++)
        if (strcmp(state_names[i], state) == 0)
            filter.states = 1U << i;
    g_autoptr(PhPage) page = ph_account_list_blocking(&filter, ph_action_text(call, "after"),
        ph_action_limit(call), ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        ph_answer_item(call);
        answer_account(call, page->items->pdata[i]);
    }
    ph_answer_next(call, page->next);
    return true;
}

/* -- passwords --------------------------------------------------------------------------------- */

static const PhArgumentRow passwd_arguments[] = {
    ADDRESS,
    { "password", PH_ARGUMENT_SECRET, PH_ARGUMENT_REQUIRED, "the new one", NULL, 0, 1024 },
    { "old", PH_ARGUMENT_SECRET, 0, "the present one, of who changes the own", NULL, 0, 1024 },
    { 0 },
};

/* A stranger at an open screen must not take the account over. */
PH_IN_JOB static bool
check_old(PhActionCall *call, const PhAccount *account, GError **error)
{
    if (ph_action_may_tenant(call, account->tenant_id))
        return true;
    const PhSecret *old = ph_action_secret(call, "old");
    const PhLoginRequest request = {
        .login = account->address,
        .password = old,
        .peer_address = ph_action_origin(call),
        .service = "console",
        .deadline_us = ph_action_deadline_us(call),
    };
    g_autoptr(PhIdentity) identity = NULL;
    ph_action_blame(call, "old");
    PhLoginAnswer answer = old != NULL ? ph_login_blocking(&request, &identity, NULL) : PH_LOGIN_NO;
    if (answer == PH_LOGIN_NO)
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the present password is another one");
    else if (answer == PH_LOGIN_UNAVAILABLE)
        g_set_error(error, PH_ERROR, PH_ERROR_UNAVAILABLE, "cannot check the present password now");
    return answer == PH_LOGIN_YES;
}

static bool
user_passwd(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autofree char *verifier = NULL;
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    return account != NULL && check_old(call, account, error) &&
           hash_given(call, &verifier, error) &&
           ph_password_set_blocking(account->address, verifier, ph_action_deadline_us(call), error);
}

static const PhArgumentRow app_add_arguments[] = {
    ADDRESS,
    { "label", PH_ARGUMENT_TEXT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "what it is for, such as the device", NULL, 0, 100 },
    { "days", PH_ARGUMENT_INT, 0, "ends after so many days (never)", NULL, 1, 36500 },
    { 0 },
};

static const PhArgumentRow app_remove_arguments[] = {
    ADDRESS,
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says",
        NULL, 0, 0 },
    { 0 },
};

static const PhAnswerRow app_add_answers[] = {
    PH_FIELD("id", INT, "its number"),
    PH_FIELD("password", TEXT, "the password: it is not shown again"),
    { 0 },
};

static const PhAnswerRow app_list_answers[] = {
    PH_ITEM("id", INT, "its number"),
    PH_ITEM("label", TEXT, "what it is for"),
    PH_ITEM("created", TIME, "when it was made"),
    PH_ITEM("last_used", TIME, "when somebody last logged in with it"),
    PH_ITEM("expires", TIME, "when it ends"),
    { 0 },
};

static bool
app_password_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    g_autofree char *verifier = NULL;
    g_autoptr(PhSecret) password =
        account != NULL ? ph_app_password_new_blocking(&verifier, error) : NULL;
    if (password == NULL)
        return false;
    int64_t days = ph_action_int(call, "days", 0);
    int64_t expires_us =
        days > 0 ? ph_time_now_us() + days * 24 * 3600 * G_USEC_PER_SEC : INT64_MAX;
    int64_t id;
    if (!ph_app_password_add_blocking(account->id, ph_action_text(call, "label"), verifier,
            expires_us, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    /* Shown this once; only its verifier is kept. */
    ph_answer_text(call, "password", ph_secret_bytes(password));
    return true;
}

static bool
app_password_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    return account != NULL && ph_app_password_remove_blocking(account->id,
                                  ph_action_int(call, "id", 0), ph_action_deadline_us(call), error);
}

static bool
app_password_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    g_autoptr(PhLoginRecord) record = account != NULL ? ph_login_record_blocking(account->address,
                                                            ph_action_deadline_us(call), error)
                                                      : NULL;
    if (record == NULL)
        return false;
    for (guint i = 0; i < record->credentials->len; i++) {
        const PhCredential *credential = record->credentials->pdata[i];
        if (credential->kind != PH_CREDENTIAL_APP)
            continue;
        ph_answer_item(call);
        ph_answer_int(call, "id", credential->id);
        ph_answer_text(call, "label", credential->label);
        ph_answer_time(call, "created", credential->created_us);
        ph_answer_time(call, "last_used", credential->last_used_us);
        ph_answer_time(call, "expires", credential->expires_us);
    }
    return true;
}

/* -- mailboxes and messages -------------------------------------------------------------------- */

static const PhArgumentRow mailbox_list_arguments[] = {
    ADDRESS,
    PH_ARGUMENTS_LIST,
    { 0 },
};

static const PhAnswerRow mailbox_list_answers[] = {
    PH_ITEM("name", TEXT, "its full name"),
    PH_ITEM("use", TEXT, "what it is for: inbox, drafts, sent, junk, trash, archive ..."),
    PH_ITEM("messages", INT, "how many it holds"),
    PH_ITEM("unseen", INT, "how many of them were not read"),
    PH_ITEM("bytes", INT, "how much it holds"),
    { 0 },
};

static const char *const use_names[] = {
    [PH_USE_NONE] = "",
    [PH_USE_INBOX] = "inbox",
    [PH_USE_DRAFTS] = "drafts",
    [PH_USE_SENT] = "sent",
    [PH_USE_JUNK] = "junk",
    [PH_USE_TRASH] = "trash",
    [PH_USE_ARCHIVE] = "archive",
    [PH_USE_FLAGGED] = "flagged",
    [PH_USE_ALL] = "all",
};

static void
answer_mailbox(PhActionCall *call, const PhMailbox *mailbox)
{
    ph_answer_item(call);
    ph_answer_text(call, "name", mailbox->name);
    if (mailbox->use != PH_USE_NONE)
        ph_answer_text(call, "use", use_names[mailbox->use]);
    ph_answer_int(call, "messages", mailbox->n_messages);
    ph_answer_int(call, "unseen", mailbox->n_unseen);
    ph_answer_int(call, "bytes", mailbox->size_bytes);
}

static bool
mailbox_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    g_autoptr(GPtrArray) mailboxes =
        account != NULL ? ph_mailbox_list_blocking(account->id, ph_action_deadline_us(call), error)
                        : NULL;
    if (mailboxes == NULL)
        return false;
    const char *filter = ph_action_text(call, "filter");
    const char *after = ph_action_text(call, "after");
    const char *last = NULL;
    unsigned n = 0;
    bool passed = after == NULL;
    for (guint i = 0; i < mailboxes->len; i++) {
        const PhMailbox *mailbox = mailboxes->pdata[i];
        bool is_after = passed;
        passed = passed || strcmp(mailbox->name, after) == 0;
        if (!is_after || (filter != NULL && strstr(mailbox->name, filter) == NULL))
            continue;
        if (n++ == ph_action_limit(call)) {
            ph_answer_next(call, last);
            break;
        }
        answer_mailbox(call, mailbox);
        last = mailbox->name;
    }
    return true;
}

static const PhArgumentRow message_list_arguments[] = {
    ADDRESS,
    PH_OPTION("mailbox", "in this one (INBOX)"),
    PH_ARGUMENT_AFTER,
    PH_ARGUMENT_LIMIT,
    { 0 },
};

static const PhAnswerRow message_list_answers[] = {
    PH_ITEM("uid", INT, "its number in the mailbox"),
    PH_ITEM("subject", TEXT, "its subject"),
    PH_ITEM("from", TEXT, "who sent it"),
    PH_ITEM("date", TIME, "when it came"),
    PH_ITEM("bytes", INT, "its size"),
    PH_ITEM("seen", BOOL, "it was read"),
    { 0 },
};

static bool
may_see_mail(const PhActionCall *call, int64_t account_id)
{
    return ph_action_account_id(call) == account_id || ph_action_role(call) == PH_ROLE_OPERATOR;
}

/* A header of the cache as text for people. */
static void
answer_header(PhActionCall *call, const PhMessageMeta *meta, const char *field, const char *name)
{
    gsize length = 0;
    size_t block_length;
    PhHeaderField header;
    const void *cache = meta->headers != NULL ? g_bytes_get_data(meta->headers, &length) : NULL;
    const char *block = cache != NULL ? ph_header_cache_block(cache, length, &block_length) : NULL;
    if (block == NULL || !ph_header_find(block, block_length, name, &header))
        return;
    g_autofree char *text = ph_header_decode(header.value, header.value_length);
    ph_answer_text(call, field, text);
}

PH_IN_JOB static bool
answer_messages(PhActionCall *call, int64_t account_id, const PhView *view, GError **error)
{
    const char *after = ph_action_text(call, "after");
    size_t end = ph_view_count(view);
    if (after != NULL)
        end = ph_view_lower_bound(view, (uint32_t)g_ascii_strtoull(after, NULL, 10));
    size_t n = MIN(end, MIN(ph_action_limit(call), 500U));
    g_autofree int64_t *ids = g_new(int64_t, n + 1);
    for (size_t i = 0; i < n; i++)
        ids[i] = ph_view_row(view, end - 1 - i)->message_id;
    g_autoptr(GPtrArray) metas = ph_message_meta_blocking(
        account_id, ids, n, PH_META_HEADERS, ph_action_deadline_us(call), error);
    if (metas == NULL)
        return false;
    for (size_t i = 0; i < n; i++) {
        const PhViewRow *row = ph_view_row(view, end - 1 - i);
        ph_answer_item(call);
        ph_answer_int(call, "uid", row->uid);
        if (metas->pdata[i] != NULL) {
            answer_header(call, metas->pdata[i], "subject", "subject");
            answer_header(call, metas->pdata[i], "from", "from");
        }
        ph_answer_time(call, "date", row->internal_date_us);
        ph_answer_int(call, "bytes", row->size_bytes);
        ph_answer_bool(call, "seen", (row->flags & PH_FLAG_SEEN) != 0);
    }
    if (n < end) {
        g_autofree char *next = g_strdup_printf("%u", ph_view_row(view, end - n)->uid);
        ph_answer_next(call, next);
    }
    return true;
}

static bool
message_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    if (account == NULL)
        return false;
    if (!may_see_mail(call, account->id)) {
        g_set_error(
            error, PH_ERROR, PH_ERROR_DENIED, "mail is shown to its owner and to operators only");
        return false;
    }
    const char *name = ph_action_text(call, "mailbox");
    ph_action_blame(call, "mailbox");
    g_autoptr(PhMailbox) mailbox = ph_mailbox_find_blocking(
        account->id, name != NULL ? name : "INBOX", ph_action_deadline_us(call), error);
    g_autoptr(PhMailboxWatch) watch = mailbox != NULL
                                          ? ph_mailbox_watch_blocking(account->id, mailbox->key,
                                                NULL, NULL, ph_action_deadline_us(call), error)
                                          : NULL;
    if (watch == NULL ||
        !ph_mailbox_watch_refresh_blocking(watch, ph_action_deadline_us(call), error))
        return false;
    g_autoptr(PhView) view = ph_mailbox_watch_latest(watch);
    return answer_messages(call, account->id, view, error);
}

/* -- deleted mail ------------------------------------------------------------------------------ */

static const PhArgumentRow deleted_list_arguments[] = {
    ADDRESS,
    PH_ARGUMENT_AFTER,
    PH_ARGUMENT_LIMIT,
    { 0 },
};

static const PhArgumentRow deleted_restore_arguments[] = {
    ADDRESS,
    PH_NEEDED("message", "as the list says"),
    { 0 },
};

/* Message ids have more bits than a number of JavaScript, so they travel as text. */
static const PhAnswerRow deleted_list_answers[] = {
    PH_ITEM("message", TEXT, "its number"),
    PH_ITEM("mailbox", TEXT, "where it was"),
    PH_ITEM("subject", TEXT, "its subject"),
    PH_ITEM("from", TEXT, "who sent it"),
    PH_ITEM("bytes", INT, "its size"),
    PH_ITEM("deleted", TIME, "when it was deleted"),
    { 0 },
};

PH_IN_JOB static bool
answer_deleted(PhActionCall *call, int64_t account_id, const GPtrArray *items, GError **error)
{
    g_autoptr(GArray) ids = g_array_new(FALSE, FALSE, sizeof(int64_t));
    for (guint i = 0; i < items->len; i++)
        g_array_append_val(ids, ((const PhExpunged *)items->pdata[i])->message_id);
    g_autoptr(GPtrArray) metas =
        ph_message_meta_blocking(account_id, (const int64_t *)(void *)ids->data, ids->len,
            PH_META_HEADERS, ph_action_deadline_us(call), error);
    if (metas == NULL)
        return false;
    for (guint i = 0; i < items->len; i++) {
        const PhExpunged *expunged = items->pdata[i];
        ph_answer_item(call);
        g_autofree char *id = g_strdup_printf("%" G_GINT64_FORMAT, expunged->message_id);
        ph_answer_text(call, "message", id);
        ph_answer_text(call, "mailbox", expunged->mailbox_name);
        if (metas->pdata[i] != NULL && may_see_mail(call, account_id)) {
            answer_header(call, metas->pdata[i], "subject", "subject");
            answer_header(call, metas->pdata[i], "from", "from");
        }
        ph_answer_int(call, "bytes", expunged->size_bytes);
        ph_answer_time(call, "deleted", expunged->expunged_us);
    }
    return true;
}

static bool
deleted_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    g_autoptr(PhPage) page =
        account != NULL ? ph_expunged_list_blocking(account->id, ph_action_text(call, "after"),
                              MIN(ph_action_limit(call), 500U), ph_action_deadline_us(call), error)
                        : NULL;
    if (page == NULL || !answer_deleted(call, account->id, page->items, error))
        return false;
    ph_answer_next(call, page->next);
    return true;
}

static bool
deleted_restore(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhAccount) account = ph_action_account_blocking(call, "address", error);
    return account != NULL && ph_expunged_restore_blocking(account->id,
                                  g_ascii_strtoll(ph_action_text(call, "message"), NULL, 10),
                                  ph_action_deadline_us(call), error);
}

// clang-format off
const PhActionRow ph_account_actions[] = {
    { "user.list", PH_ROLE_TENANT, 0, user_list_arguments, user_list_answers, user_list, "GET /accounts", NULL, "the accounts" },
    { "user.show", PH_ROLE_USER, 0, address_arguments, user_answers, user_show, "GET /accounts/{address}", NULL, "one account" },
    { "user.add", PH_ROLE_TENANT, PH_ACTION_CHANGES, user_add_arguments, id_answers, user_add, "POST /accounts", "user.show", "make an account" },
    { "user.change", PH_ROLE_TENANT, PH_ACTION_CHANGES, user_change_arguments, NULL, user_change, "PATCH /accounts/{address}", "user.show", "change the name or the limits of an account" },
    { "user.suspend", PH_ROLE_TENANT, PH_ACTION_CHANGES, address_arguments, NULL, user_suspend, "POST /accounts/{address}/suspend", "user.show", "let an account receive, but not log in" },
    { "user.activate", PH_ROLE_TENANT, PH_ACTION_CHANGES, address_arguments, NULL, user_activate, "POST /accounts/{address}/activate", "user.show", "open a suspended or closing account again" },
    { "user.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, address_arguments, NULL, user_remove, "POST /accounts/{address}/close", "user.show", "close an account; its data is kept until it is erased" },
    { "user.erase", PH_ROLE_TENANT, PH_ACTION_CHANGES, address_arguments, NULL, user_erase, "POST /accounts/{address}/erase", "user.show", "erase the data of a closed account, for good" },
    { "user.passwd", PH_ROLE_USER, PH_ACTION_CHANGES, passwd_arguments, NULL, user_passwd, "PUT /accounts/{address}/password", NULL, "set a password" },
    { "app-password.list", PH_ROLE_USER, 0, address_arguments, app_list_answers, app_password_list, "GET /accounts/{address}/app-passwords", NULL, "those of an account" },
    { "app-password.add", PH_ROLE_USER, PH_ACTION_CHANGES, app_add_arguments, app_add_answers, app_password_add, "POST /accounts/{address}/app-passwords", NULL, "make a password for one device; it is shown once" },
    { "app-password.remove", PH_ROLE_USER, PH_ACTION_CHANGES, app_remove_arguments, NULL, app_password_remove, "DELETE /accounts/{address}/app-passwords/{id}", NULL, "end one" },
    { "mailbox.list", PH_ROLE_USER, 0, mailbox_list_arguments, mailbox_list_answers, mailbox_list, "GET /accounts/{address}/mailboxes", NULL, "the mailboxes of an account" },
    { "message.list", PH_ROLE_USER, 0, message_list_arguments, message_list_answers, message_list, "GET /accounts/{address}/messages", NULL, "the messages in a mailbox, newest first" },
    { "deleted.list", PH_ROLE_USER, 0, deleted_list_arguments, deleted_list_answers, deleted_list, "GET /accounts/{address}/deleted", NULL, "mail of an account that was deleted and can be brought back" },
    { "deleted.restore", PH_ROLE_USER, PH_ACTION_CHANGES, deleted_restore_arguments, NULL, deleted_restore, "POST /accounts/{address}/deleted/{message}/restore", NULL, "bring one back into its mailbox" },
    { 0 },
};
// clang-format on
