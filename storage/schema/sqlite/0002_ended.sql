-- SPDX-License-Identifier: Apache-2.0
-- What a kept result says besides. outcome: enum task_end.
ALTER TABLE ended ADD COLUMN unknowns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ended ADD COLUMN expire_ms INTEGER NOT NULL DEFAULT 0;
