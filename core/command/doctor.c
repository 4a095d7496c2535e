/* doctor.c - what is wrong with this installation, and what to do about it, in words
 *
 * Only asks: the checks of the server, then the DNS records of its domains (or of those that are named).
 */
#include "command/command.h"

#include "management/control.h"

#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

typedef struct Doctor {
    char *socket;
    unsigned n_bad;
    unsigned n_warned;
} Doctor;

/* The answer of an action, or null: why not was said. */
static JsonObject *
ask(const Doctor *doctor, const char *action, const char *name)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();
    json_builder_begin_object(builder);
    json_builder_set_member_name(builder, "action");
    json_builder_add_string_value(builder, action);
    json_builder_set_member_name(builder, "args");
    json_builder_begin_object(builder);
    if (name != NULL) {
        json_builder_set_member_name(builder, "name");
        json_builder_add_string_value(builder, name);
    }
    json_builder_end_object(builder);
    json_builder_end_object(builder);
    g_autoptr(JsonNode) root = json_builder_get_root(builder);
    g_autofree char *request = json_to_string(root, FALSE);
    g_autoptr(GError) error = NULL;
    g_autofree char *text = ph_control_call_blocking(doctor->socket, request, &error);
    g_autoptr(JsonParser) parser = json_parser_new();
    if (text == NULL || !json_parser_load_from_data(parser, text, -1, NULL)) {
        fprintf(stderr, "posthouse: %s\n",
            error != NULL ? error->message : "the server's answer cannot be read");
        return NULL;
    }
    JsonObject *top = json_node_get_object(json_parser_get_root(parser));
    if (!json_object_get_boolean_member_with_default(top, "ok", FALSE)) {
        fprintf(stderr, "posthouse: %s\n",
            json_object_get_string_member(json_object_get_object_member(top, "error"), "text"));
        return NULL;
    }
    return json_object_ref(json_object_get_object_member(top, "answer"));
}

static const char *
text_of(JsonObject *item, const char *name)
{
    return json_object_get_string_member_with_default(item, name, "");
}

static void
count(Doctor *doctor, const char *state)
{
    if (strcmp(state, "bad") == 0 || strcmp(state, "wrong") == 0 || strcmp(state, "missing") == 0)
        doctor->n_bad++;
    else if (strcmp(state, "ok") != 0 && strcmp(state, "optional") != 0)
        doctor->n_warned++;
}

static bool
look_at_server(Doctor *doctor)
{
    g_autoptr(JsonObject) answer = ask(doctor, "server.checks", NULL);
    if (answer == NULL)
        return false;
    JsonArray *items = json_object_get_array_member(answer, "items");
    for (guint i = 0; i < json_array_get_length(items); i++) {
        JsonObject *item = json_array_get_object_element(items, i);
        const char *state = text_of(item, "state");
        count(doctor, state);
        printf("%-8s %s: %s\n", state, text_of(item, "title"), text_of(item, "text"));
        if (text_of(item, "advice")[0] != '\0')
            printf("         %s\n", text_of(item, "advice"));
    }
    return true;
}

static bool
look_at_domain(Doctor *doctor, const char *domain)
{
    g_autoptr(JsonObject) answer = ask(doctor, "domain.records", domain);
    if (answer == NULL)
        return false;
    printf("\n%s\n", domain);
    JsonArray *items = json_object_get_array_member(answer, "items");
    for (guint i = 0; i < json_array_get_length(items); i++) {
        JsonObject *item = json_array_get_object_element(items, i);
        const char *state = text_of(item, "state");
        const char *found = text_of(item, "found");
        count(doctor, state);
        printf("%-8s %s %s%s%s\n", state, text_of(item, "type"), text_of(item, "name"),
            found[0] != '\0' ? ": " : "", found);
        if (strcmp(state, "ok") == 0)
            continue;
        printf("         %s\n", text_of(item, "why"));
        g_auto(GStrv) lines = g_strsplit(text_of(item, "line"), "\n", -1);
        for (char **line = lines; *line != NULL; line++)
            printf("         %s\n", *line);
    }
    return true;
}

static bool
look_at_all_domains(Doctor *doctor)
{
    g_autoptr(JsonObject) answer = ask(doctor, "domain.list", NULL);
    bool good = answer != NULL;
    JsonArray *items = good ? json_object_get_array_member(answer, "items") : NULL;
    for (guint i = 0; good && i < json_array_get_length(items); i++)
        good = look_at_domain(doctor, text_of(json_array_get_object_element(items, i), "name"));
    if (good && json_object_has_member(answer, "next"))
        printf("\nThere are more domains: name those that are to be looked at.\n");
    return good;
}

int
ph_command_doctor(const PhCommonOptions *options, int argc, char **argv)
{
    g_autoptr(GError) error = NULL;
    g_autoptr(PhConfig) config = ph_config_load(options->config, options->state, &error);
    g_autofree char *socket = config != NULL ? ph_config_control_socket(config, &error) : NULL;
    if (socket == NULL) {
        fprintf(stderr, "posthouse: %s\n", error->message);
        return 1;
    }
    Doctor doctor = { .socket = socket };
    if (!look_at_server(&doctor))
        return 1;
    for (int i = 0; i < argc; i++)
        if (!look_at_domain(&doctor, argv[i]))
            return 1;
    if (argc == 0 && !look_at_all_domains(&doctor))
        return 1;
    if (doctor.n_bad + doctor.n_warned == 0)
        printf("\nNothing is wrong.\n");
    else
        printf("\n%u to mend, %u to look at.\n", doctor.n_bad, doctor.n_warned);
    return doctor.n_bad > 0 ? 1 : 0;
}
