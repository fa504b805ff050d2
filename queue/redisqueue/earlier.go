package redisqueue

import (
	"context"
	"regexp"
)

// Everything that is here only for batches which earlier versions have queued. Those versions ran
// asynq's server beside their workers: a running task had a lease in asynq's sorted set; after a
// hand-over, a task had the id BATCH:LINE:NUMBER, with the number of the delivery; entries of a
// stream had a field "outcome" instead of "failed".
//
// Unfinished batches do not expire. So remove this file, its test and its calls only in a release
// whose notes tell users to finish or cancel such batches before they install it.

// rowOf is part of every script.
const rowOf = `
-- rowOf returns the batch and the line in the id of a task, or nil if the task is not a row's.
local function rowOf(id) return string.match(id, '^([^:]+):(%d+):?%d*$') end
`

var earlierID = regexp.MustCompile(`^([^:]+:[^:]+):[1-9]\d*$`)

// rowID returns the id of a task without the number of its delivery.
func rowID(task string) string { return earlierID.ReplaceAllString(task, "$1") }

// deleteLeases deletes the leases of an alias's tasks. No asynq server reads them.
func (q *Queue) deleteLeases(ctx context.Context, alias string) error {
	return failure(q.rdb.Del(ctx, asynqKeys(alias, "lease")...).Err(), "delete the leases of an earlier version")
}

// failedEarlier reports whether an entry of a stream is of a failed row.
func failedEarlier(entry map[string]any) bool { return entry["outcome"] == "failed" }
