// Package doctor examines a machine: its backends, the one that the settings choose, Redis, and
// whether a model fits and answers.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"github.com/ingot-run/ingot/bench/kernels"
	"github.com/ingot-run/ingot/config"
	"github.com/ingot-run/ingot/config/launch"
	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/cpu"
	cpukernels "github.com/ingot-run/ingot/engine/cpu/kernels"
	"github.com/ingot-run/ingot/internal/textfmt"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/metal/drivers"
	"github.com/ingot-run/ingot/queue/redisqueue"
)

// Diagnosis is what doctor prints. Sizes are in bytes.
type Diagnosis struct {
	Version    string          `json:"version"`
	Go         string          `json:"go"`
	System     string          `json:"system"` // operating system and architecture
	Processors int             `json:"processors"`
	Kernels    []string        `json:"cpu_kernels"` // instruction sets of this processor for which there are kernels; the first is used
	MemoryFree int64           `json:"memory_free"`
	Backends   []BackendState  `json:"backends"`
	Chosen     Choice          `json:"chosen"`
	Redis      *RedisState     `json:"redis,omitempty"`
	Model      *ModelFit       `json:"model,omitempty"`
	Answer     *Answer         `json:"answer,omitempty"` // nil without a model that fits
	opened     compute.Backend // the chosen backend; nil if it cannot be used
	tuner      *launch.Tuner
	tune       bool // the kernels of the chosen GPU are to be tuned
}

// BackendState is a backend with its device.
type BackendState struct {
	Name      string `json:"name"`
	Available bool   `json:"available"`
	Reason    string `json:"reason,omitempty"` // why it is not available
	Device    string `json:"device,omitempty"`

	// Properties and limits of a GPU.
	Family            string `json:"family,omitempty"`
	WorkingSet        int    `json:"working_set,omitempty"`
	MaxBuffer         int    `json:"max_buffer,omitempty"`
	MaxThreadgroup    int    `json:"max_threadgroup,omitempty"`
	ThreadgroupMemory int    `json:"threadgroup_memory,omitempty"`
	UnifiedMemory     bool   `json:"unified_memory,omitempty"`
	ResidencySets     bool   `json:"residency_sets,omitempty"`
	// Portable says why a GPU of NVIDIA does not run NVIDIA's kernels, which are faster.
	Portable string `json:"portable,omitempty"`
	// These come from the compiler. They are empty if no kernel was compiled.
	LanguageVersion string `json:"language_version,omitempty"`
	MathMode        string `json:"math_mode,omitempty"`
	// Matrices reports whether the kernels for many rows use simdgroup matrices: "used" or "not
	// used"; empty if no kernel was run.
	Matrices string `json:"matrices,omitempty"`
	// Swept is the number of kernel geometries in the user's geometry file.
	Swept int `json:"swept,omitempty"`
	// Tuning is what was measured for the sizes of kernels; nil if they have not been tuned.
	Tuning     *kernels.TuningResult `json:"tuning,omitempty"`
	TuningFile string                `json:"tuning_file,omitempty"` // where it is stored

	tuned       bool // Tuning is not from an earlier start
	unsupported bool // this machine has no device that can run the kernels; false if it has one that failed
}

// Choice is the backend that the settings choose.
type Choice struct {
	Setting string `json:"setting"`
	Backend string `json:"backend,omitempty"` // empty if none can be used
	Why     string `json:"why"`
}

// RedisState reports whether the Redis server can be used.
type RedisState struct {
	Reachable bool     `json:"reachable"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"` // about settings that can lose jobs
}

// ModelFit reports whether a model fits into memory, with the sizes.
type ModelFit struct {
	Path  string `json:"path"`
	Fits  bool   `json:"fits"`
	Error string `json:"error,omitempty"`
	// Automatic reports that Fit.Sequences is an upper limit for the number of rows at once, which
	// auto chooses by the cost of steps. Doctor does not measure it.
	Automatic bool `json:"concurrency_auto,omitempty"`
	engine.Fit
}

