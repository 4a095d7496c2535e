/* site-actions.c - sites, their routes, and certificates */
#include "management/actions.h"
#include "management/configuration.h"
#include "posthouse/log.h"
#include "posthouse/message-address.h"
#include "runtime/plugin-loader.h"
#include "runtime/tls.h"
#include "store/web.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>
#include <sys/stat.h>

/* -- sites ------------------------------------------------------------------------------------- */

#define SITE_OPTIONS \
    { "names", PH_ARGUMENT_TEXT, 0, "more host names, divided by commas", NULL, 0, 4096 }, \
        { "root", PH_ARGUMENT_TEXT, 0, \
            "the folder of its files (one of its own below the state folder)", NULL, 0, 1024 }, \
        PH_SWITCH("https_only", "send plain requests to https"), \
        PH_SWITCH("pages", "run .lua and .lp files below the root (yes)")

static const PhArgumentRow site_add_arguments[] = {
    PH_NEEDED("name", "its host name; \"*\" answers for names that nobody has"),
    SITE_OPTIONS,
    PH_OPTION("tenant", "whose it is (the installation's)"),
    { 0 },
};

static const PhArgumentRow site_change_arguments[] = {
    PH_NEEDED("name", "the site"),
    SITE_OPTIONS,
    PH_ARGUMENT_IF_VERSION,
    { 0 },
};

static const PhArgumentRow site_arguments[] = { PH_NEEDED("name", "the site"), { 0 } };
static const PhArgumentRow list_arguments[] = { PH_ARGUMENTS_LIST, { 0 } };

#define SITE_ANSWERS(KIND) \
    PH_##KIND("name", TEXT, "its host name"), \
        PH_##KIND("names", TEXT, "more of them, divided by commas"), \
        PH_##KIND("root", TEXT, "the folder of its files"), \
        PH_##KIND("https_only", BOOL, "plain requests are sent to https"), \
        PH_##KIND("pages", BOOL, ".lua and .lp files are run"), \
        PH_##KIND("tenant", TEXT, "whose it is"), \
        PH_##KIND("routes", INT, "how many routes it has"), \
        PH_##KIND("url", TEXT, "where it is seen"), \
        PH_##KIND("created", TIME, "when it was made"), \
        PH_##KIND("version", INT, "raised by each change")

static const PhAnswerRow site_answers[] = { SITE_ANSWERS(FIELD), { 0 } };
static const PhAnswerRow site_list_answers[] = { SITE_ANSWERS(ITEM), { 0 } };
static const PhAnswerRow site_add_answers[] = {
    PH_FIELD("id", INT, "its number"),
    PH_FIELD("root", TEXT, "where its files go"),
    { 0 },
};

/* What may stand in a URL's host or behind "*."; lower case, ASCII. Null with SYNTAX. */
static char *
host_name(const char *text, GError **error)
{
    bool wildcard = g_str_has_prefix(text, "*.");
    g_autofree char *ascii = ph_domain_to_ascii(wildcard ? text + 2 : text);
    bool good = ascii != NULL && ascii[0] != '\0' && strlen(ascii) <= 250;
    for (const char *at = ascii; good && *at != '\0'; at++)
        good = g_ascii_islower(*at) || g_ascii_isdigit(*at) ||
               ((*at == '-' || *at == '.') && at > ascii && at[1] != '\0' &&
                   !(*at == '.' && at[1] == '.'));
    if (good)
        return g_strconcat(wildcard ? "*." : "", ascii, NULL);
    g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is not a host name", text);
    return NULL;
}

/* "a.test, b.test" to "a.test,b.test". */
static char *
host_names(const char *text, GError **error)
{
    g_auto(GStrv) words = g_strsplit(text, ",", -1);
    g_autoptr(GString) names = g_string_new(NULL);
    for (char **word = words; *word != NULL; word++) {
        if (g_strstrip(*word)[0] == '\0')
            continue;
        g_autofree char *name = host_name(*word, error);
        if (name == NULL)
            return NULL;
        g_string_append_printf(names, "%s%s", names->len > 0 ? "," : "", name);
    }
    return g_string_free(g_steal_pointer(&names), FALSE);
}

static void
find_port(const char *name, int port, void *data)
{
    int *ports = data;
    if (strcmp(name, "http") == 0)
        ports[0] = port;
    if (strcmp(name, "https") == 0)
        ports[1] = port;
}

