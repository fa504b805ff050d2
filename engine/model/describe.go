package model

import (
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
)

// ReadConfig describes the model of a file without loading it. The file's weights are not checked against it.
func ReadConfig(f *gguf.File) (Config, error) {
	arch, err := f.Meta().String("general.architecture")
	if err != nil {
		return Config{}, fmt.Errorf("read the model of %s: %w", f.Path(), err)
	}
	l := newLoader(nil, f, arch)
	var c Config
	switch arch {
	case "llama":
		c, _ = l.llamaConfig()
	case "deepseek2", "glm4moelite":
		c = l.glmConfig(l.mlaShape())
	default:
		l.fail(fmt.Errorf("architecture %q: %w (llama and deepseek2 are)", arch, ErrUnsupported))
	}
	if l.err != nil {
		return Config{}, fmt.Errorf("read the model of %s: %w", f.Path(), l.err)
	}
	return c, nil
}
