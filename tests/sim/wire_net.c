/* SPDX-License-Identifier: Apache-2.0
 *
 * A kernel's TCP: what is sent arrives later, in order, in other pieces; a full buffer takes no
 * more; a connection may stand still one way, be cut in the middle of a frame, or be ended one way
 * by somebody between.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/socket.h"
#include "tests/sim/sim_link.h"
#include "tests/sim/wire.h"

#include <errno.h>
#include <string.h>

#include <arpa/inet.h>

/* Our descriptors, far from Linux's. */
#define FD_FIRST (1 << 20)

/* How long a dial goes on that nobody answers. */
#define DIAL_US (60 * US_PER_S)

/* When the peers of a machine that vanished find out. */
#define VANISH_US (10 * US_PER_S)

/* How often is tried again what a cut link holds up. */
#define HOLD_US (100 * US_PER_MS)

/* Brokers are 10.0.0.1 and up. */
#define NODE_NET UINT32_C(0x0a0000)

/* Small pieces are up to this long, now and then one byte. */
#define CHOP_BYTES 40

/* Where ports of clients begin. */
#define PORT_FIRST 10000

enum piece_kind {
    PIECE_BYTES,
    PIECE_END,  /* the peer will send no more */
    PIECE_RESET /* the connection is gone */
};

struct piece {
    struct list link;
    enum piece_kind kind;
    int64_t arrives;
    size_t len;
    size_t at; /* bytes of it that were read */
    uint8_t bytes[];
};

enum socket_state {
    SOCKET_NEW,
    SOCKET_DIALLING,
    SOCKET_LISTENING,
    SOCKET_OPEN
};

/* 1. held: bytes in coming and here. 2. peer points back, or is NULL. */
struct wire_socket {
    struct wire_net *net;
    struct wire_proc *proc;
    int fd;
    enum socket_state state;
    struct sockaddr_in local;
    struct sockaddr_in remote;
    struct wire_socket *peer; /* NULL: it is closed, or there is none */
    struct list coming;       /* struct piece on its way here */
    struct list here;         /* to be read */
    size_t held;
    int64_t last_arrival;
    int64_t still_until; /* nothing arrives before */
    int64_t dial_until;
    int64_t held_since;     /* the link to it is cut, and something waits; 0: not so */
    struct sim_event event; /* the first arrival, or the next knock of a dial */
    struct list waiting;    /* in the listener's backlog until it is accepted */
    struct list backlog;
    int error;
    bool is_reset;
    bool is_shut;   /* our side has ended */
    bool is_muted;  /* somebody between drops what we send */
    bool has_alarm; /* a reset is on its way, for what we have sent to nobody */
};

struct wire_net {
    struct sim *sim;
    struct prng prng;             /* delays and pieces */
    struct prng fault_prng;       /* what goes wrong */
    struct wire_socket **sockets; /* by fd − FD_FIRST; NULL: closed */
    size_t count;
    size_t open_count;
    uint16_t port;
    struct sim_event cut;
    struct sim_event half;
    struct sim_event still;
};

bool wire_net_has(int fd)
{
    return fd >= FD_FIRST;
}

static struct wire_socket *find(const struct wire_net *net, int fd)
{
    size_t at = (size_t)(fd - FD_FIRST);

    REQUIRE(fd >= FD_FIRST && at < net->count && net->sockets[at] != NULL);
    return net->sockets[at];
}

/* ---- pieces ---- */

static void wake(const struct wire_socket *socket)
{
    wire_loop_wake(socket->proc->loop);
}

static void on_event(struct sim *sim, struct sim_event *event, bool is_dropped);

/* Which end of the simulator's links an address is. */
static uint32_t end_of(const struct sockaddr_in *address)
{
    uint32_t host = ntohl(address->sin_addr.s_addr);

    if (host == INADDR_LOOPBACK) {
        return SIM_END_TARGETS;
    }
    return host >> 8 == NODE_NET ? SIM_END_NODE((host & 0xff) - 1) : SIM_END_USERS;
}