static char *
url_of(const PhStoredSite *site)
{
    enum { HTTP_PORT = 80, HTTPS_PORT = 443 };
    int ports[2] = { 0, 0 };
    ph_plugins_each_service(find_port, ports);
    bool secure = site->https_only || ports[0] == 0;
    int port = secure ? ports[1] : ports[0];
    if (port == 0)
        return NULL;
    const char *host = strcmp(site->name, "*") == 0 ? "localhost" : site->name;
    bool usual = port == (secure ? HTTPS_PORT : HTTP_PORT);
    g_autofree char *suffix = usual ? g_strdup("") : g_strdup_printf(":%d", port);
    return g_strdup_printf("%s://%s%s/", secure ? "https" : "http", host, suffix);
}

static void
answer_site(PhActionCall *call, const PhStoredSite *site)
{
    g_autofree char *url = url_of(site);
    g_autofree char *root = ph_configuration_site_root(site);
    ph_answer_text(call, "name", site->name);
    ph_answer_text(call, "names", site->names);
    ph_answer_text(call, "root", root);
    ph_answer_bool(call, "https_only", site->https_only);
    ph_answer_bool(call, "pages", site->pages);
    ph_answer_text(call, "tenant", site->tenant);
    ph_answer_int(call, "routes", site->n_routes);
    ph_answer_text(call, "url", url);
    ph_answer_time(call, "created", site->created_us);
    ph_answer_int(call, "version", site->version);
}

/* The site that the argument names, if the caller may see it. */
PH_IN_JOB static PhStoredSite *
find_site(PhActionCall *call, const char *argument, GError **error)
{
    const char *name = ph_action_text(call, argument);
    g_autoptr(PhStoredSite) site =
        ph_stored_site_find_blocking(name, ph_action_deadline_us(call), error);
    if (site == NULL)
        return NULL;
    if (!ph_action_may_tenant(call, site->tenant_id)) {
        g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "no site \"%s\"", name);
        return NULL;
    }
    ph_action_about_tenant(call, site->tenant_id);
    return g_steal_pointer(&site);
}

static bool
site_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhPage) page = ph_stored_site_list_blocking(ph_action_tenant(call),
        ph_action_text(call, "filter"), ph_action_text(call, "after"), ph_action_limit(call),
        ph_action_deadline_us(call), error);
    if (page == NULL)
        return false;
    for (guint i = 0; i < page->items->len; i++) {
        ph_answer_item(call);
        answer_site(call, page->items->pdata[i]);
    }
    ph_answer_next(call, page->next);
    return true;
}

static bool
site_show(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "name", error);
    if (site == NULL)
        return false;
    answer_site(call, site);
    return true;
}

/* Is this host name a domain of the caller's tenant, or below one? Nobody takes names of others. */
PH_IN_JOB static bool
may_name(PhActionCall *call, const char *name, GError **error)
{
    if (ph_action_role(call) == PH_ROLE_OPERATOR)
        return true;
    const char *part = g_str_has_prefix(name, "*.") ? name + 2 : name;
    for (; part != NULL && part[0] != '\0'; part = strchr(part, '.')) {
        part += part[0] == '.' ? 1 : 0;
        g_autoptr(GError) cause = NULL;
        g_autoptr(PhDomain) domain =
            ph_domain_find_blocking(part, ph_action_deadline_us(call), &cause);
        if (domain != NULL && ph_action_may_tenant(call, domain->tenant_id))
            return true;
        if (domain != NULL)
            break; /* below my domain, but another's */
        if (ph_error_code(cause) != PH_ERROR_NOT_FOUND && ph_error_code(cause) != PH_ERROR_SYNTAX) {
            g_propagate_error(error, g_steal_pointer(&cause));
            return false;
        }
    }
    g_set_error(error, PH_ERROR, PH_ERROR_DENIED,
        "\"%s\" is neither a domain of yours nor below one", name);
    return false;
}

PH_IN_JOB static bool
may_names(PhActionCall *call, const char *names, GError **error)
{
    g_auto(GStrv) words = g_strsplit(names, ",", -1);
    for (char **word = words; *word != NULL; word++)
        if ((*word)[0] != '\0' && !may_name(call, *word, error))
            return false;
    return true;
}

/* Takes over what was given; the rest stays. A root outside of the state folder is for operators:
 * what it names is read by everyone. */
