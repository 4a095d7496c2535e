/* name.h - what is done with mailbox names inside the store; all are normalised */
#pragma once

#include "posthouse/base.h"

/* A whole name. An index entry must hold it. */
enum { PH_NAME_MAX_BYTES = 2000 };

/* "a/b/c" gives "a", "a/b". */
GPtrArray *ph_name_parents(const char *name);
bool ph_name_is_below(const char *name, const char *ancestor);
/* INBOX and what is below it first, then by level. */
int ph_name_compare(const char *a, const char *b);