// Examine makes the diagnosis. If the parameter tune is true, it also tunes the kernels of the GPU
// that the settings choose. The error joins the problems of the backend, the server and the model
// that the settings name.
func Examine(ctx context.Context, cfg *config.Config, tuner *launch.Tuner, tune bool) (d *Diagnosis, problems error) {
	d = &Diagnosis{
		Version: tuner.Version, Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, Processors: runtime.NumCPU(),
		tuner: tuner, tune: tune,
	}
	for _, set := range cpukernels.Sets() {
		d.Kernels = append(d.Kernels, set.Name)
	}
	problems = d.examineBackends(cfg)
	if tune && d.Chosen.Backend != "" && !slices.ContainsFunc(d.Backends, func(b BackendState) bool { return b.tuned }) {
		problems = errors.Join(problems, fmt.Errorf("--tune requires a GPU that runs the kernels in Metal's language, but the backend is %s", d.Chosen.Backend))
	}
	defer func() {
		if d.opened != nil {
			problems = errors.Join(problems, d.opened.Close())
		}
	}()
	if cfg.Redis != "" {
		problems = errors.Join(problems, d.examineRedis(ctx, cfg))
	}
	if cfg.Model != "" && d.opened != nil {
		err := d.examineModel(cfg)
		if err == nil {
			err = d.ask(ctx, cfg)
		}
		problems = errors.Join(problems, err)
	}
	return d, problems
}

// examineBackends opens each backend, and leaves the chosen one open.
func (d *Diagnosis) examineBackends(cfg *config.Config) error {
	opened := map[string]compute.Backend{}
	add := func(s BackendState, be compute.Backend) {
		d.Backends = append(d.Backends, s)
		opened[s.Name] = be
	}
	all := drivers.All()
	forUse := len(drivers.Names(true))
	for i := range all[:forUse] {
		add(d.examineDriver(cfg, &all[i]))
	}
	d.Chosen = Choice{Setting: cfg.Backend, Backend: cfg.Backend, Why: "the settings name it"}
	if cfg.Backend == config.BackendAuto {
		d.chooseAuto()
	}
	add(d.examineCPU(cfg))
	var err error
	if d.Chosen.Backend == config.BackendCPU {
		err = launch.CheckCPU(cfg)
	}
	for i := range all[forUse:] {
		add(d.examineDriver(cfg, &all[forUse+i]))
	}
	for name, be := range opened {
		switch {
		case be == nil:
		case name == d.Chosen.Backend:
			d.opened = be
		default:
			err = errors.Join(err, be.Close())
		}
	}
	if d.opened == nil {
		for _, b := range d.Backends {
			if b.Name == d.Chosen.Backend {
				d.Chosen.Why = b.Reason
				err = errors.Join(err, fmt.Errorf("backend %s: %s", b.Name, b.Reason))
			}
		}
		d.Chosen.Backend = ""
	}
	return err
}

func (d *Diagnosis) chooseAuto() {
	for i := range d.Backends {
		b := &d.Backends[i]
		if !b.unsupported {
			d.Chosen.Backend, d.Chosen.Why = b.Name, "there is a GPU that the kernels run on"
			return
		}
	}
	d.Chosen.Backend, d.Chosen.Why = config.BackendCPU, "no GPU can be used"
}

func (d *Diagnosis) examineCPU(cfg *config.Config) (BackendState, compute.Backend) {
	s := BackendState{Name: config.BackendCPU}
	be, err := cpu.NewWith(cpu.Options{Threads: cfg.Threads, Precision: cfg.Precision})
	if err != nil {
		s.Reason = textfmt.OneLine(err.Error())
		return s, nil
	}
	s.Available, s.Device = true, be.Device()
	if d.MemoryFree, err = be.Free(); err != nil {
		d.MemoryFree = 0 // 0 means unknown
	}
	return s, be
}