PH_IN_JOB static bool
take_options(PhActionCall *call, PhStoredSite *site, GError **error)
{
    const char *names = ph_action_text(call, "names");
    const char *root = ph_action_text(call, "root");
    if (names != NULL) {
        ph_action_blame(call, "names");
        char *clean = host_names(names, error);
        if (clean == NULL)
            return false;
        g_free(site->names);
        site->names = clean;
        if (!may_names(call, clean, error))
            return false;
    }
    if (root != NULL) {
        ph_action_blame(call, "root");
        g_autofree char *own = ph_configuration_site_root(site);
        bool is_own = root[0] == '\0' || strcmp(root, own) == 0;
        if (!is_own && ph_action_role(call) != PH_ROLE_OPERATOR) {
            g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "only an operator chooses the folder");
            return false;
        }
        if (!is_own && (!g_path_is_absolute(root) || !g_file_test(root, G_FILE_TEST_IS_DIR))) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no folder of this host", root);
            return false;
        }
        g_free(site->root);
        site->root = g_strdup(is_own ? "" : root);
    }
    site->https_only = ph_action_bool(call, "https_only", site->https_only);
    site->pages = ph_action_bool(call, "pages", site->pages);
    return true;
}

/* A site that was just made shows something. Files that are there already stay. */
static void
make_root(const PhStoredSite *site)
{
    enum { FOLDER_MODE = 0755 };
    static const char welcome[] =
        "<!doctype html>\n"
        "<html lang=\"en\">\n"
        "<meta charset=\"utf-8\">\n"
        "<meta name=\"viewport\" content=\"width=device-width\">\n"
        "<title>It works</title>\n"
        "<style>body{font:1.1rem/1.6 system-ui,sans-serif;max-width:36rem;margin:15vh auto;padding:0 1rem;"
        "color-scheme:light dark}</style>\n"
        "<h1>This site is ready</h1>\n"
        "<p>Put your files beside this one, or give the site a route to a script.</p>\n"
        "</html>\n";
    g_autofree char *root = ph_configuration_site_root(site);
    g_autofree char *index = g_build_filename(root, "index.html", NULL);
    if (site->root[0] != '\0' || g_mkdir_with_parents(root, FOLDER_MODE) != 0)
        return;
    g_autoptr(GDir) folder = g_dir_open(root, 0, NULL);
    g_autoptr(GError) error = NULL;
    if (folder != NULL && g_dir_read_name(folder) == NULL &&
        !g_file_set_contents(index, welcome, -1, &error))
        ph_log(PH_LOG_WARNING, "site.root", "%s", error->message);
}

static bool
site_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    const char *given = ph_action_text(call, "name");
    const char *tenant = ph_action_text(call, "tenant");
    g_autofree char *name = strcmp(given, "*") == 0 ? g_strdup("*") : host_name(given, error);
    if (name == NULL)
        return false;
    if (strcmp(name, "*") == 0 && ph_action_role(call) != PH_ROLE_OPERATOR) {
        g_set_error(error, PH_ERROR, PH_ERROR_DENIED, "only an operator takes all other names");
        return false;
    }
    if (strcmp(name, "*") != 0 && !may_name(call, name, error))
        return false;
    g_autoptr(PhStoredSite) site = g_new0(PhStoredSite, 1);
    site->name = g_steal_pointer(&name);
    site->names = g_strdup("");
    site->root = g_strdup("");
    site->pages = true;
    site->tenant_id = ph_action_tenant(call);
    if (tenant != NULL && ph_action_role(call) == PH_ROLE_OPERATOR) {
        ph_action_blame(call, "tenant");
        if (!ph_tenant_find_blocking(tenant, ph_action_deadline_us(call), &site->tenant_id, error))
            return false;
    }
    int64_t id;
    if (!take_options(call, site, error))
        return false;
    ph_action_blame(call, "name");
    if (!ph_stored_site_put_blocking(site, -1, ph_action_deadline_us(call), &id, error))
        return false;
    ph_action_about_tenant(call, site->tenant_id);
    make_root(site);
    g_autofree char *root = ph_configuration_site_root(site);
    ph_answer_int(call, "id", id);
    ph_answer_text(call, "root", root);
    return ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
