/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the settings say that the cluster is in ZooKeeper.
 */
#ifndef FOLIOT_BROKER_ZK_PLACE_H
#define FOLIOT_BROKER_ZK_PLACE_H

#include "broker/config.h"
#include "coordinator/coord_zk.h"

#include <string.h>

/* Whether all servers are on this machine, as a developer's are. hosts: as zookeeper.hosts. */
static inline bool zk_place_is_local(const char *hosts)
{
    static const char *const local[] = {"127.", "localhost:", "[::1]:"};

    for (;;) {
        bool is_local = false;

        for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++) {
            is_local |= strncmp(hosts, local[i], strlen(local[i])) == 0;
        }
        hosts += strcspn(hosts, ",");
        if (!is_local || *hosts == '\0') {
            return is_local;
        }
        hosts++;
    }
}

/* ownership: borrows the config's texts. */
static inline struct coord_zk_place zk_place_of(const struct config *config)
{
    bool is_private =
        config->zookeeper_open == CONFIG_ON ||
        (config->zookeeper_auth[0] == '\0' && zk_place_is_local(config->zookeeper_hosts));

    return (struct coord_zk_place){
        .hosts = config->zookeeper_hosts,
        .root = config->zookeeper_root,
        .name = config->cluster_name,
        .session_timeout_ms = config->zookeeper_session_timeout_ms,
        .auth = config->zookeeper_auth,
        .is_guarded = !is_private,
    };
}

#endif
