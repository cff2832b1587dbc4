# SPDX-License-Identifier: Apache-2.0
"""The ways in which tools/mutants breaks the source: name -> (checkers, edits).

The checkers are the promises, or "assert" for an assertion of the program itself, as one of which the
simulator has to report it; where one fault comes out in several ways, several. An edit is (file,
old, new) below the folder of the source; `old` must be there exactly once.
"""

CORE = "broker/core/"


def core(file, old, new):
    return (CORE + file, old, new)


MUTANTS = {
    # --- the last look before a call leaves: of the edge, so in wire mode ---
    "start-by-at-send": ("K-6", [
        ("broker/outbound.c",
         "    return bounds.upper_us <= time_mul(flight->attempt->start_by_ms, US_PER_MS);",
         "    return bounds.upper_us > 0;"),
        ("broker/outbound.c",
         ".start_by_us = moment_of(&bounds, now_us, attempt->start_by_ms),", ".start_by_us = 0,")]),
    # --- claims and their ends ---
    "claim-after-call": ("K-6", [
        core("claim.c", "    entry_move(entry, ENTRY_CLAIMING);\n    claim_note(shard, flight);\n",
             "    entry_move(entry, ENTRY_CLAIMING);\n    claim_note(shard, flight);\n"
             "    if (entry->due_ms <= lower_ms(broker, shard->database)) {\n"
             "        flight->is_started = broker->env.outbound->start(broker->env.outbound, "
             "&flight->attempt) == 0;\n    }\n"),
        core("claim.c", "        if (shard->state == SHARD_DRAINING) {\n            claim_withdraw",
             "        if (flight->is_started) {\n            entry_move(entry, ENTRY_RUNNING);\n"
             "            if (flight->is_ended) {\n                dispatch_ended(shard, entry);\n"
             "            }\n"
             "        } else if (shard->state == SHARD_DRAINING) {\n            claim_withdraw")]),
    "claim-outlives-update": ("K-2 K-3", [
        core("call_task.c", "op->attempt = entry->attempt + (is_claimed ? 1U : 0U);",
             "op->attempt = entry->attempt;")]),
    "redrive-resets-attempt": ("K-2", [
        core("call_task.c", "    op->task = call->task;\n    op->expected_attempt = "
             "call->task.attempt;",
             "    op->task = call->task;\n    op->task.attempt = 0;\n"
             "    op->expected_attempt = call->task.attempt;")]),
    "unend-retry": ("K-1 K-3", [
        core("claim.c", "op->attempt = entry->attempt + 1;\n    settle_fill",
             "op->attempt = entry->attempt;\n    settle_fill")]),
    "update-ends-held": ("K-3 K-6", [
        core("call_task.c", "bool is_claimed = entry->state == ENTRY_CLAIMED;",
             "bool is_claimed = entry->state == ENTRY_CLAIMED || entry->state == ENTRY_HELD;")]),
    "inherited-now": ("K-3 K-6", [
        core("window.c", "entry_wake_at(shard, entry, claim->deadline_ms);",
             "entry_wake_at(shard, entry, row->due_ms);")]),
    "unknown-at-once": ("K-3 K-6 order", [
        core("dispatch.c", "flight->attempt.outcome == OUTCOME_UNKNOWN) {",
             "flight->attempt.outcome == OUTCOME_UNKNOWN && "
             "!entry_queue(shard->broker, entry)->queue.at_most_once) {"),
        core("claim.c", "        UNREACHABLE(); // Held until its deadline, and then without a "
             "flight.\n",
             "        settle_as_unknown(broker, shard, entry, op);\n        break;\n")]),
    "old-outcome": ("K-3", [
        core("dispatch.c", "entry->state != ENTRY_HELD || entry->slot != report->id.slot ||\n"
             "        entry->attempt + 1 != report->attempt) {",
             "entry->state != ENTRY_HELD || entry->slot != report->id.slot) {")]),
    "claims-unread": ("K-2 K-6", [
        core("shard.c", "shard->counter = 0;",
             "shard->counter = 0;\n        shard->has_claims = true;")]),
    "scan-before-bump": ("K-2 K-6", [
        core("shard.c", "shard->busy_serial != shard->serial || shard->state != SHARD_LOADING) {",
             "shard->busy_serial != shard->serial ||\n"
             "        (shard->state != SHARD_LOADING && shard->state != SHARD_BUMPING)) {"),
        core("shard.c", "    case SHARD_BUMPING:\n        ask_bump(shard);\n",
             "    case SHARD_BUMPING:\n        if (!shard->has_claims) {\n"
             "            shard->epoch = shard->generation * EPOCH_BUMP_COUNT + "
             "shard->bump_count;\n            ask_claims(shard);\n        } else {\n"
             "            ask_bump(shard);\n        }\n"),
        ("storage/mem_snapshot.c", "tables->shards[shard].epoch == epoch;",
         "tables->shards[shard].epoch <= epoch;")]),
    "release-frees-running": ("K-3", [
        core("shard.c", "entry->state == ENTRY_READY || entry->state == ENTRY_CLAIMED;",
             "entry->state == ENTRY_READY || entry->state == ENTRY_CLAIMED ||\n"
             "           entry->state == ENTRY_RUNNING;"),
        core("shard.c", "            if (broker->collected[i]->state == ENTRY_CLAIMED) {",
             "            if (broker->collected[i]->state == ENTRY_RUNNING) {\n"
             "                struct flight *out = broker->collected[i]->body.flight;\n"
             "                out->entry = NULL;\n"
             "                broker->collected[i]->body.block = out->block;\n"
             "                out->block = NULL;\n"
             "                broker->collected[i]->flying = 0;\n"
             "                claim_settle(shard, broker->collected[i]);\n"
             "            } else if (broker->collected[i]->state == ENTRY_CLAIMED) {")]),
    "retry-over-update": ("K-4", [
        core("claim.c", "op->task.due_ms = time_max(due_ms, entry->due_ms);",
             "op->task.due_ms = due_ms;")]),
    "counts-forgotten": ("K-2", [
        core("entry.c", "    entry->failures = (uint16_t)task->failures;\n"
             "    entry->unknowns = (uint16_t)task->unknowns;\n", "")]),
    "row-dropped-tainted": ("K-2 K-6", [
        core("claim.c", "if (!group->is_tainted) {", "if (group != NULL) {")]),
    "no-sweep": ("waste", [
        core("writer.c", ".sweep = sweep,", ".sweep = false,")]),
    # --- halves ---
    "halves-overlap": ("crash", [
        core("batch.c", "               ? half\n", "               ? BOTH_HALVES\n")]),
    "half-beside-both": ("crash", [
        core("batch.c", "if ((other->halves & half) != 0) {",
             "if ((other->halves & half) > BOTH_HALVES) {")]),
    "one-name-for-claims": ("crash", [
        core("writer.c", "options.writer + stream_of(batch)", "options.writer")]),
    # --- moves ---
    "handoff-before-release": ("hand-off", [
        core("shard.c", "bool is_waiting = shard->ops > 0 || has_unsettled(shard);",
             "bool is_waiting = shard->ops > 1000000 && has_unsettled(shard);")]),
    "watch-missed-unread": ("K-7", [
        ("coordinator/coord_zk.c",
         "        read_everything(zk);\n        zk_shard_minute(zk);\n        return;\n",
         "        return;\n")]),
    "free-unheard": ("K-7", [
        core("shard.c", "(request->result == ERR_EXISTS ? SCAN_US : broker->options.retry_us)",
             "(request->result == ERR_EXISTS ? 1000 * SCAN_US : broker->options.retry_us)")]),
    # --- order keys ---
    "order-ignored": ("order", [
        core("order.c", "if (line->head == entry->seq && !line->is_passed) {",
             "if (line->hold_ms == 0) {")]),
    "order-inherited-unseen": ("order", [
        core("order.c", "    size_t count = 0;\n\n    if (shard->is_seeing) {",
             "    size_t count = 0;\n\n    if (shard->claim_count > 0) {\n        return true;\n"
             "    }\n    if (shard->is_seeing) {")]),
    "order-overtaken-starts": ("order", [
        core("dispatch.c", "||\n        order_is_overtaken(shard, entry)) {", ") {")]),
    "order-cancelled-forgotten": ("order", [
        core("order.c", "wall_ms until_ms = running_until(line->shard, entry);",
             "wall_ms until_ms = 0 * running_until(line->shard, entry);")]),
    "order-stale-read": ("K-1 K-3 K-7 order", [
        core("order.c", "bool is_old = line->is_stale;", "bool is_old = false;")]),
    "order-arrival-missed": ("order", [
        core("order.c", "        is_old = is_old || row == NULL || line->arrived_ms < row->order_ms ||",
             "        is_old = is_old || row == NULL || line->arrived_ms + 60000 < row->order_ms ||")]),
    "order-next-forgotten": ("K-7", [
        core("order.c", "    line->has_more = line->has_more || line->head == 0;",
             "    line->has_more = line->head == 0;")]),
    "order-place-by-retry": ("order", [
        core("claim.c", "    order_set_place(queue, flight->block, op);",
             "    op->set_order = flight->block->order_len > 0;\n"
             "    op->task.order_ms = op->task.due_ms;")]),
    "order-skip-kept": ("order", [
        core("order.c", "        op->set_order = true;\n        op->task.order_ms = op->task.due_ms;\n"
             "    }\n}", "    }\n}")]),
    "order-near-claim": ("order", [
        core("claim.c", " || entry->body.block->order_len > 0) {", ") {")]),
    "order-block-given-up": ("order", [
        core("order.c", "queue->order_policy == ORDER_BLOCK) {", "queue->order_policy == 0) {")]),
    # --- unknown outcomes of writes ---
    "unknown-without-bump": ("K-1 K-2 K-3 K-8", [
        core("shard.c", "    case SHARD_BUMPING:\n        ask_bump(shard);\n",
             "    case SHARD_BUMPING:\n        if (shard->bump_count > 0 && shard->epoch != 0) {\n"
             "            shard_move(shard, SHARD_LOADING);\n        } else {\n"
             "            ask_bump(shard);\n        }\n")]),
    "unknown-ignored": ("K-1 K-2 K-3 K-6 K-7 audit K-8 hand-off", [
        core("writer.c", "shard_unknown(shard);", "(void)shard;")]),
    "unknown-is-refused": ("K-8", [
        core("call_done.c", "    list_add(&shard->unknown, &call->link);",
             "    call_answer(shard->broker, call, ERR_UNAVAILABLE);")]),
    "late-look": ("K-1 K-8", [
        core("window.c", "(shard->state == SHARD_LOADING && list_is_empty(&shard->unknown))",
             "shard->state == SHARD_LOADING"),
        core("call_life.c", "shard->state != SHARD_LOADING ||", "shard->state != SHARD_ACTIVE ||"),
        core("shard.c", "static void step_active(struct shard *shard)\n{",
             "static void step_active(struct shard *shard)\n{\n    call_look(shard);")]),
    # --- answers ---
    "cancel-before-commit": ("K-1 K-8", [
        core("call_task.c", "struct note note = {.kind = NOTE_CANCEL, .entry = entry, .call = call};",
             "struct note note = {.kind = NOTE_DISPLACE, .entry = entry};"),
        core("call_task.c", "    if (is_running) {\n        entry->flags |= ENTRY_TOUCHED;\n"
             "    } else {\n        seize(shard, entry, ENTRY_DELETING);\n    }\n}\n",
             "    if (is_running) {\n        entry->flags |= ENTRY_TOUCHED;\n"
             "    } else {\n        seize(shard, entry, ENTRY_DELETING);\n    }\n"
             "    call_answer(shard->broker, call, 0);\n}\n")]),
    "cancelled-though-held": ("assert", [
        core("call_task.c", "return entry->state == ENTRY_RUNNING || entry->state == ENTRY_HELD ?",
             "return entry->state == ENTRY_RUNNING ?")]),
    "absent-by-memory": ("K-1", [
        core("call_life.c", "    if (entry == NULL || entry->slot != id.slot) {\n        call_read_task(",
             "    if (entry == NULL || entry->slot != id.slot) {\n        call_absent(")]),
    "old-payload": ("K-1", [
        core("call_done.c", "entry->body.flight->is_outdated = true;", ";")]),
    "key-forgotten": ("K-8", [
        core("call_task.c", "(entry->flags & ENTRY_KEYED) != 0 &&", "entry->slot > 5000 &&")]),
    "key-at-once": ("K-8", [
        core("claim.c", "    op->key_until_ms = time_add(op->now_ms, queue->key_memory_ms);\n"
             "    op->end = end;",
             "    op->key_until_ms = 0;\n    op->end = end;")]),
    # --- the window ---
    "wheel-forgets": ("audit", [
        core("entry.c", "    wheel_add(wheel_of(shard, entry), &entry->node, at_ms);",
             "    if (entry->state == ENTRY_WAITING || entry->seq % 64 != 0) {\n"
             "        wheel_add(wheel_of(shard, entry), &entry->node, at_ms);\n    }")]),
    "deadline-forgotten": ("audit", [
        core("window.c", "    entry_wake_at(shard, entry, claim->deadline_ms);\n", "")]),
    "horizon-at-reply": ("K-7 audit", [
        core("window.c", "place.bucket <= shard->page.to_bucket) {",
             "place.bucket < INT64_MIN + 1) {")]),
    "ghosts-kept": ("K-1 K-3", [
        core("window.c", "    if (!shard->is_paging || shard->page_serial != shard->serial ||\n",
             "    if (seq != 0 || !shard->is_paging || shard->page_serial != shard->serial ||\n")]),
    "park-skips-one": ("K-7 audit", [
        core("window.c", "before(place_at(due_ms, entry->seq)))) {",
             "place_at(due_ms, entry->seq))) {")]),
    "park-unskipped": ("K-7 audit", [
        core("window.c", "page->queue == 0 && parked != NULL &&",
             "page->queue != 0 && parked != NULL &&")]),
    "past-unread": ("K-7 audit", [
        core("window.c", "reads_past(shard, shard->past) &&",
             "reads_past(shard, shard->past) && shard->target == 0 &&")]),
    "past-turn-kept": ("K-7 audit", [
        core("window.c", "    broker->databases[shard->database].is_reading_past = false;\n", "")]),
    "park-of-both-parts": ("K-7 audit", [
        core("park.c", "if (place_is_before(park->cursor, end)) {",
             "if (place_is_before(park->cursor, end) || end.seq == INT64_MAX) {")]),
    "past-read-as-near": ("K-7 audit", [
        core("window.c", "(park != NULL || shard->is_page_past == of_past);",
             "(park != NULL || shard->is_page_past != of_past);")]),
    "refill-never": ("K-7 audit", [
        core("window.c", "queue->line_len + queue->reading <= max / 2",
             "queue->line_len + queue->reading > 1000000")]),
    "blocked-queue-fills-memory": ("memory", [
        core("dispatch.c", "queue->line_len >= line_max(broker) && window_park",
             "queue->line_len > 1000000000 && window_park"),
        core("shed.c", "while (queue->line_len > max &&", "while (queue->line_len > max + 1000000 &&"),
        core("window.c", "return queue != NULL && queue->line_len >= line_load_max(broker, queue) &&",
             "return queue != NULL && queue->line_len > 1000000000 &&"),
        core("window.c", "(queue->line_len > 0 && queue->line_len >= line_load_max(shard->broker, queue)) ||",
             "queue->line_len > 1000000000 ||")]),
    "crowd-forgotten": ("K-7 audit", [
        core("shed.c", "if (is_beyond(shard, broker->collected[i])) {",
             "if (broker->collected[i] != NULL) {")]),
    "large-payload-kept": ("memory", [
        core("entry.c", "    entry->body.block = block_shed(entry->body.block);\n", ""),
        core("entry.c", "if (task->payload_len <= PAYLOAD_INLINE_BYTES_MAX) {",
             "if (task->payload_len <= PAYLOAD_INLINE_BYTES_MAX || task->payload.len > 0) {")]),
    # --- time ---
    "delay-from-below": ("K-4", [
        core("call_task.c", "wall_ms upper = upper_ms(", "wall_ms upper = -500 + upper_ms("),
        core("claim.c", "flight->attempt.due_ms = entry->due_ms;",
             "flight->attempt.due_ms = entry->due_ms + 500;")]),
    "due-by-upper": ("K-4", [
        core("dispatch.c", "wall_ms now_ms = lower_ms(broker, index);",
             "wall_ms now_ms = upper_ms(broker, index);"),
        core("dispatch.c", "REQUIRE(lower_ms(broker, shard->database) >= entry->due_ms);", "")]),
    "clock-from-midpoint": ("K-4", [
        ("lib/base/clock_estimate.c", "    return time_add(sample->db_us, age - drift_of(age));",
         "    return time_add(sample->db_us + (sample->received - sample->sent) / 2, "
         "age - drift_of(age));")]),
    "wheel-early": ("K-4", [
        core("wheel.c", "uint64_t target = tick_of(now);", "uint64_t target = tick_of(now) + 1;"),
        core("dispatch.c", "REQUIRE(lower_ms(broker, shard->database) >= entry->due_ms);", "")]),
    # --- placement and the coordinator ---
    "negative-hash": ("K-7 audit", [
        core("membership.c", "bool is_ours = broker->owners[i] == self_place;",
             "bool is_ours = broker->owners[i] == self_place && "
             "(int64_t)assign_score(i, slice_of(broker->self.name)) >= 0;")]),
    "body-unversioned": ("K-7 audit", [
        ("coordinator/coord_zk_self.c",
         ".version = self->version, // Not over a newer one, if it is held back.",
         ".version = -1,"),
        ("coordinator/coord_zk_self.c", "if (self->version != reply->stat.version) {",
         "if (self->version < 0) {")]),
    # --- the databases ---
    "epoch-unchecked": ("K-3 K-5", [
        ("storage/mem_tx.c", "op->epoch > 0 && shard->epoch == op->epoch;", "op->epoch > 0;")]),
    # --- what is read ---
    "list-leaves-one-out": ("read", [
        ("storage/mem_snapshot.c", "    case STORE_READ_SLICE:\n        take_slice(snapshot, shard, read);\n",
         "    case STORE_READ_SLICE:\n        take_slice(snapshot, shard, read);\n"
         "        snapshot->row_count -= read->to_bucket == INT64_MAX && snapshot->row_count > 1 "
         "&& !snapshot->has_more;\n")]),
    "counts-off": ("read", [
        ("storage/mem_snapshot.c", "count->overdue += task->due_ms <= now_ms;",
         "count->overdue += task->due_ms <= now_ms + 500;")]),
    "explained-otherwise": ("read", [
        core("explain.c", "        out->until_ms = row->due_ms;\n", "        out->until_ms = 0;\n")]),
    "result-forgotten": ("K-1", [
        core("claim.c", "    if (queue->result_memory_ms > 0) {",
             "    if (queue->result_memory_ms > 3600000) {")]),
    "redrive-is-purge": ("K-1", [
        core("call_task.c", "op->kind = is_redrive ? STORE_REDRIVE : STORE_PURGE;",
             "op->kind = STORE_PURGE;")]),
    # --- policies ---
    "pause-ignored": ("limit K-4", [
        core("entry.c", "return queue->is_known && !queue->is_held &&",
             "return queue->is_known &&")]),
    "concurrency-ignored": ("limit", [
        core("entry.c", "queue->flights + queue->fetching < queue->queue.concurrency_max;",
             "queue->fetching <= queue->queue.concurrency_max && queue->queue.concurrency_max > 0;")]),
    "never-gives-up": ("K-2", [
        core("retry.c", "state->failures >= policy->failures_max) {",
             "state->failures > policy->failures_max + 1000) {")]),
}