site_change(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "name", error);
    if (site == NULL || !take_options(call, site, error))
        return false;
    ph_action_blame(call, "name");
    return ph_stored_site_put_blocking(site, ph_action_version(call, site->version),
               ph_action_deadline_us(call), NULL, error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
site_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "name", error);
    return site != NULL &&
           ph_stored_site_remove_blocking(site->id, ph_action_deadline_us(call), error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

/* -- routes ------------------------------------------------------------------------------------ */

static const PhArgumentRow route_list_arguments[] = { PH_NEEDED("site", "the site"), { 0 } };

static const PhArgumentRow route_add_arguments[] = {
    PH_NEEDED("site", "the site"),
    PH_NEEDED("prefix", "paths that begin so, such as /api"),
    PH_NEEDED("handler", "static, lua, redirect, or what a plugin brings"),
    { "target", PH_ARGUMENT_TEXT, PH_ARGUMENT_POSITIONAL,
        "static: a folder below the root; lua: a script; redirect: where to", NULL, 0, 2048 },
    { 0 },
};

static const PhArgumentRow route_change_arguments[] = {
    PH_NEEDED("site", "the site"),
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says",
        NULL, 0, 0 },
    PH_OPTION("prefix", "paths that begin so"),
    PH_OPTION("handler", "static, lua, redirect, or what a plugin brings"),
    { "target", PH_ARGUMENT_TEXT, 0, "what the handler needs", NULL, 0, 2048 },
    { 0 },
};

static const PhArgumentRow route_remove_arguments[] = {
    PH_NEEDED("site", "the site"),
    { "id", PH_ARGUMENT_INT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL, "as the list says",
        NULL, 0, 0 },
    { 0 },
};

static const PhAnswerRow route_list_answers[] = {
    PH_ITEM("id", INT, "its number"),
    PH_ITEM("prefix", TEXT, "paths that begin so"),
    PH_ITEM("handler", TEXT, "who answers"),
    PH_ITEM("target", TEXT, "what the handler needs"),
    { 0 },
};

static const PhAnswerRow route_add_answers[] = { PH_FIELD("id", INT, "its number"), { 0 } };

static bool
route_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "site", error);
    g_autoptr(GPtrArray) routes =
        site != NULL ? ph_stored_routes_blocking(site->id, ph_action_deadline_us(call), error)
                     : NULL;
    if (routes == NULL)
        return false;
    for (guint i = 0; i < routes->len; i++) {
        const PhStoredRoute *route = routes->pdata[i];
        ph_answer_item(call);
        ph_answer_int(call, "id", route->id);
        ph_answer_text(call, "prefix", route->prefix);
        ph_answer_text(call, "handler", route->handler);
        ph_answer_text(call, "target", route->target);
    }
    return true;
}

static bool
is_printable(const char *text)
{
    for (; *text != '\0'; text++)
        if ((unsigned char)*text <= ' ' || *text == 0x7f)
            return false;
    return true;
}

static bool
check_route(PhActionCall *call, const PhStoredRoute *route, GError **error)
{
    bool is_path = route->prefix[0] == '/' && is_printable(route->prefix) &&
                   strpbrk(route->prefix, "?#%\\") == NULL && strstr(route->prefix, "//") == NULL &&
                   strstr(route->prefix, "/.") == NULL;
    if (!is_path) {
        ph_action_blame(call, "prefix");
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX,
            "\"%s\" is no path: it begins with \"/\" and has no \"//\", \"/.\", \"%%\", \"?\" or "
            "spaces",
            route->prefix);
        return false;
    }
    if (strspn(route->handler, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(route->handler) ||
        route->handler[0] == '\0') {
        ph_action_blame(call, "handler");
        g_set_error(
            error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" is no name of a handler", route->handler);
        return false;
    }
    bool needs = strcmp(route->handler, "lua") == 0 || strcmp(route->handler, "redirect") == 0;
    ph_action_blame(call, "target");
    if (needs && route->target[0] == '\0') {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "\"%s\" needs a target", route->handler);
        return false;
    }
    for (const char *at = route->target; *at != '\0'; at++)
        if ((unsigned char)*at < ' ' || *at == 0x7f) {
            g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "a target has no control characters");
            return false;
        }
    if (strcmp(route->handler, "static") == 0 &&
        (g_path_is_absolute(route->target) || strstr(route->target, "..") != NULL)) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the folder is one below the site's root");
        return false;
    }
    return true;
}

