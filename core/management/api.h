/* api.h - the actions as an HTTP API
 *
 * Shape:    a row's route is "METHOD /path/{argument}"; the other arguments are in the query of GET
 *           and DELETE, else in a JSON body. The OpenAPI 3.1 document is made from the rows.
 * Threads:  anywhere; ph_api_call_blocking in a job.
 */
#pragma once

#include "management/actions.h"
#include "posthouse/console.h"

/* "GET /domains". Free it. */
char *ph_api_route(const PhActionRow *row);
/* A row's arguments as a JSON array, for the CLI. */
char *ph_api_describe_arguments(const PhActionRow *row);
/* The OpenAPI document. */
char *ph_api_document(void);

/* Calls what the request names, for this caller. */
PH_IN_JOB void ph_api_call_blocking(
    const PhApiRequest *request, const PhCaller *caller, PhApiResponse *response);
/* Takes the error. */
void ph_api_fail(PhApiResponse *response, int status, GError *error);
void ph_api_answer(PhApiResponse *response, JsonObject *answer);
