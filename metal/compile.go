package metal

import (
	"maps"
	"runtime"
	"slices"
	"sync"

	"github.com/ingot-run/ingot/engine/gguf"
)

// compiler is a device whose Compile compiles every source once. Sources can be started before they
// are needed, so that they are compiled at the same time, and while weights are loaded.
type compiler struct {
	Device
	mode     Mode
	progress func(done, total int) // may be nil
	slots    chan struct{}         // limits the sources that are compiled at once
	running  sync.WaitGroup

	mu      sync.Mutex // guards the fields below
	sources map[string]*started
	done    int // compiled sources
}

// started is a source that is compiled or being compiled.
type started struct {
	ended chan struct{} // closed when lib and err are set
	lib   Library
	err   error
}

func newCompiler(dev Device, mode Mode, progress func(done, total int)) *compiler {
	return &compiler{Device: dev, mode: mode, progress: progress, slots: make(chan struct{}, runtime.GOMAXPROCS(0)), sources: map[string]*started{}}
}

// start begins to compile sources that have not been started yet. It does not wait.
func (c *compiler) start(sources ...Source) (last *started) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, src := range sources {
		have, ok := c.sources[src.Text]
		if !ok {
			have = &started{ended: make(chan struct{})}
			c.sources[src.Text] = have
			c.running.Add(1)
			go c.run(have, src)
		}
		last = have
	}
	c.report()
	return last
}

func (c *compiler) run(s *started, src Source) {
	defer c.running.Done()
	c.slots <- struct{}{}
	s.lib, s.err = c.Device.Compile(src, c.mode)
	<-c.slots
	c.mu.Lock()
	defer c.mu.Unlock()
	close(s.ended)
	c.done++
	c.report()
}

// report shows the progress. c.mu is held.
func (c *compiler) report() {
	if c.progress != nil && len(c.sources) > 0 {
		c.progress(c.done, len(c.sources))
	}
}

// Compile implements Device. If the source was started before, Compile waits for its end.
func (c *compiler) Compile(src Source, mode Mode) (Library, error) {
	if mode != c.mode {
		return c.Device.Compile(src, mode)
	}
	s := c.start(src)
	<-s.ended
	return s.lib, s.err
}

// Close implements Device. Compilations cannot be stopped, so Close waits for them.
func (c *compiler) Close() error {
	c.running.Wait()
	return c.Device.Close()
}

// unit is what is compiled at once: a kernel file, with the instances for one type of weights or of
// KV pages. If kind is empty, the file has no instances; if it is allTypes, those of all types that
// the default geometry chooses; if it is moreInstances, the others that the backend's geometry
// chooses, and wide tiles for the types for which it chooses them. So backends with different
// geometries have most sources in common, and a compiler's cache has them already.
type unit struct{ file, kind string }

const (
	allTypes      = "all types"
	moreInstances = "more instances"
)

// The files that have kernels for each type of weights or of KV pages, those that take longest to
// compile first.
var (
	weightFiles = []string{"product.metal", "experts.metal", "tiles.metal", "expert_tiles.metal", "absorb.metal", "rows.metal"}
	pageFiles   = []string{"attention_tile.metal", "attention.metal", "store.metal"}
)

// stateFiles are the files with kernels for recurrent states.
var stateFiles = []string{"recurrence.metal", "recurrence_chunks.metal", "states.metal"}

// unit returns the unit that has a file's kernels for a type. kind is empty for kernels that do not
// depend on a type. Of devices that do not compile by type, the unit has all types, and not the
// kernels in k.more.
func (k *kernelSet) unit(file, kind string) unit {
	if !k.device.Info().CompilesByType {
		kind = allTypes
	}
	return unit{file, kind}
}

// findMore lists the instances that the default geometry does not choose.
func (k *kernelSet) findMore() {
	k.more = map[string]unit{}
	if k.device.Info().CompilesByType {
		return
	}
	for file := range templates {
		k.compiled.eachInstance(file, weightTypes, k.defaults, func(kernel string, t gguf.Type, rows, inputs int) {
			k.more[instance(kernel, t, rows, inputs)] = unit{file, moreInstances}
		})
	}
}

