package redisqueue

import (
	_ "embed"

	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/queue"
)

var (
	//go:embed lua/create.lua
	createSource string
	//go:embed lua/begin.lua
	beginSource string
	//go:embed lua/release.lua
	releaseSource string
	//go:embed lua/refusal.lua
	refusalSource string
	//go:embed lua/record.lua
	recordSource string
	//go:embed lua/seal.lua
	sealSource string
	//go:embed lua/finish.lua
	finishSource string
	//go:embed lua/cancel.lua
	cancelSource string
	//go:embed lua/results.lua
	resultsSource string
	//go:embed lua/retry.lua
	retrySource string
	//go:embed lua/add.lua
	addSource string
	//go:embed lua/fill.lua
	fillSource string
	//go:embed lua/waiting.lua
	waitingSource string
	//go:embed lua/drain.lua
	drainSource string
	//go:embed lua/delete.lua
	deleteSource string
	//go:embed lua/pause.lua
	pauseSource string
	//go:embed lua/giveback.lua
	giveBackSource string
	//go:embed lua/end.lua
	endSource string
	//go:embed lua/checkpoint.lua
	checkpointSource string

	//go:embed lua/beat.lua
	beatSource string
	//go:embed lua/lose.lua
	loseSource string
	//go:embed lua/leave.lua
	leaveSource string

	//go:embed lua/take.lua
	takeSource string
	//go:embed lua/own.lua
	ownSource string
	//go:embed lua/disown.lua
	disownSource string
	//go:embed lua/owners.lua
	ownersSource string
	//go:embed lua/inspect.lua
	inspectSource string
	//go:embed lua/revoke.lua
	revokeSource string
	//go:embed lua/handover.lua
	handoverSource string
	//go:embed lua/continue.lua
	continueSource string
	//go:embed lua/survive.lua
	surviveSource string

	createScript   = redis.NewScript(createSource)
	beginScript    = redis.NewScript(refusalSource + beginSource)
	releaseScript  = redis.NewScript(releaseSource)
	recordScript   = redis.NewScript(refusalSource + finishSource + recordSource)
	sealScript     = redis.NewScript(finishSource + sealSource)
	cancelScript   = redis.NewScript(cancelSource)
	resultsScript  = redis.NewScript(resultsSource)
	retryScript    = redis.NewScript(retrySource)
	pauseScript    = redis.NewScript(pauseSource)
	giveBackScript = redis.NewScript(giveBackSource)
	endScript      = redis.NewScript(endSource)
	addScript      = redis.NewScript(fillSource + addSource)
	deleteScript   = redis.NewScript(deleteSource)

	waitingScript = redis.NewScript(waitingSource)
	drainScript   = redis.NewScript(drainSource)

	checkpointScript = redis.NewScript(refusalSource + checkpointSource)

	beatScript  = redis.NewScript(beatSource)
	loseScript  = redis.NewScript(loseSource)
	leaveScript = redis.NewScript(leaveSource)

	takeScript     = redis.NewScript(fillSource + takeSource)
	ownScript      = redis.NewScript(ownSource)
	disownScript   = redis.NewScript(disownSource)
	ownersScript   = redis.NewScript(ownersSource + "return owners(ARGV[1])\n")
	inspectScript  = redis.NewScript(fillSource + ownersSource + inspectSource)
	revokeScript   = redis.NewScript(revokeSource)
	handoverScript = redis.NewScript(handoverSource)
	continueScript = redis.NewScript(continueSource)
	surviveScript  = redis.NewScript(surviveSource)
)

// scriptError returns the error that a script's reply stands for, or nil.
func scriptError(n int) error {
	switch n {
	case -1:
		return queue.ErrNoBatch
	case -2:
		return queue.ErrCancelled
	case -3:
		return queue.ErrOtherFile
	case -4:
		return queue.ErrSuperseded
	case -5:
		return queue.ErrNoRow
	case -6:
		return queue.ErrOtherModel
	case -7:
		return queue.ErrDeliveryEnded
	}
	return nil
}
