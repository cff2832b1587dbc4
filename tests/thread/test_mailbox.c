/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox under several senders. A plain program, because Criterion does not live with TSan.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/mailbox.h"
#include "tests/lib/must.h"

#include <pthread.h>
#include <sched.h>

#define SENDER_COUNT  4
#define MESSAGE_COUNT 20000U

struct message {
    struct mailbox_node node;
    int sender;
    uint32_t number;
};

struct receiver {
    struct loop *loop;
    struct mailbox *mailbox;
    uint32_t next[SENDER_COUNT];
    uint32_t out_of_order;
    uint32_t left; /* messages until the loop stops */
};

struct sender {
    struct mailbox *mailbox;
    int id;
    uint32_t full_count;
};

static void on_message(struct mailbox_node *node, void *ctx)
{
    struct receiver *receiver = ctx;
    struct message *message = CONTAINER_OF(node, struct message, node);

    receiver->out_of_order += message->number != receiver->next[message->sender]++;
    mem_free(message);
    if (--receiver->left == 0) {
        loop_stop(receiver->loop);
    }
}

static void *send_all(void *ctx)
{
    struct sender *sender = ctx;

    for (uint32_t i = 0; i < MESSAGE_COUNT; i++) {
        struct message *message = mem_new(1, sizeof(*message));

        MUST(message != NULL);
        message->sender = sender->id;
        message->number = i;
        while (mailbox_send(sender->mailbox, &message->node) == ERR_FULL) {
            sender->full_count++;
            (void)sched_yield();
        }
    }
    return NULL;
}

static void every_message_arrives_once_in_the_order_of_its_sender(void)
{
    struct receiver receiver = {.left = SENDER_COUNT * MESSAGE_COUNT};
    struct sender senders[SENDER_COUNT];
    pthread_t threads[SENDER_COUNT];

    MUST(loop_open(&receiver.loop) == 0);
    MUST(mailbox_open(receiver.loop, 64, on_message, &receiver, &receiver.mailbox) == 0);
    for (int i = 0; i < SENDER_COUNT; i++) {
        senders[i] = (struct sender){.mailbox = receiver.mailbox, .id = i};
        MUST(pthread_create(&threads[i], NULL, send_all, &senders[i]) == 0);
    }
    loop_run(receiver.loop);
    for (int i = 0; i < SENDER_COUNT; i++) {
        MUST(pthread_join(threads[i], NULL) == 0);
        MUST(receiver.next[i] == MESSAGE_COUNT);
    }
    MUST(receiver.out_of_order == 0);
    mailbox_close(receiver.mailbox);
    loop_close(receiver.loop);
}

static void a_full_mailbox_refuses_and_close_delivers_what_waits(void)
{
    struct receiver receiver = {.left = 100};
    struct message *extra = mem_new(1, sizeof(*extra));

    MUST(loop_open(&receiver.loop) == 0);
    MUST(mailbox_open(receiver.loop, 3, on_message, &receiver, &receiver.mailbox) == 0);
    for (uint32_t i = 0; i < 3; i++) {
        struct message *message = mem_new(1, sizeof(*message));

        MUST(message != NULL);
        message->number = i;
        MUST(mailbox_send(receiver.mailbox, &message->node) == 0);
    }
    MUST(extra != NULL);
    MUST(mailbox_send(receiver.mailbox, &extra->node) == ERR_FULL);
    mem_free(extra);
    mailbox_close(receiver.mailbox);
    MUST(receiver.next[0] == 3);
    loop_close(receiver.loop);
    MUST(mem_block_count() == 0);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(every_message_arrives_once_in_the_order_of_its_sender),
        MUST_CASE(a_full_mailbox_refuses_and_close_delivers_what_waits),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
