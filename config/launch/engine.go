package launch

import (
	"errors"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/engine"
)

// EngineOptions returns the options of an engine that answers rows.
func EngineOptions(cfg *config.Config) engine.Options {
	opts := cfg.Engine
	opts.MaxSequences = cfg.Concurrency
	return opts
}

// Engine loads a model, given by its file or its name, on the backend that the settings select.
func (l *Launch) Engine(name string, opts engine.Options) (*engine.Engine, error) {
	path, err := ModelFile(name)
	if err != nil {
		return nil, err
	}
	if opts.DraftModel != "" {
		if opts.DraftModel, err = ModelFile(opts.DraftModel); err != nil {
			return nil, err
		}
	}
	log := l.Log
	be, err := l.Backend()
	if err != nil {
		return nil, err
	}
	eng, err := engine.Open(path, be, opts)
	if err != nil {
		return nil, err
	}
	info := eng.Info()
	if defaults := info.Recommended.String(); defaults != "" {
		log.Info("rows that set no sampling option get the recommended settings; --sampling plain turns them off", "settings", defaults, "source", info.Recommended.Source)
	}
	if opts.MaxSequences == 0 {
		log.Info("rows at once are chosen by memory and the cost of steps", "concurrency", info.MaxSequences, "step_rows", info.StepTokens)
	}
	if l.capturing != nil {
		l.capturing.Begin() // only now, after the model is loaded
	}
	l.rows += eng.Info().Fit.Rows
	limitHeap(l.rows)
	return eng, nil
}

// Engines loads a model on each device that the settings name, or once on the CPU. If there is an
// error, no engine stays open.
func (l *Launch) Engines(name string, opts engine.Options) (all []*engine.Engine, err error) {
	whole := *l.Config
	for _, device := range whole.Devices {
		one := whole
		one.Device, one.Devices = device, []int{device}
		l.Config = &one
		eng, err := l.Engine(name, opts)
		if err != nil {
			return nil, errors.Join(err, CloseEngines(all))
		}
		all = append(all, eng)
		if eng.Info().Backend == config.BackendCPU {
			break
		}
	}
	return all, nil
}

// CloseEngines closes all engines. The error joins theirs.
func CloseEngines(all []*engine.Engine) (err error) {
	for _, eng := range all {
		err = errors.Join(err, eng.Close())
	}
	return err
}

// heapSlack is memory, in bytes, for what the heap holds besides the engine and its rows:
// connections, a line of input, a line of output.
const heapSlack = 32 << 20

// limitHeap limits the growth of the heap to rows plus heapSlack. The parameter rows is the number
// of bytes that rows may use. Without a limit, garbage could double the heap. The environment
// variable GOMEMLIMIT takes precedence.
func limitHeap(rows int64) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	debug.SetMemoryLimit(int64(m.Sys-m.HeapReleased) + rows + heapSlack)
}
