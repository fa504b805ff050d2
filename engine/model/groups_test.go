package model_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/model"
)

func TestGroups(t *testing.T) {
	t.Parallel()
	free := model.Limits{Context: 8192, FreeWindows: true}
	for name, c := range map[string]struct {
		config model.Config
		limits model.Limits
		want   model.Groups
	}{
		"Gemma 3 1B":      {model.Config{Layers: 26, Sliding: 22, Window: 512}, free, model.Groups{Layers: 4, Full: 1, Sliding: 6, Window: 512}},
		"Gemma 3 4B":      {model.Config{Layers: 34, Sliding: 29, Window: 1024}, free, model.Groups{Layers: 5, Full: 1, Sliding: 6, Window: 1024}},
		"Gemma 3 12B":     {model.Config{Layers: 48, Sliding: 40, Window: 1024}, free, model.Groups{Layers: 8, Full: 1, Sliding: 5, Window: 1024}},
		"Gemma 3 27B":     {model.Config{Layers: 62, Sliding: 52, Window: 1024}, free, model.Groups{Layers: 6, Full: 2, Sliding: 9, Window: 1024}},
		"gpt-oss 20B":     {model.Config{Layers: 24, Sliding: 12, Window: 128}, free, model.Groups{Layers: 12, Full: 1, Sliding: 1, Window: 128}},
		"no windows":      {model.Config{Layers: 24}, free, model.Groups{Layers: 24, Full: 1}},
		"windows alone":   {model.Config{Layers: 24, Sliding: 24, Window: 128}, free, model.Groups{Layers: 24, Full: 1}},
		"an MTP layer":    {model.Config{Layers: 24, DraftLayers: 1, Sliding: 12, Window: 128}, free, model.Groups{Layers: 25, Full: 1}},
		"a short context": {model.Config{Layers: 24, Sliding: 12, Window: 128}, model.Limits{Context: 128, FreeWindows: true}, model.Groups{Layers: 24, Full: 1}},
		"nothing freed":   {model.Config{Layers: 24, Sliding: 12, Window: 128}, model.Limits{Context: 8192}, model.Groups{Layers: 24, Full: 1}},
	} {
		require.Equal(t, c.want, c.config.Groups(c.limits), name)
	}
}
