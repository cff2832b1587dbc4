/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot in one page: make a queue, create a reminder under a key, create it again (which makes
 * no second one), read it, move it, and cancel it; then many at once, with callbacks.
 *
 *     cc reminder.c $(pkg-config --cflags --libs foliot) -o reminder
 *     ./reminder 127.0.0.1:7400 milk
 */
#include <foliot.h>

#include <inttypes.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#define HOUR_MS ((int64_t)3600000)
#define AT_ONCE 100
#define QUEUE   "reminders"

/* Say what went wrong, as a program would log it. */
static int complain(const char *what, const struct foliot_error *error)
{
    fprintf(stderr, "%s: %s (%s): %s%s\n", what, foliot_code_name(error->code), error->reason,
            error->message, error->may_have_happened ? " [it may have happened]" : "");
    return 1;
}

static int make_queue(struct foliot_client *client)
{
    const struct foliot_queue_reply *reply;
    struct foliot_queue queue;
    struct foliot_error error;
    int code;

    foliot_queue_init(&queue);
    queue.name = QUEUE;
    queue.target = "receiver://127.0.0.1:9000"; /* whoever serves foliot.v1.Receiver/Deliver */
    queue.failures_max = 5;
    code = foliot_queue_create(client, &queue, NULL, &reply, &error);
    if (code == FOLIOT_ALREADY_EXISTS) {
        return 0;
    }
    if (code != FOLIOT_OK) {
        return complain("make the queue", &error);
    }
    printf("queue %s goes to %s\n", reply->queue->name, reply->queue->target);
    foliot_queue_reply_free(reply);
    return 0;
}

static int remind(struct foliot_client *client, const char *key, struct foliot_created *created)
{
    struct foliot_create_request request;
    struct foliot_error error;

    foliot_create_request_init(&request);
    request.queue = QUEUE;
    request.key = key; /* makes it safe to repeat: the library does so by itself */
    request.when = FOLIOT_WHEN_AFTER;
    request.when_ms = HOUR_MS;
    request.payload = "buy milk";
    request.payload_size = strlen("buy milk");
    if (foliot_task_create(client, &request, NULL, created, &error) != FOLIOT_OK) {
        return complain("create the reminder", &error);
    }
    printf("%s %s\n", created->id, created->created ? "is new" : "was there already");
    return 0;
}

static int look(struct foliot_client *client, const struct foliot_task_name *name)
{
    const struct foliot_task *task;
    struct foliot_error error;

    if (foliot_task_get(client, name, NULL, &task, &error) != FOLIOT_OK) {
        return complain("read the reminder", &error);
    }
    printf("%s is due at %" PRId64 ": %.*s\n", task->key, task->due_ms, (int)task->payload_size,
           (const char *)task->payload);
    foliot_task_free(task);
    return 0;
}

static int move(struct foliot_client *client, const struct foliot_task_name *name)
{
    struct foliot_update_request request;
    struct foliot_updated updated;
    struct foliot_error error;

    foliot_update_request_init(&request);
    request.name = name;
    request.when = FOLIOT_WHEN_AFTER;
    request.when_ms = 2 * HOUR_MS;
    if (foliot_task_update(client, &request, NULL, &updated, &error) != FOLIOT_OK) {
        return complain("move the reminder", &error);
    }
    printf("moved to %" PRId64 "\n", updated.due_ms);
    return 0;
}

static int cancel(struct foliot_client *client, const struct foliot_task_name *name)
{
    struct foliot_cancelled cancelled;
    struct foliot_error error;

    if (foliot_task_cancel(client, name, NULL, &cancelled, &error) != FOLIOT_OK) {
        return complain("cancel the reminder", &error);
    }
    printf("%s\n", cancelled.outcome == FOLIOT_CANCEL_CANCELLED ? "cancelled" : "too late");
    return 0;
}

/* ---- many at once ---- */

struct many {
    atomic_int created;
    sem_t ended;
};

/* Runs on the client's own thread: be quick, and do not wait for other calls here. */
static void on_created(const struct foliot_error *error, const struct foliot_created *created,
                       void *ctx)
{
    struct many *many = ctx;

    (void)created;
    if (error->code == FOLIOT_OK) {
        atomic_fetch_add(&many->created, 1);
    } else {
        (void)complain("create one of many", error);
    }
    sem_post(&many->ended);
}

static int start_one(struct foliot_client *client, const char *key, struct many *many)
{
    struct foliot_create_request request;
    struct foliot_error error;

    foliot_create_request_init(&request);
    request.queue = QUEUE;
    request.key = key;
    request.when = FOLIOT_WHEN_AFTER;
    request.when_ms = HOUR_MS;
    if (foliot_task_create_async(client, &request, NULL, on_created, many, &error) != FOLIOT_OK) {
        return complain("start one of many", &error);
    }
    return 0;
}

static int create_many(struct foliot_client *client, const char *prefix)
{
    struct many many = {.created = 0};
    int started = 0;

    sem_init(&many.ended, 0, 0);
    while (started < AT_ONCE) {
        char key[256];

        snprintf(key, sizeof(key), "%.240s-%d", prefix, started);
        if (start_one(client, key, &many) != 0) {
            break;
        }
        started++;
    }
    for (int i = 0; i < started; i++) {
        sem_wait(&many.ended); /* every call that was started calls back, once */
    }
    sem_destroy(&many.ended);
    printf("%d more\n", atomic_load(&many.created));
    return atomic_load(&many.created) == AT_ONCE ? 0 : 1;
}

static int use(struct foliot_client *client, const char *key)
{
    struct foliot_task_name name;
    struct foliot_created created;

    if (make_queue(client) != 0 || remind(client, key, &created) != 0 ||
        remind(client, key, &created) != 0) {
        return 1;
    }
    foliot_task_name_init(&name);
    name.id = created.id; /* or .queue and .key */
    if (look(client, &name) != 0 || move(client, &name) != 0 || cancel(client, &name) != 0) {
        return 1;
    }
    return create_many(client, key);
}

int main(int argc, char **argv)
{
    struct foliot_options options;
    struct foliot_client *client;
    struct foliot_error error;
    int status;

    foliot_options_init(&options);
    options.servers = argc > 1 ? argv[1] : NULL; /* "host:port,host:port"; the rest is learned */
    if (foliot_client_open(&options, &client, &error) != FOLIOT_OK) {
        return complain("open the client", &error);
    }
    status = use(client, argc > 2 ? argv[2] : "milk");
    foliot_client_close(client);
    return status;
}