// units returns the units that are compiled when a backend starts.
func (k *kernelSet) units() (list []unit) {
	info := k.device.Info()
	for _, file := range Files() {
		if info.CompilesByType && (typedOnly[file] || slices.Contains(stateFiles, file)) {
			continue
		}
		list = append(list, k.unit(file, ""))
	}
	more := slices.Collect(maps.Values(k.more))
	for _, file := range weightFiles {
		if u := (unit{file, moreInstances}); slices.Contains(more, u) || !info.CompilesByType && len(k.wideTypes(file)) > 0 {
			list = append(list, u)
		}
	}
	return list
}

// tileKernels are the kernels of the files that have wide tiles.
var tileKernels = map[string][]string{"tiles.metal": {ProductTile, GatedTile}, "expert_tiles.metal": {ExpertGatedTile, ExpertDownTile}}

// wideTypes returns the types of weights for which a file's libraries have wide tiles: those for
// which the geometry chooses them.
func (k *kernelSet) wideTypes(file string) (types []gguf.Type) {
	for _, t := range weightTypes {
		if slices.ContainsFunc(tileKernels[file], func(kernel string) bool { return k.compiled.hasWideTiles(kernel, t) }) {
			types = append(types, t)
		}
	}
	return types
}

// unitOf returns the unit that has a kernel with function constants. kind is that of unit.
func (k *kernelSet) unitOf(file, kernel, kind string, constants []uint32) unit {
	if u, ok := k.more[kernel]; ok {
		return u
	}
	u := k.unit(file, kind)
	if u.kind == allTypes && tileKernels[file] != nil && constants[2] == wideTileRows {
		u.kind = moreInstances
	}
	return u
}

// typedOnly are the files whose kernels all depend on a type.
var typedOnly = map[string]bool{
	"absorb.metal": true, "experts.metal": true, "expert_tiles.metal": true, "tiles.metal": true, "store.metal": true, "attention_tile.metal": true,
}

// source returns the source of a unit.
func (k *kernelSet) source(u unit) (Source, error) {
	switch u.kind {
	case allTypes:
		return kernelFor(u.file, weightTypes, gguf.CacheTypes(), k.defaults.instances(u.file, weightTypes, gguf.CacheTypes()), false)
	case moreInstances:
		types, wide := weightTypes, tileKernels[u.file] != nil
		if wide {
			types = k.wideTypes(u.file)
		}
		src, err := kernelFor(u.file, types, gguf.CacheTypes(), k.compiled.weightInstances(u.file, weightTypes, k.defaults), wide)
		src.Name += ", more instances"
		return src, err
	}
	types, pages := ofKind(weightTypes, u.kind), ofKind(gguf.CacheTypes(), u.kind)
	wide := slices.ContainsFunc(k.wideTypes(u.file), func(t gguf.Type) bool { return slices.Contains(types, t) })
	src, err := kernelFor(u.file, types, pages, k.compiled.instances(u.file, types, pages), wide)
	if u.kind == "" {
		return src, err
	}
	src.Name += " for " + u.kind
	switch u.file {
	case "tiles.metal", "expert_tiles.metal":
		src.Constants = k.tileConstants(u)
	case "product.metal", "experts.metal", "absorb.metal", "attention.metal", "attention_tile.metal", "store.metal":
		src.Constants = [][]Constant{constants(1)}
	}
	return src, err
}

// sources returns the sources of the kernels for a type of weights or of KV pages, if the device
// compiles by type. Otherwise all kernels were compiled when the backend started.
func (k *kernelSet) sources(files []string, kind string) (list []Source, err error) {
	if !k.device.Info().CompilesByType {
		return nil, nil
	}
	for _, file := range files {
		src, err := k.source(k.unit(file, kind))
		if err != nil {
			return nil, err
		}
		list = append(list, src)
	}
	return list, nil
}

// library returns the library of a unit. It compiles the unit if necessary.
func (k *kernelSet) library(u unit) (Library, error) {
	if have, ok := k.libraries[u]; ok {
		return have, nil
	}
	src, err := k.source(u)
	if err != nil {
		return 0, err
	}
	lib, err := k.device.Compile(src, k.mode)
	if err == nil {
		k.libraries[u] = lib
	}
	return lib, err
}