/* Does what its peer sends get here? */
static bool is_reached(const struct wire_socket *socket)
{
    return sim_link_passes(socket->net->sim->links, end_of(&socket->remote),
                           end_of(&socket->local));
}

static void drop_pieces(struct wire_socket *socket, struct list *pieces);
static void add_piece(struct wire_socket *to, enum piece_kind kind, struct slice bytes);

/* The link is cut: sent again and again, until the sender's kernel gives up. */
static void hold(struct wire_socket *socket)
{
    struct sim *sim = socket->net->sim;

    if (socket->held_since == 0) {
        socket->held_since = sim->now;
    }
    if (sim->now - socket->held_since > SOCKET_USER_TIMEOUT_MS * US_PER_MS &&
        socket->peer != NULL) {
        struct wire_socket *peer = socket->peer;

        peer->peer = NULL;
        socket->peer = NULL;
        peer->has_alarm = true;
        add_piece(peer, PIECE_RESET, (struct slice){NULL, 0});
        drop_pieces(socket, &socket->coming);
        return; // Here nothing is heard any more: time, or what is sent next, will tell.
    }
    sim_after(sim, &socket->event, HOLD_US);
}

static void plan_arrival(struct wire_socket *socket)
{
    struct sim *sim = socket->net->sim;
    struct list *first = list_first(&socket->coming);

    if (first == NULL || socket->event.is_planned) {
        return;
    }
    sim_at(sim, &socket->event,
           time_max(LIST_ENTRY(first, struct piece, link)->arrives, socket->still_until));
}

/* Something is on its way to a socket. */
static void add_piece(struct wire_socket *to, enum piece_kind kind, struct slice bytes)
{
    struct wire_net *net = to->net;
    struct piece *piece = sim_need(1, sizeof(*piece) + bytes.len);
    int64_t way_us = sim_span(&net->prng, net->sim->options.network_us);

    piece->kind = kind;
    piece->len = bytes.len;
    if (bytes.len > 0) {
        memcpy(piece->bytes, bytes.data, bytes.len);
    }
    to->last_arrival = time_max(net->sim->now + way_us, to->last_arrival);
    piece->arrives = to->last_arrival;
    to->held += bytes.len;
    list_add(&to->coming, &piece->link);
    plan_arrival(to);
}

static void drop_pieces(struct wire_socket *socket, struct list *pieces)
{
    struct list *link;

    while ((link = list_take_first(pieces)) != NULL) {
        struct piece *piece = LIST_ENTRY(link, struct piece, link);

        socket->held -= piece->len - piece->at;
        mem_free(piece);
    }
}

static void arrive(struct wire_socket *socket)
{
    struct list *link;

    while ((link = list_first(&socket->coming)) != NULL) {
        struct piece *piece = LIST_ENTRY(link, struct piece, link);

        if (piece->arrives > socket->net->sim->now) {
            break;
        }
        list_del(link);
        if (piece->kind == PIECE_RESET) {
            socket->is_reset = true;
            socket->error = ECONNRESET;
            drop_pieces(socket, &socket->here);
            mem_free(piece);
        } else {
            list_add(&socket->here, &piece->link);
        }
    }
    wake(socket);
    plan_arrival(socket);
}

/* ---- dialling ---- */

static struct wire_socket *find_listener(const struct wire_net *net,
                                         const struct sockaddr_in *address)
{
    for (size_t i = 0; i < net->count; i++) {
        struct wire_socket *socket = net->sockets[i];

        if (socket != NULL && socket->state == SOCKET_LISTENING &&
            socket->local.sin_port == address->sin_port &&
            socket->local.sin_addr.s_addr == address->sin_addr.s_addr) {
            return socket;
        }
    }
    return NULL;
}

static struct wire_socket *add_socket(struct wire_net *net, struct wire_proc *proc)
{
    struct wire_socket *socket = sim_need(1, sizeof(*socket));

