/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot: Foliot from C and C++. Include this file, link with `pkg-config --cflags --libs
 * foliot` or the CMake target foliot::foliot. The guide is docs/LIBFOLIOT.md; each call is
 * described where it is declared:
 *
 *   <foliot/client.h>   a client, its options, errors, what holds for all calls
 *   <foliot/task.h>     create, create many, get, cancel, update
 *   <foliot/queue.h>    create, get, list, update
 *   <foliot/cluster.h>  brokers and shards
 */
#ifndef FOLIOT_H
#define FOLIOT_H

#include <foliot/client.h>
#include <foliot/cluster.h>
#include <foliot/queue.h>
#include <foliot/task.h>

#endif
