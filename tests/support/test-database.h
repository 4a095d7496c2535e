/* test-database.h - a real PostgreSQL for a test program
 *
 * Shape:    with PH_TEST_PG (a conninfo) in the environment, databases are made in that server;
 *           without it, the program starts a private cluster in a temporary folder, as an
 *           unprivileged user, with fsync off. The schema is applied once, to a template; each test
 *           gets a copy.
 * Threads:  the main thread of a test program.
 * Errors:   none are returned: what goes wrong here ends the test program with a message.
 */
#pragma once

#include "posthouse/base.h"

/* Call before anything else; ends with test_database_stop(). */
void test_database_start(void);
void test_database_stop(void);

/* A new database with the whole schema: its conninfo. */
char *test_database_new(void);
/* One database for all tests of the program, emptied at each call: cheaper. */
char *test_database_shared(void);
/* One without any table. */
char *test_database_new_empty(void);
/* A schema folder of the tree. */
char *test_database_schema_folder(void);

/* Runs SQL text in a database and gives the first column of the first row, or null. Ends the
 * program on an error. */
char *test_database_ask(const char *conninfo, const char *sql);
int64_t test_database_ask_number(const char *conninfo, const char *sql);

/* Only for a private cluster (false: it is not one). */
bool test_database_is_private(void);
/* Kills the server hard, as a crash would. */
void test_database_crash(void);
/* Starts it again on the same folder and port. */
void test_database_restart(void);