    net->sockets = mem_resize(net->sockets, (net->count + 1) * sizeof(struct wire_socket *));
    REQUIRE(net->sockets != NULL);
    socket->net = net;
    socket->proc = proc;
    socket->fd = FD_FIRST + (int)net->count;
    socket->event = (struct sim_event){.fire = on_event};
    list_init(&socket->coming);
    list_init(&socket->here);
    list_init(&socket->waiting);
    list_init(&socket->backlog);
    net->sockets[net->count++] = socket;
    net->open_count++;
    return socket;
}

static void knock(struct wire_socket *socket)
{
    struct wire_net *net = socket->net;
    struct wire_socket *listener = find_listener(net, &socket->remote);
    struct wire_socket *peer;

    if (listener != NULL &&
        (!is_reached(socket) ||
         !sim_link_passes(net->sim->links, end_of(&socket->local), end_of(&socket->remote)))) {
        listener = net->sim->now < socket->dial_until ? listener : NULL;
        if (listener != NULL) {
            sim_after(net->sim, &socket->event, HOLD_US);
            return;
        }
    }
    if (listener == NULL) {
        socket->state = SOCKET_OPEN;
        socket->error = ECONNREFUSED;
        socket->is_reset = true;
        wake(socket);
        return;
    }
    if (socket->still_until > net->sim->now) {
        sim_at(net->sim, &socket->event, socket->still_until);
        return;
    }
    peer = add_socket(net, listener->proc);
    peer->state = SOCKET_OPEN;
    peer->local = socket->remote;
    peer->remote = socket->local;
    peer->peer = socket;
    socket->peer = peer;
    socket->state = SOCKET_OPEN;
    list_add(&listener->backlog, &peer->waiting);
    TRACE(&net->sim->trace, "dialled", socket->fd, peer->fd);
    wake(listener);
    wake(socket);
}

static void on_event(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct wire_socket *socket = CONTAINER_OF(event, struct wire_socket, event);

    if (is_dropped) {
        return;
    }
    if (socket->state == SOCKET_DIALLING) {
        knock(socket);
    } else if (socket->still_until > sim->now) {
        sim_at(sim, &socket->event, socket->still_until);
    } else if (!is_reached(socket)) {
        hold(socket);
    } else {
        socket->held_since = 0;
        arrive(socket);
    }
}

/* ---- the end of a socket ---- */

static void free_socket(struct wire_socket *socket)
{
    struct wire_net *net = socket->net;

    sim_cancel(net->sim, &socket->event);
    drop_pieces(socket, &socket->coming);
    drop_pieces(socket, &socket->here);
    list_del(&socket->waiting);
    while (list_take_first(&socket->backlog) != NULL) {
        // Who was not accepted yet is in its line no more; a crash ends it by itself.
    }
    net->sockets[socket->fd - FD_FIRST] = NULL;
    net->open_count--;
    mem_free(socket);
}

/* The peer hears how it ended, some time. */
static void end_socket(struct wire_socket *socket, enum piece_kind kind)
{
    struct wire_socket *peer = socket->peer;

    if (peer != NULL) {
        peer->peer = NULL;
        wake(peer); // What it sends now goes to nobody: there is room for it.
        if (kind == PIECE_RESET || !socket->is_shut) {
            add_piece(peer, kind, (struct slice){NULL, 0});
        }
    }
    free_socket(socket);
}

static void close_backlog(struct wire_socket *listener)
{
    struct list *link;

    while ((link = list_take_first(&listener->backlog)) != NULL) {
        end_socket(LIST_ENTRY(link, struct wire_socket, waiting), PIECE_RESET);
    }
}

void wire_net_crash(struct wire_net *net, const struct wire_proc *proc, bool is_silent)
{
    for (size_t i = 0; i < net->count; i++) {
        struct wire_socket *socket = net->sockets[i];

        if (socket == NULL || socket->proc != proc) {
            continue;
        }
        if (is_silent && socket->peer != NULL) {
            struct wire_socket *peer = socket->peer;

            peer->last_arrival = net->sim->now + prng_between(&net->fault_prng, 0, VANISH_US);
            drop_pieces(peer, &peer->coming);
            sim_cancel(net->sim, &peer->event);
        }
        end_socket(socket, PIECE_RESET);
    }
}

