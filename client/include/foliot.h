/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot: Foliot from C and C++. Include this file, link with `pkg-config --cflags --libs
 * foliot` or the CMake target foliot::foliot. The guide is docs/LIBFOLIOT.md; each call is
 * described where it is declared:
 *
 *   <foliot/client.h>   a client, its options, errors, what holds for all calls
 *   <foliot/task.h>     create, create many, get, cancel, update, run now
 *   <foliot/list.h>     list tasks, cancel many, explain
 *   <foliot/queue.h>    create, get, list, update, pause, resume, drain, delete, figures
 *   <foliot/dead.h>     dead letters: list, group, redrive, purge
 *   <foliot/cluster.h>  brokers and shards
 */
#ifndef FOLIOT_H
#define FOLIOT_H

#include <foliot/client.h>
#include <foliot/cluster.h>
#include <foliot/dead.h>
#include <foliot/list.h>
#include <foliot/queue.h>
#include <foliot/task.h>

#endif
