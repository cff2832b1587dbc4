/* SPDX-License-Identifier: Apache-2.0
 *
 * What the calls about dead letters share. Private to broker/service*.
 */
#ifndef FOLIOT_BROKER_SERVICE_DEAD_H
#define FOLIOT_BROKER_SERVICE_DEAD_H

#include "broker/service_walk.h"
#include "proto/codec_dead.h"

#define DEAD_LIST_PATH "/foliot.v1.QueueService/ListDead"

/* Is it among those that the request is about, by its error? */
bool dead_matches(const struct dead_request *request, struct slice error);

/* A dead letter as it is shown. Borrows from it. */
void dead_fill_view(const struct broker *broker, const struct ended_task *letter,
                    struct task_view *view);

/* The walk goes where the request says. */
void dead_start(struct walk *walk, const struct dead_request *request);

#endif