// examineDriver opens a driver's device and compiles the kernels. Compiling takes minutes for a
// driver that is only for tests, so the kernels of such a driver are compiled only if the settings
// name it. The returned backend is nil if no kernels were compiled.
func (d *Diagnosis) examineDriver(cfg *config.Config, driver *drivers.Driver) (BackendState, compute.Backend) {
	s := BackendState{Name: driver.Name}
	number := 0
	if cfg.Backend == driver.Name || cfg.Backend == config.BackendAuto && driver.Auto {
		number = cfg.Device
	}
	dev, err := driver.Open(number)
	if err != nil {
		s.Reason, s.unsupported = textfmt.OneLine(err.Error()), errors.Is(err, metal.ErrUnsupported)
		return s, nil
	}
	s.fill(dev.Info())
	if !driver.Auto && cfg.Backend != driver.Name {
		s.LanguageVersion, s.MathMode, s.Available = "", "", true
		if err := dev.Close(); err != nil {
			s.Available, s.Reason = false, textfmt.OneLine(err.Error())
		}
		return s, nil
	}
	geometry, err := metal.ReadGeometryFile(config.GeometryFile())
	if err != nil {
		s.Reason = textfmt.OneLine(errors.Join(err, dev.Close()).Error())
		return s, nil
	}
	s.Swept = len(geometry)
	s.tuned = d.tune && (launch.Tunes(dev.Info()) || !driver.Auto) && (cfg.Backend == driver.Name || cfg.Backend == config.BackendAuto)
	if !s.tuned {
		s.Tuning = d.tuner.Stored(dev.Info())
	} else if s.Tuning, err = d.tuner.Tune(dev, cfg.Kernels); err != nil {
		s.Reason = textfmt.OneLine(errors.Join(err, dev.Close()).Error())
		return s, nil
	}
	if s.Tuning != nil {
		s.TuningFile = launch.TuningFile(dev.Info())
		geometry = s.Tuning.Geometry().With(geometry)
	}
	be, err := metal.New(dev, metal.Options{Mode: cfg.Kernels, Geometry: geometry})
	if err != nil {
		s.Reason = textfmt.OneLine(err.Error())
		return s, nil
	}
	s.fill(dev.Info())
	s.Matrices = "used"
	if be.PlainTiles() {
		s.Matrices = "not used"
	}
	s.Available, s.Device = true, be.Device()
	return s, be
}

func (s *BackendState) fill(i metal.Info) {
	s.Device, s.Family, s.WorkingSet, s.MaxBuffer = i.Name, i.Family, i.Memory, i.MaxBuffer
	s.MaxThreadgroup, s.ThreadgroupMemory, s.UnifiedMemory, s.ResidencySets = i.MaxThreadgroup, i.ThreadgroupMemory, i.UnifiedMemory, i.ResidencySets
	s.LanguageVersion, s.MathMode, s.Portable = i.LanguageVersion, i.MathMode, i.Portable
}

func (d *Diagnosis) examineRedis(ctx context.Context, cfg *config.Config) error {
	d.Redis = &RedisState{}
	queue, warnings, err := redisqueue.Dial(ctx, cfg.Redis, 1, nil)
	if err != nil {
		d.Redis.Error = textfmt.OneLine(err.Error())
		return err
	}
	d.Redis.Reachable, d.Redis.Warnings = true, warnings
	err = queue.CheckServer(ctx)
	if err != nil {
		d.Redis.Error = textfmt.OneLine(err.Error())
	}
	return errors.Join(err, queue.Close())
}

func (d *Diagnosis) examineModel(cfg *config.Config) error {
	d.Model = &ModelFit{Path: cfg.Model}
	path, err := launch.ModelFile(cfg.Model)
	if err == nil {
		d.Model.Path = path
		d.Model.Fit, err = engine.CheckFit(path, d.opened, launch.EngineOptions(cfg))
	}
	if err != nil {
		d.Model.Error = textfmt.OneLine(err.Error())
		return err
	}
	d.Model.Fits, d.Model.Automatic = true, cfg.Concurrency == 0
	return nil
}
