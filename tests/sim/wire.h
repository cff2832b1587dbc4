/* SPDX-License-Identifier: Apache-2.0
 *
 * Wire mode: between the simulator's cores, users and receivers stands the real edge (lib/rpc,
 * broker/service*, outbound, the codecs), over a kernel of our own: sockets, a loop, a clock and
 * memory that a crash takes away. What lib/io asks of Linux is asked of wire_net instead, by the
 * linker's --wrap; loop.c, clock.c and entropy.c have a stand-in in wire_loop.c.
 */
#ifndef FOLIOT_TESTS_SIM_WIRE_H
#define FOLIOT_TESTS_SIM_WIRE_H

#include "lib/base/list.h"
#include "lib/base/prng.h"
#include "lib/io/loop.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_edge.h"

#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct wire;
struct wire_net;
struct wire_node;
struct wire_receiver;
struct wire_users;
struct wire_watch;

/* Where receivers listen: the target of the simulator's queues. */
#define WIRE_RECEIVER_HOST "127.0.0.1"
#define WIRE_RECEIVER_PORT 1

#define WIRE_NODE_PORT 7400

/*
 * A process: its memory, its loop, its clock.
 * 1. Whatever is allocated while it runs is in `blocks` until it is freed, and gone with a kill.
 */
struct wire_proc {
    struct sim *sim;
    struct sim_node *node; /* NULL: users or receivers, which nobody kills */
    struct list blocks;
    struct loop *loop;
    struct prng prng;
    char host[16]; /* its address */
};

/* Everything of wire mode; sim->wire. */
struct wire {
    struct sim *sim;
    struct wire_net *net;
    struct wire_watch *watch;
    struct wire_receiver *receiver;
    struct wire_users *users;
    struct wire_node *nodes[SIM_NODE_COUNT_MAX];
};

/* For struct sim_options.edge. */
extern const struct sim_edge wire_edge;

/* ---- wire_memory.c: processes and what they own ---- */

void wire_proc_init(struct wire_proc *proc, struct sim *sim, struct sim_node *node,
                    const char *host);

/* Who ran before a process did, and who owned what was allocated. */
struct wire_visit {
    struct wire_proc *proc;
    struct list *owner;
};

/* From here to wire_leave() a process runs: its clock is read, it owns what is allocated. */
struct wire_visit wire_enter(struct wire_proc *proc);
void wire_leave(struct wire_visit former);

/* The process that runs. shape: there is one. */
struct wire_proc *wire_current(void);

/* Its memory goes back, whoever still points to it. */
void wire_proc_forget(struct wire_proc *proc);

/* How much it still owns; the first of it goes to the trace. */
size_t wire_proc_owned(const struct wire_proc *proc);

/* ---- wire_loop.c ---- */

/* Something has happened that the loop waits for: it turns soon. */
void wire_loop_wake(struct loop *loop);

/* The process is dead: the loop does not turn any more. */
void wire_loop_drop(struct loop *loop);

/* ---- wire_net.c: the kernel ---- */

struct wire_net *wire_net_new(struct sim *sim);
void wire_net_free(struct wire_net *net);
void wire_net_heal(struct wire_net *net);
void wire_net_start(struct wire_net *net);

/* Every socket of a process that is gone. is_silent: its peers hear nothing for a while. */
void wire_net_crash(struct wire_net *net, const struct wire_proc *proc, bool is_silent);

/* LOOP_READ and LOOP_WRITE, as they are now. */
unsigned wire_net_ready(const struct wire_net *net, int fd);

/* The calls of a process, of the one that runs; results and errno as on Linux. */
int wire_net_socket(struct wire_net *net);
int wire_net_bind(struct wire_net *net, int fd, const struct sockaddr_in *address);
int wire_net_listen(struct wire_net *net, int fd);
int wire_net_accept(struct wire_net *net, int fd, struct sockaddr_in *peer);
int wire_net_connect(struct wire_net *net, int fd, const struct sockaddr_in *address);
int wire_net_error(struct wire_net *net, int fd);
int wire_net_shutdown(struct wire_net *net, int fd);
int wire_net_close(struct wire_net *net, int fd);
int wire_net_name(struct wire_net *net, int fd, struct sockaddr_in *address);
ssize_t wire_net_recv(struct wire_net *net, int fd, uint8_t *space, size_t len);
ssize_t wire_net_send(struct wire_net *net, int fd, const uint8_t *bytes, size_t len);

/* Is it one of ours? */
bool wire_net_has(int fd);

/* ---- wire_node.c: a broker's edge ---- */

struct wire_node *wire_node_new(struct sim_node *node);
struct outbound *wire_node_outbound(struct wire_node *wire);
void wire_node_start(struct wire_node *wire);

/* A callback of store or coordinator is about to come: it is a turn of its own. */
void wire_node_wake_up(struct wire_node *wire);
void wire_node_touch(struct wire_node *wire);
void wire_node_drain(struct wire_node *wire);
bool wire_node_is_drained(const struct wire_node *wire);

/* A process dies: before its core is freed, and after. */
void wire_node_crash(struct wire_node *wire);
void wire_node_bury(struct wire_node *wire);

/* End in order; closed when all callbacks have come. */
void wire_node_close(struct wire_node *wire);
bool wire_node_is_closed(const struct wire_node *wire);

/* Free what is left once every callback has come. */
void wire_node_end(struct wire_node *wire);

struct wire_proc *wire_node_proc(struct wire_node *wire);

/* ---- wire_users.c ---- */

struct wire_users *wire_users_new(struct sim *sim);
void wire_users_free(struct wire_users *users);
void wire_users_carry(struct wire_users *users, struct sim_errand *errand);

/* ---- wire_receiver.c ---- */

struct wire_receiver *wire_receiver_new(struct sim *sim);
void wire_receiver_free(struct wire_receiver *receiver);
void wire_receiver_start(struct wire_receiver *receiver);
void wire_receiver_heal(struct wire_receiver *receiver);

/* ---- wire_watch.c: each attempt from its start to its end ---- */

struct wire_watch *wire_watch_new(struct sim *sim);
void wire_watch_free(struct wire_watch *watch);

/* The core hands an attempt to the outbound of its broker; and hears of its end. */
void wire_watch_start(struct wire_watch *watch, const struct sim_node *node,
                      const struct attempt *attempt);
void wire_watch_end(struct wire_watch *watch, const struct sim_node *node,
                    const struct attempt *attempt);

/* A receiver has it whole. False: it is not one that left a broker. */
struct wire_arrival {
    struct task_id id;
    uint32_t attempt;
    struct slice key;
    struct slice payload;
    struct slice queue;
    wall_ms deadline_ms;
};
bool wire_watch_arrive(struct wire_watch *watch, const struct wire_arrival *arrival);

/* What the receiver says of it; as check_receiver(). */
void wire_watch_say(struct wire_watch *watch, const struct wire_arrival *arrival,
                    enum outcome outcome);
span_ms wire_watch_timeout(const struct wire_watch *watch, const struct wire_arrival *arrival);

/* The bytes of a payload behind its first eight, which are its number. */
uint8_t wire_pattern(uint64_t token, size_t at);

#endif
