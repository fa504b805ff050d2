package engine

import (
	"fmt"
	"strings"

	"github.com/ingot-run/ingot/engine/draft"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

// Drafting is how tokens are drafted.
type Drafting string

// The ways to draft.
const (
	DraftAuto  Drafting = "auto"  // by the MTP layer where the model has one, and by look-up, as measured acceptance and cost advise
	DraftMTP   Drafting = "mtp"   // by the model's MTP layer
	DraftNGram Drafting = "ngram" // by look-up in the sequence's own text
	DraftModel Drafting = "model" // by a small model of the same vocabulary
	DraftOff   Drafting = "off"
)

// ParseDrafting reads a setting: auto, mtp, ngram, off, or model=FILE with the small model's file.
func ParseDrafting(s string) (how Drafting, file string, err error) {
	if file, ok := strings.CutPrefix(s, "model="); ok && file != "" {
		return DraftModel, file, nil
	}
	switch how := Drafting(s); how {
	case DraftAuto, DraftMTP, DraftNGram, DraftOff:
		return how, "", nil
	}
	return "", "", fmt.Errorf("drafting %q is not known: use auto, mtp, ngram, model=FILE or off", s)
}

// openDraftFile opens the small model's file, whose tokens have to be the model's, and counts it into the plan.
func (e *Engine) openDraftFile(plan *memoryPlan) error {
	var err error
	if e.draftFile, err = gguf.Open(e.opts.DraftModel); err != nil {
		return err
	}
	config, err := model.ReadConfig(e.draftFile)
	if err != nil {
		return err
	}
	tokens, err := tokenizer.New(e.draftFile.Meta())
	if err != nil {
		return err
	}
	if tokens.Size() != e.tokenizer.Size() || config.Vocab != e.config.Vocab {
		return fmt.Errorf("it has %d tokens and the model %d: take one with the same vocabulary", config.Vocab, e.config.Vocab)
	}
	for id := range int32(tokens.Size()) {
		if a, b := tokens.Token(id), e.tokenizer.Token(id); a != b {
			return fmt.Errorf("its token %d is %q and the model's %q: take one with the same vocabulary", id, a, b)
		}
	}
	return plan.add(e.draftFile, config, e.opts.KV)
}

// speculation sets up drafting as the options say; it is nil where nothing is drafted.
func (e *Engine) speculation(m model.Model, limits model.Limits) (*speculation, error) {
	how := e.opts.Draft
	sp := &speculation{pool: e.loop.pool, meter: &e.meter, rows: limits.Rows, vocab: e.config.Vocab, fixed: e.opts.DraftTokens, looksUp: how == DraftAuto || how == DraftNGram}
	sp.planner.Limit = draft.MaxTokens
	switch {
	case how == DraftOff:
		return nil, nil
	case how == DraftModel:
		small, err := model.Load(e.backend, e.draftFile, limits)
		if err != nil {
			return nil, err
		}
		sp.chain = newModelChain(small, limits.Rows)
	case how == DraftMTP && e.config.DraftLayers == 0:
		return nil, fmt.Errorf("draft with %s: the file has no MTP layer; use auto, ngram, model=FILE or off", e.file.Path())
	case how != DraftNGram && e.config.DraftLayers > 0:
		sp.chain = newMTPChain(m.(model.Drafter), limits.Rows)
	}
	if err := sp.measure(m.Forward, limits.Rows, limits.Pages); err != nil {
		return nil, err
	}
	return sp, nil
}
