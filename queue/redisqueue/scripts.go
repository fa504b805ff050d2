package redisqueue

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

//go:embed lua
var sources embed.FS

// The scripts. Each file says what its values and rows are.
var (
	addScript        = load("lib/fill", "add")
	beatScript       = load("lib/delivery", "beat")
	beginScript      = load("lib/rows", "begin")
	cancelScript     = load("cancel")
	checkpointScript = load("lib/rows", "checkpoint")
	createScript     = load("create")
	deleteScript     = load("delete")
	drainScript      = load("lib/delivery", "drain")
	endScript        = load("lib/delivery", "lib/stats", "end")
	forwardScript    = load("forward")
	leaveScript      = load("leave")
	loseScript       = load("lose")
	pauseScript      = load("pause")
	queuedScript     = load("queued")
	reapScript       = load("lib/fill", "lib/delivery", "reap")
	recordScript     = load("lib/rows", "lib/finish", "lib/stats", "record")
	requeueScript    = load("requeue")
	resultsScript    = load("results")
	rightsScript     = load("rights")
	sealScript       = load("lib/finish", "seal")
	surviveScript    = load("survive")
	takeScript       = load("lib/fill", "take")
)

// errNotRunning means that a worker no longer has the task that it wants to begin.
var errNotRunning = errors.New("the task is not running")

// replies are the numbers with which scripts answer for a row. Scripts have them in the table
// reply. Refusals are 0 or less: begin.lua answers with the attempt, which is at least 1, for a row
// that begins.
var replies = []struct {
	name   string
	number int64
	err    error
}{
	{"ok", 1, nil},
	{"recorded", 0, queue.ErrRecorded},
	{"no_batch", -1, queue.ErrNoBatch},
	{"cancelled", -2, queue.ErrCancelled},
	{"other_file", -3, queue.ErrOtherFile},
	{"superseded", -4, queue.ErrSuperseded},
	{"no_row", -5, queue.ErrNoRow},
	{"other_model", -6, queue.ErrOtherModel},
	{"not_running", -7, errNotRunning},
}

// refusalOf returns the error for which a script's reply stands; nil for reply.ok.
func refusalOf(number int64) error {
	for _, r := range replies {
		if r.number == number {
			return r.err
		}
	}
	return fmt.Errorf("the reply of redis is %d, which is not known", number)
}

// isRefusal reports whether a script refused a row, as opposed to an error of Redis.
func isRefusal(err error) bool {
	for _, r := range replies {
		if r.err != nil && errors.Is(err, r.err) {
			return true
		}
	}
	return false
}

// load returns the script that consists of the lists that scripts share with this package, the
// prelude, and the given parts.
func load(parts ...string) *redis.Script {
	var text strings.Builder
	text.WriteString("local reply = {")
	for _, r := range replies {
		fmt.Fprintf(&text, "%s = %d, ", r.name, r.number)
	}
	fmt.Fprintf(&text, "}\nlocal batchKeys = {'%s'}\nlocal counters = {", strings.Join(batchKeys, "', '"))
	for _, c := range counters {
		fmt.Fprintf(&text, "'%s', ", c.name)
	}
	text.WriteString("}\n" + rowOf)
	for _, part := range append([]string{"lib/prelude"}, parts...) {
		source, err := sources.ReadFile("lua/" + part + ".lua")
		if err != nil {
			panic(err) // the file is part of the program
		}
		text.Write(source)
	}
	return redis.NewScript(text.String())
}

// call is a script with its values and rows, by name.
type call struct {
	script *redis.Script
	names  []string
	values []any
	width  int                         // number of columns of the rows
	read   func(list []any, err error) // receives the reply to runAll
}

// with returns a call. pairs are the names of the values, each followed by its value.
func with(script *redis.Script, pairs ...any) *call {
	c := &call{script: script}
	for i := 0; i < len(pairs); i += 2 {
		c.names = append(c.names, pairs[i].(string))
		c.values = append(c.values, pairs[i+1])
	}
	return c
}

// rows begins the rows of a call with n rows and these columns. add adds a row.
func (c *call) rows(n int, columns ...string) *call {
	c.width = len(columns)
	values := make([]any, 0, len(c.values)+1+n*c.width)
	c.values = append(append(values, c.values...), strings.Join(columns, " "))
	return c
}

func (c *call) add(values ...any) { c.values = append(c.values, values...) }

// queues adds the names of queues as the rows of a call.
func (c *call) queues(names []string) *call {
	c.rows(len(names), "queue")
	for _, name := range names {
		c.add(name)
	}
	return c
}

func (c *call) args() []any { return append([]any{strings.Join(c.names, " ")}, c.values...) }

func (q *Queue) run(ctx context.Context, c *call) *redis.Cmd {
	return c.script.Run(ctx, q.rdb, nil, c.args()...)
}

// check runs a script that replies with a number, and returns the error for which the number
// stands.
func (q *Queue) check(ctx context.Context, c *call) error {
	number, err := q.run(ctx, c).Int64()
	if err != nil {
		return err
	}
	return refusalOf(number)
}

// runAll runs scripts in one round trip, and passes each call its reply. A script that the server
// does not have yet is sent again, with its source.
func (q *Queue) runAll(ctx context.Context, calls ...*call) {
	pipe := q.rdb.Pipeline()
	cmds := make([]*redis.Cmd, len(calls))
	for i, c := range calls {
		cmds[i] = c.script.EvalSha(ctx, pipe, nil, c.args()...)
	}
	_, err := pipe.Exec(ctx)
	for i, c := range calls {
		switch {
		case cmds[i].Err() != nil && strings.HasPrefix(cmds[i].Err().Error(), "NOSCRIPT"):
			cmds[i] = q.run(ctx, c)
		case err != nil && cmds[i].Err() == nil && cmds[i].Val() == nil:
			cmds[i].SetErr(err) // it was not sent
		}
		c.read(cmds[i].Slice())
	}
}

// rowReply returns the part of a script's reply that is for row n. It is the error of the whole
// script, or the error for this row alone, if there is one.
func rowReply(list []any, n int, err error) (any, error) {
	switch {
	case err != nil:
		return nil, err
	case n >= len(list):
		return nil, errors.New("the reply of redis has no entry for this row")
	}
	switch r := list[n].(type) {
	case error:
		return nil, r
	case string:
		return nil, replyError(r)
	}
	return list[n], nil
}

// replyError is an error of Redis that a script has returned for one of several rows.
type replyError string

func (e replyError) Error() string { return string(e) }

// RedisError implements redis.Error.
func (replyError) RedisError() {}
