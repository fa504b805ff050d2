package engine

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/engine/internal/draft"
)

// Drafting selects how tokens are drafted (speculative decoding).
type Drafting string

// The ways to draft.
const (
	DraftAuto  Drafting = "auto"  // by the MTP layer, if any, or from n-grams, chosen by measured acceptance and cost
	DraftMTP   Drafting = "mtp"   // by the model's MTP layer
	DraftNGram Drafting = "ngram" // from n-grams of the sequence's own text
	DraftModel Drafting = "model" // by a small model of the same vocabulary
	DraftOff   Drafting = "off"
)

// DraftSettings lists the settings that ParseDrafting accepts. FILE is the file of the small model.
const DraftSettings = "auto, mtp, ngram, model=FILE or off"

// MaxDraftTokens is the maximum of Options.DraftTokens.
const MaxDraftTokens = draft.MaxTokens

// ParseDrafting parses s, which must be one of DraftSettings. file is the FILE of model=FILE, and empty for other settings.
func ParseDrafting(s string) (how Drafting, file string, err error) {
	if file, ok := strings.CutPrefix(s, string(DraftModel)+"="); ok && file != "" {
		return DraftModel, file, nil
	}
	switch how := Drafting(s); how {
	case DraftAuto, DraftMTP, DraftNGram, DraftOff:
		return how, "", nil
	}
	return "", "", fmt.Errorf("%q is not known: use %s", s, DraftSettings)
}