/* ---- the calls ---- */

static int fail(int number)
{
    errno = number;
    return -1;
}

int wire_net_socket(struct wire_net *net)
{
    return add_socket(net, wire_current())->fd;
}

int wire_net_bind(struct wire_net *net, int fd, const struct sockaddr_in *address)
{
    if (find_listener(net, address) != NULL) {
        return fail(EADDRINUSE);
    }
    find(net, fd)->local = *address;
    return 0;
}

int wire_net_listen(struct wire_net *net, int fd)
{
    find(net, fd)->state = SOCKET_LISTENING;
    return 0;
}

int wire_net_accept(struct wire_net *net, int fd, struct sockaddr_in *peer)
{
    struct list *link = list_take_first(&find(net, fd)->backlog);
    struct wire_socket *socket;

    if (link == NULL) {
        return fail(EAGAIN);
    }
    socket = LIST_ENTRY(link, struct wire_socket, waiting);
    *peer = socket->remote;
    return socket->fd;
}

int wire_net_connect(struct wire_net *net, int fd, const struct sockaddr_in *address)
{
    struct wire_socket *socket = find(net, fd);

    socket->remote = *address;
    socket->local = *address;
    socket->local.sin_addr.s_addr = inet_addr(socket->proc->host);
    socket->local.sin_port = htons((uint16_t)(PORT_FIRST + net->port++ % 50000));
    socket->state = SOCKET_DIALLING;
    socket->dial_until = net->sim->now + DIAL_US;
    sim_after(net->sim, &socket->event, 2 * sim_span(&net->prng, net->sim->options.network_us) + 1);
    return fail(EINPROGRESS);
}

int wire_net_error(struct wire_net *net, int fd)
{
    return find(net, fd)->error;
}

int wire_net_shutdown(struct wire_net *net, int fd)
{
    struct wire_socket *socket = find(net, fd);

    if (socket->peer != NULL && !socket->is_shut && !socket->is_muted) {
        add_piece(socket->peer, PIECE_END, (struct slice){NULL, 0});
    }
    socket->is_shut = true;
    return 0;
}

int wire_net_close(struct wire_net *net, int fd)
{
    struct wire_socket *socket = find(net, fd);
    bool is_rude = socket->held > 0 || socket->is_muted;

    close_backlog(socket);
    end_socket(socket, is_rude ? PIECE_RESET : PIECE_END);
    return 0;
}

int wire_net_name(struct wire_net *net, int fd, struct sockaddr_in *address)
{
    *address = find(net, fd)->local;
    return 0;
}

/* Room for what a socket sends. */
static size_t room_of(const struct wire_socket *socket)
{
    size_t most = socket->net->sim->options.wire_buffer;

    if (socket->peer == NULL || socket->is_muted) {
        return most;
    }
    return socket->peer->held < most ? most - socket->peer->held : 0;
}

unsigned wire_net_ready(const struct wire_net *net, int fd)
{
    const struct wire_socket *socket = find(net, fd);
    unsigned ready = 0;

    switch (socket->state) {
    case SOCKET_NEW:
    case SOCKET_DIALLING:
        return 0;
    case SOCKET_LISTENING:
        return list_is_empty(&socket->backlog) ? 0 : LOOP_READ;
    case SOCKET_OPEN:
        break;
    }
    ready |= socket->is_reset || !list_is_empty(&socket->here) ? LOOP_READ : 0;
    ready |= socket->is_reset || room_of(socket) > 0 ? LOOP_WRITE : 0;
    return ready;
}

/* Length of the next piece of so many bytes. */
static size_t draw_len(struct wire_net *net, size_t len)
{
    if (len <= 1 || !prng_chance(&net->prng, net->sim->options.wire_chop_permille)) {
        return len;
    }
    return 1 + prng_below(&net->prng,
                          len < CHOP_BYTES || prng_chance(&net->prng, 300) ? len : CHOP_BYTES);
}

