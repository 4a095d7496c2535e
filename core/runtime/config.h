/* config.h - posthouse.conf: only what is needed to start
 *
 * Shape:    lines "key = value"; "#" begins a comment at the start of a line. An unknown key or a
 *           wrong value is an error that names the file, the line and what is allowed.
 * Errors:   NOT_FOUND, DENIED (not for this user), SYNTAX.
 */
#pragma once

#include "posthouse/base.h"

enum { PH_PORT_BASE_EPHEMERAL = -1 };

typedef struct PhConfig {
    char *path;
    char *state;
    char *run_as;         /* null: stay who we are; as root "posthouse" */
    char *database;       /* "managed", or a libpq connection string */
    char *allowed_ports;  /* well-known ports that may be bound, divided by commas */
    int port_base;        /* added to each well-known port; "ephemeral": the kernel chooses */
    char *control_socket; /* null: in the folder of sockets */
    char *node_name;
} PhConfig;

/* The configuration of a state folder (STATE/posthouse.conf), or of /etc when `state` is null. */
PhConfig *ph_config_load(const char *path, const char *state, GError **error);
void ph_config_free(PhConfig *config);
bool ph_config_is_managed(const PhConfig *config);
bool ph_config_port_is_allowed(const PhConfig *config, int port);
/* STATE/name; free it. */
char *ph_config_file(const PhConfig *config, const char *name);
/* The folder of Unix sockets: STATE/run, or a 0700 folder below /tmp when that path is longer than
 * 80 bytes; its name is then in STATE/run/sockets. Made when missing. */
char *ph_config_socket_folder(const PhConfig *config, GError **error);
char *ph_config_control_socket(const PhConfig *config, GError **error);
/* The user to run as: false with NOT_FOUND when there is no such user. Without root the present
 * one. */
bool ph_config_user(const PhConfig *config, unsigned *uid_out, unsigned *gid_out, GError **error);

G_DEFINE_AUTOPTR_CLEANUP_FUNC(PhConfig, ph_config_free)
