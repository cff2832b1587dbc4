/* SPDX-License-Identifier: Apache-2.0
 *
 * What a broker needs to be ready.
 */
#include "broker/readiness.h"

#include "lib/base/buf.h"

bool readiness_judge(const struct readiness *facts, struct buf *lines)
{
    bool has_all = !facts->is_draining && facts->has_session && facts->has_queues;
    uint32_t writable = 0;

    if (facts->is_draining) {
        (void)buf_append_text(lines, "draining\n");
    }
    if (!facts->has_session) {
        (void)buf_append_text(lines, "no ZooKeeper session\n");
    }
    for (uint32_t i = 0; i < facts->database_count; i++) {
        if (facts->databases[i].is_writable) {
            writable++;
        } else {
            (void)buf_printf(lines, "database %s does not take writes\n", facts->databases[i].name);
        }
    }
    if (!facts->has_queues) {
        (void)buf_append_text(lines, "the queues have not been read\n");
    }
    return has_all && writable >= (facts->has_started ? 1 : facts->database_count);
}
