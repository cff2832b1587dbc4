/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound of the product, each with its reason, and the relations between them checked when
 * this file is compiled. A message that refuses something names the limit it met.
 */
#ifndef FOLIOT_LIB_BASE_LIMITS_H
#define FOLIOT_LIB_BASE_LIMITS_H

/* Hash buckets of task ids; part of every id, so it can never change. */
#define SLOT_COUNT 4096

/* Most shards: one slot each. */
#define SHARD_COUNT_MAX SLOT_COUNT

/* Advice for a new cluster: 32 times the most brokers expected, four of them. */
#define SHARD_COUNT_DEFAULT 128

/* Most brokers: their znodes are read as one list and scored against every shard. */
#define MEMBER_COUNT_MAX 256

/* Most databases of a cluster: bounds travel with every `now`. */
#define DATABASE_COUNT_MAX 16

/* Most queues: their policy is kept in memory on every broker. */
#define QUEUE_COUNT_MAX 4096

/* Longest stable member name, host:port or pod name with its domain. */
#define MEMBER_NAME_BYTES_MAX 255

/* Longest key of a task; UTF-8 without NUL. */
#define KEY_BYTES_MAX 255

/* Longest order key of a task, and its key as it is stored when it has both: see task_key_join().
 */
#define ORDER_KEY_BYTES_MAX  255
#define STORED_KEY_BYTES_MAX (ORDER_KEY_BYTES_MAX + KEY_BYTES_MAX + 2)

/* Longest queue or namespace name: [a-z0-9._-]. */
#define NAME_BYTES_MAX 63

/* Name of a host: the longest one of the DNS. */
#define HOST_BYTES_MAX 253

/* Longest target address. */
#define TARGET_BYTES_MAX 1023

/* Largest payload of a task. Above PAYLOAD_INLINE_BYTES_MAX it is read again with the claim. */
#define PAYLOAD_BYTES_MAX        65536
#define PAYLOAD_INLINE_BYTES_MAX 1024

/* Largest answer of a target that is kept with a result. */
#define RESPONSE_BYTES_MAX 65536

/* Items of one BatchCreate or BatchCancel. */
#define BATCH_ITEM_COUNT_MAX 10000

/* Longest text of a receiver's error that is kept. */
#define ERROR_TEXT_BYTES_MAX 1024

/* Operations of one write: bounds the time that a commit holds its locks, and memory. */
#define BATCH_OP_COUNT_MAX 2048

/* Payloads, keys and error texts of one write together: bounds what waits in a connection. The
 * largest batch with inline payloads fits; longer payloads mean smaller batches. */
#define BATCH_BYTES_MAX 8388608

/* Rows of one slice of due times: a page is read, decoded and put away in a few milliseconds. */
#define SLICE_ROW_COUNT_MAX 2000

/* Tasks, and dead letters, of a shard that a count by queue looks at: a second's work. */
#define COUNTED_ROW_COUNT_MAX 1000000

/* Fewest tasks that a broker may be told to hold in memory: two pages. */
#define MEMORY_TASKS_MIN 4000

/* Due times are grouped for the index: 2^16 ms, a little above a minute. */
#define DUE_BUCKET_SHIFT 16

/* Latest due time that is accepted, and the longest delay, a hundred years. */
#define DUE_WALL_MS_MAX INT64_C(7289568000000) /* 2200-12-31 */
#define DELAY_MS_MAX    INT64_C(3155760000000)

/* A call may start until this long after due and claim, or longer, up to the most, while commits of
 * the claim's database take longer than a quarter of it. source: DESIGN 7, docs/adr/0044 */
#define START_BY_MS     1000
#define START_BY_MS_MAX 7000

/* Between the end of the attempt timeout and the deadline of its claim. source: DESIGN 7 */
#define DEADLINE_MARGIN_MS 1000

/* Attempt timeout of a queue. */
#define ATTEMPT_TIMEOUT_MS_MIN     10
#define ATTEMPT_TIMEOUT_MS_DEFAULT 10000
#define ATTEMPT_TIMEOUT_MS_MAX     86400000

/* Claims are asked for this long before due. source: DESIGN 7, docs/adr/0038 */
#define CLAIM_LEAD_MS_MIN 5
#define CLAIM_LEAD_MS_MAX 100

/* epoch = generation · 256 + r: re-bumps of one owner with itself. source: DESIGN 7 */
#define EPOCH_BUMP_COUNT 256

/* Generations use 24 bits of an id's epoch. source: DESIGN 9 */
#define GENERATION_MAX ((INT64_C(1) << 24) - 1)

_Static_assert(SHARD_COUNT_MAX <= SLOT_COUNT, "a shard has at least one slot");
_Static_assert(PAYLOAD_INLINE_BYTES_MAX <= PAYLOAD_BYTES_MAX, "inline payloads are payloads");
_Static_assert(CLAIM_LEAD_MS_MIN <= CLAIM_LEAD_MS_MAX, "the lead has a range");
_Static_assert(CLAIM_LEAD_MS_MAX < START_BY_MS, "a claim made ahead can still start");
_Static_assert(BATCH_BYTES_MAX >= PAYLOAD_BYTES_MAX + STORED_KEY_BYTES_MAX + ERROR_TEXT_BYTES_MAX +
                                      RESPONSE_BYTES_MAX,
               "any one operation fits a batch");
_Static_assert(BATCH_BYTES_MAX >= BATCH_OP_COUNT_MAX * (PAYLOAD_INLINE_BYTES_MAX + KEY_BYTES_MAX),
               "a full batch of inline payloads fits");
_Static_assert(MEMORY_TASKS_MIN >= 2 * SLICE_ROW_COUNT_MAX, "a page finds room");
_Static_assert(BATCH_OP_COUNT_MAX >= 2, "a near create is an insert and its claim");

#endif