ssize_t wire_net_recv(struct wire_net *net, int fd, uint8_t *space, size_t len)
{
    struct wire_socket *socket = find(net, fd);
    size_t got = 0;
    struct list *link;

    if (socket->is_reset) {
        return fail(ECONNRESET);
    }
    len = draw_len(net, len);
    while (got < len && (link = list_first(&socket->here)) != NULL) {
        struct piece *piece = LIST_ENTRY(link, struct piece, link);
        size_t part = piece->len - piece->at < len - got ? piece->len - piece->at : len - got;

        if (piece->kind == PIECE_END) {
            return (ssize_t)got; // 0: the end is seen.
        }
        memcpy(space + got, piece->bytes + piece->at, part);
        piece->at += part;
        socket->held -= part;
        got += part;
        if (piece->at == piece->len) {
            list_del(link);
            mem_free(piece);
        }
    }
    if (got == 0) {
        return fail(EAGAIN);
    }
    if (socket->peer != NULL) {
        wake(socket->peer);
    }
    return (ssize_t)got;
}

/* What a broken link does on its way. */
static void add_bytes(struct wire_socket *to, struct slice bytes)
{
    struct wire_net *net = to->net;
    enum sim_mutant mutant = net->sim->options.mutant;
    bool is_now = !net->sim->is_healed && prng_chance(&net->fault_prng, 3);

    if (mutant == SIM_MUTANT_WIRE_LOSE && is_now && bytes.len > 1) {
        bytes.len--;
    }
    add_piece(to, PIECE_BYTES, bytes);
    if (mutant == SIM_MUTANT_WIRE_TWICE && is_now) {
        add_piece(to, PIECE_BYTES, bytes);
    }
}

ssize_t wire_net_send(struct wire_net *net, int fd, const uint8_t *bytes, size_t len)
{
    struct wire_socket *socket = find(net, fd);
    size_t room = room_of(socket);
    size_t sent;

    if (socket->is_reset || socket->is_shut) {
        return fail(socket->is_reset ? ECONNRESET : EPIPE);
    }
    if (room == 0) {
        return fail(EAGAIN);
    }
    sent = len < room ? len : room;
    if (prng_chance(&net->prng, 100)) {
        sent = draw_len(net, sent); // Now and then less than there is room for.
    }
    if (socket->peer == NULL || socket->is_muted) {
        if (!socket->has_alarm) {
            socket->has_alarm = true;
            add_piece(socket, PIECE_RESET, (struct slice){NULL, 0});
        }
        return (ssize_t)sent;
    }
    for (size_t at = 0; at < sent;) {
        size_t part = draw_len(net, sent - at);

        add_bytes(socket->peer, (struct slice){bytes + at, part});
        at += part;
    }
    return (ssize_t)sent;
}

/* ---- faults ---- */

/* A connection that stands, or NULL. */
static struct wire_socket *pick(struct wire_net *net)
{
    for (int i = 0; net->count > 0 && i < 200; i++) {
        size_t back = prng_below(&net->fault_prng, net->count < 64 ? net->count : 64);
        struct wire_socket *socket = net->sockets[net->count - 1 - back];

        if (socket != NULL && socket->peer != NULL) {
            return socket;
        }
    }
    return NULL;
}

/* Of what is on its way, only the first pieces arrive. */
static void lose_tail(struct wire_socket *socket)
{
    size_t kept = 0;

    list_foreach_safe (link, after, &socket->coming) {
        struct piece *piece = LIST_ENTRY(link, struct piece, link);

        if (kept > 0 || prng_chance(&socket->net->fault_prng, 300)) {
            kept = 1;
            list_del(link);
            socket->held -= piece->len;
            mem_free(piece);
        }
    }
    sim_cancel(socket->net->sim, &socket->event);
    plan_arrival(socket);
}

