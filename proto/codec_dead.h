/* SPDX-License-Identifier: Apache-2.0
 *
 * Messages of foliot.v1.QueueService about dead letters. The rules of all codec functions are in
 * codec.h.
 */
#ifndef FOLIOT_PROTO_CODEC_DEAD_H
#define FOLIOT_PROTO_CODEC_DEAD_H

#include "proto/codec_list.h"

/* Longest text of error_contains. */
#define DEAD_FILTER_BYTES_MAX 255

/* Dead letters that one call of Redrive or Purge names or handles. */
#define DEAD_CALL_COUNT_MAX LIST_PAGE_COUNT_MAX

/* Groups of one answer: the largest ones. */
#define DEAD_GROUP_COUNT_MAX 100

/* ---- ListDead, GroupDead, RedriveDead, PurgeDead ---- */

/* What the four requests say; each leaves some of it out. */
struct dead_request {
    struct queue_name queue;
    struct slice error_contains; /* empty: any; at most DEAD_FILTER_BYTES_MAX */
    const struct task_id *ids;   /* Redrive, Purge: these only; in the arena */
    size_t id_count;             /* 0: all; at most DEAD_CALL_COUNT_MAX */
    int64_t rate_millis;         /* Redrive: thousandths of a task a second; 0: all at once */
    uint32_t count_max; /* page size, or what one call handles: 1 … LIST_PAGE_COUNT_MAX */
    struct page_mark mark;
    bool with_payload; /* List */
};

MUST_USE int codec_read_dead_list(struct slice bytes, struct arena *arena, struct dead_request *out,
                                  struct fault *fault);
MUST_USE int codec_read_dead_group(struct slice bytes, struct arena *arena,
                                   struct dead_request *out, struct fault *fault);
MUST_USE int codec_read_dead_redrive(struct slice bytes, struct arena *arena,
                                     struct dead_request *out, struct fault *fault);
MUST_USE int codec_read_dead_purge(struct slice bytes, struct arena *arena,
                                   struct dead_request *out, struct fault *fault);
MUST_USE int codec_write_dead_list(const struct dead_request *request, struct buf *out);
MUST_USE int codec_write_dead_group(const struct dead_request *request, struct buf *out);
MUST_USE int codec_write_dead_redrive(const struct dead_request *request, struct buf *out);
MUST_USE int codec_write_dead_purge(const struct dead_request *request, struct buf *out);

/* A dead letter: a view whose state, queue and forget_ms are not sent. A ListDead response is its
 * letters, one behind the other, and then the end, as in codec_write_list_end. */
MUST_USE int codec_write_dead_item(const struct task_view *view, struct buf *out);
MUST_USE int codec_write_dead_end(struct page_mark mark, uint32_t shard_count, struct buf *out);
MUST_USE int codec_read_dead_reply(struct slice bytes, struct arena *arena, struct list_reply *out,
                                   struct fault *fault);
MUST_USE int codec_read_dead_item(const struct list_reply *reply, size_t index,
                                  struct task_view *out, struct fault *fault);

struct dead_group {
    struct slice error; /* UTF-8, at most ERROR_TEXT_BYTES_MAX */
    uint64_t count;
    struct task_id example;
    wall_ms first_ms;
    wall_ms last_ms;
};

/* A GroupDead response is its groups, one behind the other, and then the end. */
MUST_USE int codec_write_dead_group_item(const struct dead_group *group, struct buf *out);
MUST_USE int codec_write_dead_group_end(uint64_t looked_at, bool is_partial, struct buf *out);

struct dead_groups {
    size_t count;
    uint64_t looked_at;
    bool is_partial;
    const void *message; /* private */
};

MUST_USE int codec_read_dead_groups(struct slice bytes, struct arena *arena,
                                    struct dead_groups *out, struct fault *fault);
MUST_USE int codec_read_dead_group_item(const struct dead_groups *groups, size_t index,
                                        struct dead_group *out, struct fault *fault);

/* Response of Redrive and of Purge. */
struct dead_done {
    uint64_t handled; /* redriven or purged */
    uint64_t skipped; /* Redrive only */
    const char *next_token;
};

MUST_USE int codec_write_redrive_reply(const struct dead_done *done, struct buf *out);
MUST_USE int codec_write_purge_reply(const struct dead_done *done, struct buf *out);
MUST_USE int codec_read_redrive_reply(struct slice bytes, struct arena *arena,
                                      struct dead_done *out, struct fault *fault);
MUST_USE int codec_read_purge_reply(struct slice bytes, struct arena *arena, struct dead_done *out,
                                    struct fault *fault);

#endif
