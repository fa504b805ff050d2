// Package recommended finds the sampling settings that a model's makers recommend: those in the
// model's file or, if the file has none, those of a list of well-known models.
package recommended

import (
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/gguf"
)

// FromFile is the source of settings that the model's file has.
const FromFile = "the model's file"

// Of returns the settings for the model of a file. The temperature is 1 if neither the file nor the
// list names one.
func Of(f *gguf.File) generation.Recommended {
	if r := inFile(f.Meta()); r.Source != "" {
		return r
	}
	return named(namesOf(f))
}

// inFile returns the settings in a file's metadata. llama.cpp's converter copies them from the
// model's generation_config.json. Values that no request may have are left out, and so are samplers
// that Ingot does not have (mirostat, XTC).
func inFile(meta *gguf.Metadata) generation.Recommended {
	s, found := generation.Sampling{Temperature: 1}, false
	number := func(key string, low, high float64, to *float64) {
		v, err := meta.Float("general.sampling." + key)
		if err != nil {
			return
		}
		if v = shortest(v); v >= low && v <= high { // false for NaN
			*to, found = v, true
		}
	}
	number("temp", 0, 2, &s.Temperature)
	number("top_p", 1e-6, 1, &s.TopP)
	number("min_p", 0, 1, &s.MinP)
	number("penalty_repeat", 1e-3, 100, &s.RepetitionPenalty)
	if k, err := meta.Int("general.sampling.top_k"); err == nil && k >= 0 && k <= maxTopK {
		s.TopK, found = int(k), true
	}
	if !found {
		return generation.Recommended{}
	}
	return generation.Recommended{Sampling: s, Source: FromFile}
}

const maxTopK = 1<<31 - 1

// shortest returns the number that someone wrote as a decimal before it was stored as a float32:
// 0.95 and not 0.949999988079071.
func shortest(v float64) float64 {
	decimal, err := strconv.ParseFloat(strconv.FormatFloat(v, 'g', -1, 32), 64)
	if err != nil || float32(decimal) != float32(v) {
		return v
	}
	return decimal
}

// namesOf returns the names of a model in lower case, with hyphens between words: the name and the
// base name with the kind of training in the metadata, and the name of the file.
func namesOf(f *gguf.File) (names []string) {
	meta := f.Meta()
	text := func(key string) string {
		s, err := meta.String("general." + key)
		if err != nil {
			return ""
		}
		return s
	}
	for _, name := range []string{text("name"), text("basename") + " " + text("finetune"), strings.TrimSuffix(filepath.Base(f.Path()), ".gguf")} {
		names = append(names, strings.Trim(separators.ReplaceAllString(strings.ToLower(name), "-"), "-"))
	}
	return names
}

var separators = regexp.MustCompile(`[^a-z0-9.]+`)

// named returns the settings of the first entry of the list that one of a model's names matches. A
// model that was trained only on texts has none.
func named(names []string) generation.Recommended {
	for _, name := range names {
		if base.MatchString(name) {
			return generation.Recommended{}
		}
	}
	for _, e := range List {
		for _, name := range names {
			if e.name.MatchString(name) {
				return generation.Recommended{Sampling: e.Sampling, Source: e.Source}
			}
		}
	}
	return generation.Recommended{}
}

var base = regexp.MustCompile(`-base(-|$)|-pt(-|$)`)