static void cut(struct wire_net *net)
{
    struct wire_socket *socket = pick(net);
    struct wire_socket *peer = socket == NULL ? NULL : socket->peer;

    if (socket == NULL) {
        return;
    }
    TRACE(&net->sim->trace, "wire-cut", socket->fd, peer->fd);
    lose_tail(socket);
    lose_tail(peer);
    socket->peer = NULL;
    peer->peer = NULL;
    socket->has_alarm = true;
    peer->has_alarm = true;
    add_piece(socket, PIECE_RESET, (struct slice){NULL, 0});
    add_piece(peer, PIECE_RESET, (struct slice){NULL, 0});
}

/* Somebody between ends one way and is deaf from then on. */
static void end_half(struct wire_net *net)
{
    struct wire_socket *socket = pick(net);

    if (socket == NULL || socket->peer->is_muted || socket->peer->is_shut) {
        return;
    }
    TRACE(&net->sim->trace, "wire-half", socket->fd, socket->peer->fd);
    lose_tail(socket);
    add_piece(socket, PIECE_END, (struct slice){NULL, 0});
    socket->peer->is_muted = true;
    wake(socket->peer);
}

static void stand_still(struct wire_net *net)
{
    struct wire_socket *socket = pick(net);

    if (socket != NULL) {
        socket->still_until =
            net->sim->now + sim_span(&net->fault_prng, net->sim->options.wire_still_us);
        TRACE(&net->sim->trace, "wire-still", socket->fd, socket->still_until);
    }
}

static void again(struct wire_net *net, struct sim_event *event, int64_t every_us)
{
    if (every_us > 0) {
        sim_after(net->sim, event, sim_span(&net->fault_prng, every_us));
    }
}

static void on_cut(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct wire_net *net = CONTAINER_OF(event, struct wire_net, cut);

    if (!is_dropped) {
        cut(net);
        again(net, event, sim->options.wire_cut_every_us);
    }
}

static void on_half(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct wire_net *net = CONTAINER_OF(event, struct wire_net, half);

    if (!is_dropped) {
        end_half(net);
        again(net, event, sim->options.wire_half_every_us);
    }
}

static void on_still(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct wire_net *net = CONTAINER_OF(event, struct wire_net, still);

    if (!is_dropped) {
        stand_still(net);
        again(net, event, sim->options.wire_still_every_us);
    }
}

/* ---- life ---- */

struct wire_net *wire_net_new(struct sim *sim)
{
    struct wire_net *net = sim_need(1, sizeof(*net));

    net->sim = sim;
    prng_init_named(&net->prng, sim->options.seed, "wire-net");
    prng_init_named(&net->fault_prng, sim->options.seed, "wire-faults");
    net->cut = (struct sim_event){.fire = on_cut};
    net->half = (struct sim_event){.fire = on_half};
    net->still = (struct sim_event){.fire = on_still};
    return net;
}

void wire_net_start(struct wire_net *net)
{
    again(net, &net->cut, net->sim->options.wire_cut_every_us);
    again(net, &net->half, net->sim->options.wire_half_every_us);
    again(net, &net->still, net->sim->options.wire_still_every_us);
}

void wire_net_heal(struct wire_net *net)
{
    sim_cancel(net->sim, &net->cut);
    sim_cancel(net->sim, &net->half);
    sim_cancel(net->sim, &net->still);
    for (size_t i = 0; i < net->count; i++) {
        struct wire_socket *socket = net->sockets[i];

        if (socket != NULL && socket->still_until > net->sim->now) {
            socket->still_until = net->sim->now;
        }
    }
}

void wire_net_free(struct wire_net *net)
{
    sim_cancel(net->sim, &net->cut);
    sim_cancel(net->sim, &net->half);
    sim_cancel(net->sim, &net->still);
    for (size_t i = 0; i < net->count; i++) {
        if (net->sockets[i] != NULL) {
            net->sockets[i]->peer = NULL;
            free_socket(net->sockets[i]);
        }
    }
    mem_free(net->sockets);
    mem_free(net);
}
