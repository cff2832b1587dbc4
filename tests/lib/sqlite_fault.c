/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer has no shared memory, so only databases in exclusive locking mode work on it: ours do.
 */
#include "tests/lib/sqlite_fault.h"

#include "lib/base/check.h"

#include <sqlite3.h>
#include <stdatomic.h>
#include <stddef.h>

struct fault_file {
    sqlite3_file base;  /* first: what SQLite sees */
    sqlite3_file *real; /* behind this struct */
};

static sqlite3_vfs layer;
static sqlite3_vfs *real_vfs;
static _Atomic int fault;
static _Atomic int countdown; /* operations until one fails; 0 or below: none does */
static _Atomic bool nth_is_full;
static _Atomic bool has_hit;

static sqlite3_file *real_of(sqlite3_file *file)
{
    return ((struct fault_file *)(void *)file)->real;
}

/* Is this the one that fails? */
static bool is_nth(void)
{
    if (countdown <= 0 || atomic_fetch_sub(&countdown, 1) != 1) {
        return false;
    }
    has_hit = true;
    return true;
}

static int on_close(sqlite3_file *file)
{
    return real_of(file)->pMethods->xClose(real_of(file));
}

static int on_read(sqlite3_file *file, void *bytes, int len, sqlite3_int64 offset)
{
    if (is_nth()) {
        return SQLITE_IOERR_READ;
    }
    return real_of(file)->pMethods->xRead(real_of(file), bytes, len, offset);
}

static int on_write(sqlite3_file *file, const void *bytes, int len, sqlite3_int64 offset)
{
    if (fault == SQLITE_FAULT_FULL) {
        return SQLITE_FULL;
    }
    if (fault == SQLITE_FAULT_READ_ONLY) {
        return SQLITE_READONLY;
    }
    if (is_nth()) {
        (void)real_of(file)->pMethods->xWrite(real_of(file), bytes, len / 2, offset);
        return nth_is_full ? SQLITE_FULL : SQLITE_IOERR_WRITE;
    }
    return real_of(file)->pMethods->xWrite(real_of(file), bytes, len, offset);
}

static int on_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    if (is_nth()) {
        return SQLITE_IOERR_TRUNCATE;
    }
    return real_of(file)->pMethods->xTruncate(real_of(file), size);
}

static int on_sync(sqlite3_file *file, int flags)
{
    int armed = SQLITE_FAULT_SYNC_ONCE;
    int code = real_of(file)->pMethods->xSync(real_of(file), flags);

    if (atomic_compare_exchange_strong(&fault, &armed, SQLITE_FAULT_NONE) || is_nth()) {
        return SQLITE_IOERR_FSYNC;
    }
    return code;
}

static int on_size(sqlite3_file *file, sqlite3_int64 *size)
{
    return real_of(file)->pMethods->xFileSize(real_of(file), size);
}

static int on_lock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xLock(real_of(file), level);
}

static int on_unlock(sqlite3_file *file, int level)
{
    return real_of(file)->pMethods->xUnlock(real_of(file), level);
}

static int on_check_lock(sqlite3_file *file, int *out)
{
    return real_of(file)->pMethods->xCheckReservedLock(real_of(file), out);
}

static int on_control(sqlite3_file *file, int what, void *argument)
{
    return real_of(file)->pMethods->xFileControl(real_of(file), what, argument);
}

static int on_sector_size(sqlite3_file *file)
{
    return real_of(file)->pMethods->xSectorSize(real_of(file));
}

static int on_characteristics(sqlite3_file *file)
{
    return real_of(file)->pMethods->xDeviceCharacteristics(real_of(file));
}

static const sqlite3_io_methods methods = {
    .iVersion = 1,
    .xClose = on_close,
    .xRead = on_read,
    .xWrite = on_write,
    .xTruncate = on_truncate,
    .xSync = on_sync,
    .xFileSize = on_size,
    .xLock = on_lock,
    .xUnlock = on_unlock,
    .xCheckReservedLock = on_check_lock,
    .xFileControl = on_control,
    .xSectorSize = on_sector_size,
    .xDeviceCharacteristics = on_characteristics,
};

static int on_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out)
{
    struct fault_file *mine = (struct fault_file *)(void *)file;
    int code;

    (void)vfs;
    mine->real = (sqlite3_file *)(void *)(mine + 1);
    code = real_vfs->xOpen(real_vfs, name, mine->real, flags, out);
    mine->base.pMethods = mine->real->pMethods == NULL ? NULL : &methods;
    return code;
}

void sqlite_fault_install(void)
{
    real_vfs = sqlite3_vfs_find(NULL);
    REQUIRE(real_vfs != NULL);
    layer = *real_vfs;
    layer.zName = "fault";
    layer.szOsFile = (int)sizeof(struct fault_file) + real_vfs->szOsFile;
    layer.xOpen = on_open;
    REQUIRE(sqlite3_vfs_register(&layer, 1) == SQLITE_OK);
}

void sqlite_fault_set(enum sqlite_fault wanted)
{
    fault = (int)wanted;
}

void sqlite_fault_nth(int n, bool is_full)
{
    has_hit = false;
    nth_is_full = is_full;
    countdown = n;
}

bool sqlite_fault_has_hit(void)
{
    return has_hit;
}
