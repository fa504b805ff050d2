package eval

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/ingot-run/ingot/eval/task"
)

// Settings replace settings of tasks. The zero value of a field leaves the task's own setting.
type Settings struct {
	Data, Examples string // paths of the files of rows and of examples
	Shots          *int   // number of examples before each prompt
	Chat           *bool  // prompts of tasks that generate are sent as messages
	Multiturn      *bool  // with Chat: examples are messages of their own
	Limit          int    // maximum number of rows of each task
}

// LoadAll reads the rows of tasks and makes their prompts.
func LoadAll(tasks []*task.Task, settings Settings) ([]*Set, error) {
	var sets []*Set
	for _, t := range tasks {
		if settings.Data != "" {
			t.Data = settings.Data
		}
		if settings.Examples != "" {
			t.FewShotData = settings.Examples
		}
		if settings.Shots != nil {
			t.Shots = *settings.Shots
		}
		if settings.Chat != nil && t.Type.Generates() {
			t.Chat = *settings.Chat
		}
		if settings.Multiturn != nil {
			t.Multiturn = *settings.Multiturn
		}
		s, err := Load(t, settings.Limit)
		if err != nil {
			return nil, err
		}
		if err := s.try(); err != nil {
			return nil, fmt.Errorf("load task %s: %w", t.Name, err)
		}
		sets = append(sets, s)
	}
	return sets, nil
}

// Answer answers the requests in a file that have no answer yet, and adds the answers to another
// file. It is given the paths of both.
type Answer func(ctx context.Context, requests, answers string) error

// Evaluate evaluates tasks: it writes their requests, has them answered, and scores the answers. It
// continues a run that was interrupted. folder is the directory of the run; the error wraps ErrBusy
// if another process writes to it. judge answers the
// requests to the judge; it is only called if one of the tasks has a judge.
func Evaluate(ctx context.Context, folder string, sets []*Set, groups []task.Group, c Config, answer, judge Answer) (*Results, error) {
	unlock, err := lock(folder)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if err := Prepare(folder, sets); err != nil {
		return nil, err
	}
	if err := answer(ctx, filepath.Join(folder, RequestsFile), filepath.Join(folder, AnswersFile)); err != nil {
		return nil, err
	}
	if Judged(sets) {
		if err := PrepareJudge(folder, sets); err != nil {
			return nil, err
		}
		if err := judge(ctx, filepath.Join(folder, JudgeRequestsFile), filepath.Join(folder, JudgeAnswersFile)); err != nil {
			return nil, fmt.Errorf("score the answers with the judge: %w", err)
		}
	}
	return Score(folder, sets, groups, c)
}

// ErrBusy means that another process evaluates into the directory of a run.
var ErrBusy = errors.New("another evaluation is writing to the directory")

// lock makes the directory of a run and locks it until unlock is called or the process ends. On a
// file system without locks, it only makes the directory.
func lock(folder string) (unlock func(), err error) {
	var dir *os.File
	err = os.MkdirAll(folder, 0o755)
	if err == nil {
		dir, err = os.Open(folder)
	}
	if err != nil {
		return nil, fmt.Errorf("make the directory of a run: %w", err)
	}
	if err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%s: %w: wait until it has ended, or give another directory", folder, ErrBusy), dir.Close())
	}
	return func() { dir.Close() }, nil //nolint:errcheck // nothing was written; closing removes the lock
}