static bool
route_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "site", error);
    if (site == NULL)
        return false;
    const char *target = ph_action_text(call, "target");
    g_autoptr(PhStoredRoute) route = g_new(PhStoredRoute, 1);
    *route = (PhStoredRoute){
        .site_id = site->id,
        .prefix = g_strdup(ph_action_text(call, "prefix")),
        .handler = g_strdup(ph_action_text(call, "handler")),
        .target = g_strdup(target != NULL ? target : ""),
    };
    int64_t id;
    if (!check_route(call, route, error))
        return false;
    ph_action_blame(call, "prefix");
    if (!ph_stored_route_put_blocking(route, ph_action_deadline_us(call), &id, error))
        return false;
    ph_answer_int(call, "id", id);
    return ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static const PhStoredRoute *
find_route(const GPtrArray *routes, int64_t id, GError **error)
{
    for (guint i = 0; i < routes->len; i++)
        if (((const PhStoredRoute *)routes->pdata[i])->id == id)
            return routes->pdata[i];
    g_set_error(error, PH_ERROR, PH_ERROR_NOT_FOUND, "the site has no such route");
    return NULL;
}

static bool
route_change(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "site", error);
    g_autoptr(GPtrArray) routes =
        site != NULL ? ph_stored_routes_blocking(site->id, ph_action_deadline_us(call), error)
                     : NULL;
    const PhStoredRoute *old =
        routes != NULL ? find_route(routes, ph_action_int(call, "id", 0), error) : NULL;
    if (old == NULL)
        return false;
    const char *prefix = ph_action_text(call, "prefix");
    const char *handler = ph_action_text(call, "handler");
    const char *target = ph_action_text(call, "target");
    g_autoptr(PhStoredRoute) route = g_new(PhStoredRoute, 1);
    *route = (PhStoredRoute){
        .site_id = site->id,
        .id = old->id,
        .prefix = g_strdup(prefix != NULL ? prefix : old->prefix),
        .handler = g_strdup(handler != NULL ? handler : old->handler),
        .target = g_strdup(target != NULL ? target : old->target),
    };
    if (!check_route(call, route, error))
        return false;
    ph_action_blame(call, "prefix");
    return ph_stored_route_put_blocking(route, ph_action_deadline_us(call), NULL, error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
route_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(PhStoredSite) site = find_site(call, "site", error);
    return site != NULL &&
           ph_stored_route_remove_blocking(
               site->id, ph_action_int(call, "id", 0), ph_action_deadline_us(call), error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

/* -- certificates ------------------------------------------------------------------------------ */

static const PhArgumentRow certificate_add_arguments[] = {
    { "certificate", PH_ARGUMENT_DOCUMENT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "PEM: the certificate, then those of its issuers", NULL, 0, 65536 },
    { "key", PH_ARGUMENT_SECRET_DOCUMENT, PH_ARGUMENT_REQUIRED | PH_ARGUMENT_POSITIONAL,
        "PEM: its private key", NULL, 0, 65536 },
    { 0 },
};

static const PhArgumentRow certificate_arguments[] = {
    PH_NEEDED("name", "the certificate, by its first name"),
    { 0 },
};

static const PhAnswerRow certificate_list_answers[] = {
    PH_ITEM("name", TEXT, "the first of its names"),
    PH_ITEM("names", TEXT, "all of them, divided by commas"),
    PH_ITEM("issuer", TEXT, "who signed it"),
    PH_ITEM("not_before", TIME, "valid from"),
    PH_ITEM("not_after", TIME, "valid to"),
    PH_ITEM("version", INT, "raised by each replacement"),
    { 0 },
};

static const PhAnswerRow certificate_add_answers[] = {
    PH_FIELD("name", TEXT, "the first of its names"),
    PH_FIELD("names", TEXT, "all of them, divided by commas"),
    { 0 },
};

static bool
certificate_list(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_autoptr(GPtrArray) rows = ph_stored_certificates_blocking(ph_action_deadline_us(call), error);
    if (rows == NULL)
        return false;
    for (guint i = 0; i < rows->len; i++) {
        const PhStoredCertificate *row = rows->pdata[i];
        g_auto(PhTlsCertificateInfo) info = { 0 };
        g_autoptr(GError) ignored = NULL;
        ph_answer_item(call);
        ph_answer_text(call, "name", row->name);
        ph_answer_int(call, "version", row->version);
        if (!ph_tls_inspect(row->chain, NULL, &info, &ignored))
            continue;
        ph_answer_text(call, "names", info.names);
        ph_answer_text(call, "issuer", info.issuer);
        ph_answer_time(call, "not_before", info.not_before_us);
        ph_answer_time(call, "not_after", info.not_after_us);
    }
    return true;
}

static bool
certificate_add(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    g_auto(PhTlsCertificateInfo) info = { 0 };
    const PhSecret *key = ph_action_secret(call, "key");
    const char *chain = ph_action_text(call, "certificate");
    if (!ph_tls_inspect(chain, NULL, &info, error))
        return false;
    ph_tls_certificate_info_clear(&info);
    ph_action_blame(call, "key");
    if (!ph_tls_inspect(chain, key, &info, error))
        return false;
    ph_action_blame(call, "certificate");
    if (info.names[0] == '\0') {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the certificate is for no host name");
        return false;
    }
    if (info.not_after_us < ph_time_now_us()) {
        g_set_error(error, PH_ERROR, PH_ERROR_SYNTAX, "the certificate is no longer valid");
        return false;
    }
    g_autoptr(PhStoredCertificate) row = g_new(PhStoredCertificate, 1);
    *row = (PhStoredCertificate){
        .name = g_strndup(info.names, strcspn(info.names, ",")),
        .chain = g_strdup(chain),
        .sealed_key = ph_configuration_seal(ph_secret_bytes(key), ph_secret_length(key)),
    };
    if (!ph_stored_certificate_put_blocking(row, ph_action_deadline_us(call), error))
        return false;
    ph_answer_text(call, "name", row->name);
    ph_answer_text(call, "names", info.names);
    return ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

static bool
certificate_remove(PhActionCall *call, GError **error)
{
    ph_assert_in_job();
    return ph_stored_certificate_remove_blocking(
               ph_action_text(call, "name"), ph_action_deadline_us(call), error) &&
           ph_configuration_load_blocking(ph_action_deadline_us(call), error);
}

// clang-format off
const PhActionRow ph_site_actions[] = {
    { "site.list", PH_ROLE_TENANT, 0, list_arguments, site_list_answers, site_list, "GET /sites", NULL, "the web sites" },
    { "site.show", PH_ROLE_TENANT, 0, site_arguments, site_answers, site_show, "GET /sites/{name}", NULL, "one site" },
    { "site.add", PH_ROLE_TENANT, PH_ACTION_CHANGES, site_add_arguments, site_add_answers, site_add, "POST /sites", "site.show", "serve a web site" },
    { "site.change", PH_ROLE_TENANT, PH_ACTION_CHANGES, site_change_arguments, NULL, site_change, "PATCH /sites/{name}", "site.show", "change names, folder or rules of a site" },
    { "site.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, site_arguments, NULL, site_remove, "DELETE /sites/{name}", "site.show", "serve it no more; its files stay" },
    { "route.list", PH_ROLE_TENANT, 0, route_list_arguments, route_list_answers, route_list, "GET /sites/{site}/routes", NULL, "who answers for which paths of a site" },
    { "route.add", PH_ROLE_TENANT, PH_ACTION_CHANGES, route_add_arguments, route_add_answers, route_add, "POST /sites/{site}/routes", "route.list", "let a handler answer for paths that begin so" },
    { "route.change", PH_ROLE_TENANT, PH_ACTION_CHANGES, route_change_arguments, NULL, route_change, "PATCH /sites/{site}/routes/{id}", "route.list", "change a route" },
    { "route.remove", PH_ROLE_TENANT, PH_ACTION_CHANGES, route_remove_arguments, NULL, route_remove, "DELETE /sites/{site}/routes/{id}", "route.list", "end a route" },
    { "certificate.list", PH_ROLE_OPERATOR, 0, NULL, certificate_list_answers, certificate_list, "GET /certificates", NULL, "the certificates, for mail and web alike" },
    { "certificate.add", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, certificate_add_arguments, certificate_add_answers, certificate_add, "POST /certificates", NULL, "use a certificate for its names, on every node" },
    { "certificate.remove", PH_ROLE_OPERATOR, PH_ACTION_CHANGES, certificate_arguments, NULL, certificate_remove, "DELETE /certificates/{name}", NULL, "use it no more" },
    { 0 },
};
// clang-format on
