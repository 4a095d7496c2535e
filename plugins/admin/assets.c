/* assets.c - the console's pages, as they were compressed when they were built */
#include "admin.h"

#include <string.h>

#define RESOURCES "/posthouse/admin-ui"

/* A file of the console: from the folder that the setting names, or from the plugin. Null: none. */
static GBytes *
find(const Request *request, const char *name)
{
    g_autoptr(PhSettings) settings = ph_settings_current();
    const char *folder = ph_settings_text(settings, "admin.ui.folder", NULL);
    if (folder[0] == '\0') {
        g_autofree char *path = g_strconcat(RESOURCES, name, NULL);
        return g_resource_lookup_data(
            request->admin->resource, path, G_RESOURCE_LOOKUP_FLAGS_NONE, NULL);
    }
    g_autofree char *path = g_strconcat(folder, name, NULL);
    char *bytes;
    gsize length;
    if (!g_file_get_contents(path, &bytes, &length, NULL))
        return NULL;
    return g_bytes_new_take(bytes, length);
}

static const char *
type_of(const char *name)
{
    static const char *const types[][2] = {
        { ".html", "text/html; charset=utf-8" },
        { ".js", "text/javascript; charset=utf-8" },
        { ".css", "text/css; charset=utf-8" },
        { ".svg", "image/svg+xml" },
        { ".png", "image/png" },
        { ".woff2", "font/woff2" },
    };
    for (size_t i = 0; i < G_N_ELEMENTS(types); i++)
        if (g_str_has_suffix(name, types[i][0]))
            return types[i][1];
    return NULL;
}

static void
free_bytes(void *bytes)
{
    g_bytes_unref(bytes);
}

static struct MHD_Response *
response_of(GBytes *bytes)
{
    gsize length;
    const void *data = g_bytes_get_data(bytes, &length);
    return MHD_create_response_from_buffer_with_free_callback_cls(
        length, (void *)(uintptr_t)data, free_bytes, g_bytes_ref(bytes));
}

static enum MHD_Result
send_text(
    Request *request, unsigned status, const char *header, const char *value, const char *text)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(
        strlen(text), (void *)(uintptr_t)text, MHD_RESPMEM_PERSISTENT);
    admin_add_common_headers(response);
    MHD_add_response_header(response, "Content-Type", "text/plain; charset=utf-8");
    if (header != NULL)
        MHD_add_response_header(response, header, value);
    enum MHD_Result result = MHD_queue_response(request->connection, status, response);
    MHD_destroy_response(response);
    return result;
}

/* The entry document, which knows where it is. */
static enum MHD_Result
send_entry(Request *request, const char *base)
{
    g_autoptr(GBytes) bytes = find(request, "/index.html");
    if (bytes == NULL)
        return send_text(request, MHD_HTTP_NOT_FOUND, NULL, NULL, "The console is not here.\n");
    gsize length;
    const char *data = g_bytes_get_data(bytes, &length);
    g_autoptr(GString) page = g_string_new_len(data, (gssize)length);
    g_autofree char *shown = g_markup_escape_text(base, -1);
    g_string_replace(page, "__BASE__", shown, 0);
    struct MHD_Response *response =
        MHD_create_response_from_buffer(page->len, page->str, MHD_RESPMEM_MUST_COPY);
    admin_add_common_headers(response);
    MHD_add_response_header(response, "Content-Type", "text/html; charset=utf-8");
    MHD_add_response_header(response, "Cache-Control", "no-cache");
    enum MHD_Result result = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

/* Does Accept-Encoding name it, and not with a weight of zero? */
static bool
accepts(const char *header, const char *coding)
{
    g_auto(GStrv) parts = g_strsplit(header != NULL ? header : "", ",", -1);
    for (char **part = parts; *part != NULL; part++) {
        g_auto(GStrv) words = g_strsplit(*part, ";", 2);
        if (words[0] == NULL || g_ascii_strcasecmp(g_strstrip(words[0]), coding) != 0)
            continue;
        const char *weight = words[1] != NULL ? strstr(words[1], "q=") : NULL;
        return weight == NULL || g_ascii_strtod(weight + 2, NULL) > 0;
    }
    return false;
}

/* A file whose name changes with what is in it. */
static enum MHD_Result
send_asset(Request *request, const char *name)
{
    static const char *const codings[][2] = { { "br", ".br" }, { "gzip", ".gz" } };
    const char *accepted =
        MHD_lookup_connection_value(request->connection, MHD_HEADER_KIND, "Accept-Encoding");
    const char *coding = NULL;
    g_autoptr(GBytes) bytes = NULL;
    for (size_t i = 0; i < G_N_ELEMENTS(codings) && bytes == NULL; i++) {
        g_autofree char *packed = g_strconcat(name, codings[i][1], NULL);
        if (!accepts(accepted, codings[i][0]))
            continue;
        bytes = find(request, packed);
        coding = bytes != NULL ? codings[i][0] : NULL;
    }
    if (bytes == NULL)
        bytes = find(request, name);
    if (bytes == NULL)
        return send_text(request, MHD_HTTP_NOT_FOUND, NULL, NULL, "There is no such file.\n");
    struct MHD_Response *response = response_of(bytes);
    admin_add_common_headers(response);
    MHD_add_response_header(response, "Content-Type", type_of(name));
    MHD_add_response_header(response, "Cache-Control", "public, max-age=31536000, immutable");
    MHD_add_response_header(response, "Vary", "Accept-Encoding");
    if (coding != NULL)
        MHD_add_response_header(response, "Content-Encoding", coding);
    enum MHD_Result result = MHD_queue_response(request->connection, MHD_HTTP_OK, response);
    MHD_destroy_response(response);
    return result;
}

enum MHD_Result
admin_serve_asset(Request *request, const char *method, const char *target, const char *base)
{
    ph_assert_on_reactor();
    if (strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return send_text(
            request, MHD_HTTP_METHOD_NOT_ALLOWED, "Allow", "GET, HEAD", "Pages are read only.\n");
    static const char folder[] = "/assets/";
    g_autofree char *bare = g_strndup(target, strcspn(target, "?"));
    size_t base_length = strlen(base);
    if (base_length > 1 && strlen(bare) == base_length - 1 &&
        strncmp(bare, base, base_length - 1) == 0)
        return send_text(request, MHD_HTTP_PERMANENT_REDIRECT, "Location", base, "Moved.\n");
    const char *path = admin_below_base(bare, base);
    if (path == NULL)
        return send_text(request, MHD_HTTP_NOT_FOUND, NULL, NULL, "There is nothing here.\n");
    if (strcmp(path, "/") == 0 || strcmp(path, "/index.html") == 0)
        return send_entry(request, base);
    /* Names as the build gives them: no escapes, no folders, no compressed ones by name. */
    bool is_asset = g_str_has_prefix(path, folder) && strchr(path + strlen(folder), '/') == NULL &&
                    strstr(path, "..") == NULL && strchr(path, '%') == NULL &&
                    type_of(path) != NULL;
    if (is_asset)
        return send_asset(request, path);
    return send_text(request, MHD_HTTP_NOT_FOUND, NULL, NULL, "There is nothing here.\n");
}
