/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of binary results.
 */
#include "storage/pg_conn.h"

#include "lib/base/check.h"

bool pg_result_ok(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

const char *pg_result_state(const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);

    return state == NULL ? "" : state;
}

struct slice pg_value(const PGresult *result, int row, int column)
{
    return (struct slice){(const uint8_t *)PQgetvalue(result, row, column),
                          (size_t)PQgetlength(result, row, column)};
}

static const uint8_t *fixed(const PGresult *result, int row, int column, size_t len)
{
    struct slice value = pg_value(result, row, column);

    // Our own statements say what the columns are.
    REQUIRE(value.len == len);
    return value.data;
}

int32_t pg_value_i32(const PGresult *result, int row, int column)
{
    return pg_get_i32(fixed(result, row, column, 4));
}

int64_t pg_value_i64(const PGresult *result, int row, int column)
{
    return pg_get_i64(fixed(result, row, column, 8));
}

int16_t pg_value_i16(const PGresult *result, int row, int column)
{
    return pg_get_i16(fixed(result, row, column, 2));
}

bool pg_value_bool(const PGresult *result, int row, int column)
{
    return fixed(result, row, column, 1)[0] != 0;
}

int64_t pg_value_us(const PGresult *result, int row, int column)
{
    return pg_value_i64(result, row, column) + PG_EPOCH_US;
}
