/* sasl.c - PLAIN and LOGIN, as small state machines */
#include "posthouse/login.h"

#include <string.h>

/* Longer than any sensible login and password together. */
enum { RESPONSE_MAX_BYTES = 4096 };

typedef PhSaslStep (*Mechanism)(
    PhSasl *sasl, const char *response, size_t length, const char **challenge_out);

struct PhSasl {
    Mechanism mechanism;
    unsigned step;
    char *login;
    PhSecret *password;
};

static bool
set_login(PhSasl *sasl, const char *text, size_t length)
{
    if (length == 0 || length > 254 || !g_utf8_validate(text, (gssize)length, NULL))
        return false;
    sasl->login = g_strndup(text, length);
    return true;
}

/* authzid NUL authcid NUL password (RFC 4616). Acting for somebody else is not offered: authzid is
 * empty or the same. */
static PhSaslStep
plain(PhSasl *sasl, const char *response, size_t length, const char **challenge_out)
{
    if (response == NULL) {
        *challenge_out = "";
        return sasl->step++ == 0 ? PH_SASL_CHALLENGE : PH_SASL_BAD;
    }
    const char *end = response + length;
    const char *login = memchr(response, '\0', length);
    const char *password =
        login != NULL ? memchr(login + 1, '\0', (size_t)(end - login - 1)) : NULL;
    if (password == NULL || memchr(password + 1, '\0', (size_t)(end - password - 1)) != NULL ||
        password + 1 == end)
        return PH_SASL_BAD;
    login++;
    size_t login_length = (size_t)(password - login);
    size_t authzid_length = (size_t)(login - 1 - response);
    if (authzid_length > 0 &&
        (authzid_length != login_length || memcmp(response, login, login_length) != 0))
        return PH_SASL_BAD;
    if (!set_login(sasl, login, login_length))
        return PH_SASL_BAD;
    sasl->password = ph_secret_new(password + 1, (size_t)(end - password - 1));
    return PH_SASL_READY;
}

/* Two prompts. Outlook sends the login as the initial response. */
static PhSaslStep
login_(PhSasl *sasl, const char *response, size_t length, const char **challenge_out)
{
    if (response == NULL) {
        *challenge_out = "Username:";
        return sasl->step++ == 0 ? PH_SASL_CHALLENGE : PH_SASL_BAD;
    }
    if (sasl->login == NULL) {
        if (!set_login(sasl, response, length))
            return PH_SASL_BAD;
        *challenge_out = "Password:";
        return PH_SASL_CHALLENGE;
    }
    if (length == 0 || memchr(response, '\0', length) != NULL)
        return PH_SASL_BAD;
    sasl->password = ph_secret_new(response, length);
    return PH_SASL_READY;
}

static const struct {
    const char *name;
    Mechanism mechanism;
} mechanism_rows[] = {
    { "PLAIN", plain },
    { "LOGIN", login_ },
};

const char *
ph_sasl_mechanisms(void)
{
    return "PLAIN LOGIN";
}

PhSasl *
ph_sasl_new(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(mechanism_rows); i++)
        if (g_ascii_strcasecmp(name, mechanism_rows[i].name) == 0) {
            PhSasl *sasl = g_new0(PhSasl, 1);
            sasl->mechanism = mechanism_rows[i].mechanism;
            return sasl;
        }
    return NULL;
}

void
ph_sasl_free(PhSasl *sasl)
{
    if (sasl == NULL)
        return;
    g_free(sasl->login);
    ph_secret_free(sasl->password);
    g_free(sasl);
}

PhSaslStep
ph_sasl_step(PhSasl *sasl, const void *response, size_t length, const char **challenge_out)
{
    if (sasl->password != NULL || length > RESPONSE_MAX_BYTES)
        return PH_SASL_BAD;
    return sasl->mechanism(sasl, response, length, challenge_out);
}

/* Strict: g_base64_decode() passes over what is not base64. */
static bool
is_base64(const char *text, size_t length)
{
    if (length % 4 != 0)
        return false;
    size_t padding = 0;
    while (padding < 2 && padding < length && text[length - 1 - padding] == '=')
        padding++;
    for (size_t i = 0; i < length - padding; i++)
        if (!g_ascii_isalnum(text[i]) && text[i] != '+' && text[i] != '/')
            return false;
    return true;
}

PhSaslStep
ph_sasl_step_base64(PhSasl *sasl, const char *text, size_t length, char **challenge_base64_out)
{
    const char *challenge = NULL;
    PhSaslStep step;
    if (text == NULL) {
        step = ph_sasl_step(sasl, NULL, 0, &challenge);
    } else if (length == 1 && text[0] == '=') {
        step = ph_sasl_step(sasl, "", 0, &challenge);
    } else if (length > 2 * (size_t)RESPONSE_MAX_BYTES || !is_base64(text, length)) {
        return PH_SASL_BAD;
    } else {
        g_autofree char *copy = g_strndup(text, length);
        gsize decoded_length = 0;
        guchar *decoded = g_base64_decode(copy, &decoded_length);
        step = ph_sasl_step(sasl, decoded, decoded_length, &challenge);
        ph_wipe(decoded, decoded_length);
        ph_wipe(copy, length);
        g_free(decoded);
    }
    if (step == PH_SASL_CHALLENGE)
        *challenge_base64_out = g_base64_encode((const guchar *)challenge, strlen(challenge));
    return step;
}

const char *
ph_sasl_login(const PhSasl *sasl)
{
    return sasl->login;
}

const PhSecret *
ph_sasl_password(const PhSasl *sasl)
{
    return sasl->password;
}
