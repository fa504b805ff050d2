package config

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

// Memory is how much memory a model's weights and KV cache may take together: Bytes, or where those are 0 a share of what
// is free.
type Memory struct {
	Bytes   int64
	Percent int // 1 to 100
}

// kvTypes are the types of the KV cache by their settings.
var kvTypes = map[string]gguf.Type{"f32": gguf.TypeF32, "f16": gguf.TypeF16, "q8_0": gguf.TypeQ80, "q4_0": gguf.TypeQ40}

func setKV(c *Config, s string) error {
	t, ok := kvTypes[s]
	if !ok {
		return fmt.Errorf("%q is not known; give f32, f16, q8_0 or q4_0", s)
	}
	c.KV = t
	return nil
}

// kernelModes are the modes of the GPU's kernels by their settings.
var kernelModes = map[string]metal.Mode{"release": metal.Release, "debug": metal.Debug, "fast": metal.FastMath}

func setKernels(c *Config, s string) error {
	mode, ok := kernelModes[s]
	if !ok {
		return fmt.Errorf("%q is not known; give release, debug or fast", s)
	}
	c.Kernels = mode
	return nil
}

// unit is a unit of sizes.
type unit struct {
	name  string
	bytes float64
}

// units are those that a size may have. B is last, since it ends all others.
var units = []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

func setMemory(c *Config, s string) error {
	c.Memory = Memory{}
	if share, ok := strings.CutSuffix(s, "%"); ok {
		var err error
		c.Memory.Percent, err = integer(share, 1, 100)
		return err
	}
	if i := slices.IndexFunc(units, func(u unit) bool { return strings.HasSuffix(s, u.name) }); i >= 0 {
		n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, units[i].name)), 64)
		if bytes := n * units[i].bytes; err == nil && bytes >= 1 && bytes < math.MaxInt64 {
			c.Memory.Bytes = int64(bytes)
			return nil
		}
	}
	return fmt.Errorf("%q is no size; give one such as 12GiB or 800MB, or a share of what is free such as %d%%", s, engine.DefaultMemoryPercent)
}

func setDraft(c *Config, s string) (err error) {
	c.Draft, c.DraftModel, err = engine.ParseDrafting(s)
	return err
}

func setDraftTokens(c *Config, s string) (err error) {
	if c.DraftTokens = 0; s == "auto" {
		return nil
	}
	if c.DraftTokens, err = integer(s, 1, engine.MaxDraftTokens); err != nil {
		return fmt.Errorf("%w, or auto", err)
	}
	return nil
}
