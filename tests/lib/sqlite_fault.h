/* SPDX-License-Identifier: Apache-2.0
 *
 * A disk under SQLite that fails when it is told to: a file system layer of SQLite around the real
 * one. For programs that open databases after sqlite_fault_install().
 */
#ifndef FOLIOT_TESTS_LIB_SQLITE_FAULT_H
#define FOLIOT_TESTS_LIB_SQLITE_FAULT_H

#include <stdbool.h>

/* What the disk does from now on. Any thread. */
enum sqlite_fault {
    SQLITE_FAULT_NONE,
    SQLITE_FAULT_SYNC_ONCE, /* the next flush fails, the data is there */
    SQLITE_FAULT_FULL,      /* writes find no room */
    SQLITE_FAULT_READ_ONLY  /* writes are not allowed */
};

/* Put the layer under every database that is opened from here on. */
void sqlite_fault_install(void);

void sqlite_fault_set(enum sqlite_fault wanted);

/*
 * Of the reads, writes, flushes and truncations from now on, let the n-th fail, once; a write
 * leaves half of its bytes. 0: none. `is_full`: a write fails for want of room.
 */
void sqlite_fault_nth(int n, bool is_full);

/* Has it failed? */
bool sqlite_fault_has_hit(void);

#endif
