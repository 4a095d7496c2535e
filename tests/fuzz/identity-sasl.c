/* identity-sasl.c - fuzz target: a SASL dialogue; lines are responses in base64. The first byte
 * chooses the mechanism and whether the client speaks first */
#include "posthouse/login.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    g_autoptr(PhSasl) sasl = ph_sasl_new((data[0] & 1) != 0 ? "PLAIN" : "LOGIN");
    const char *at = (const char *)data + 1;
    const char *end = (const char *)data + size;
    PhSaslStep step = PH_SASL_CHALLENGE;
    if ((data[0] & 2) != 0) {
        g_autofree char *challenge = NULL;
        step = ph_sasl_step_base64(sasl, NULL, 0, &challenge);
    }
    for (int turn = 0; turn < 5 && step == PH_SASL_CHALLENGE && at < end; turn++) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t length = stop != NULL ? (size_t)(stop - at) : (size_t)(end - at);
        g_autofree char *challenge = NULL;
        step = ph_sasl_step_base64(sasl, at, length, &challenge);
        g_assert_true((challenge != NULL) == (step == PH_SASL_CHALLENGE));
        at += length + (stop != NULL);
    }
    if (step == PH_SASL_READY) {
        g_assert_true(
            g_utf8_validate(ph_sasl_login(sasl), -1, NULL) && ph_sasl_login(sasl)[0] != '\0');
        g_assert_cmpuint(ph_secret_length(ph_sasl_password(sasl)), >, 0);
    }
    return 0;
}
