package engine

import (
	"errors"
	"fmt"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/engine/model"
	"github.com/ingot-run/ingot/engine/tokenizer"
)

type files struct {
	model       *gguf.File
	config      model.Config
	tokenizer   *tokenizer.Tokenizer
	draft       *gguf.File // file of the small model; nil unless Options.Draft is DraftModel
	draftConfig model.Config
}

// openFiles opens the model's file and the small model's, if the options name one. It checks that
// both have the same vocabulary.
func openFiles(path string, o *Options) (*files, error) {
	f := &files{}
	err := f.openModel(path)
	if err == nil && o.Draft == DraftModel {
		if err = f.openDraft(o.DraftModel); err != nil {
			err = fmt.Errorf("load the small model for drafts: %w", err)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

func (f *files) openModel(path string) (err error) {
	if f.model, err = gguf.Open(path); err != nil {
		return err
	}
	if f.config, err = model.ReadConfig(f.model); err != nil {
		return err
	}
	if f.config.Assistant {
		return fmt.Errorf("load %s: the model only drafts for another one: give it with --draft model=%[1]s when you run that model", path)
	}
	if f.tokenizer, err = tokenizer.New(f.model.Meta()); err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if n := f.tokenizer.Size(); n != f.config.Vocab {
		return fmt.Errorf("load %s: the tokenizer has %d tokens, but the embedding has %d: download or convert the model again",
			path, n, f.config.Vocab)
	}
	return nil
}

// openDraft opens the small model's file. The small model must have the same tokens as the model.
func (f *files) openDraft(path string) (err error) {
	if f.draft, err = gguf.Open(path); err != nil {
		return err
	}
	if f.draftConfig, err = model.ReadConfig(f.draft); err != nil {
		return err
	}
	if f.draftConfig.States.Layers > 0 {
		return fmt.Errorf("%s has recurrent layers: use a small model in which all layers have attention", path)
	}
	if f.draftConfig.Grouped() {
		return fmt.Errorf("%s has layers that store different numbers of values, which a small model for drafts cannot have: use another small model", path)
	}
	tokens, err := tokenizer.New(f.draft.Meta())
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	if tokens.Size() != f.tokenizer.Size() || f.draftConfig.Vocab != f.config.Vocab {
		return fmt.Errorf("the small model has %d tokens in its tokenizer and %d in its embedding, but the model has %d in both: "+
			"use a small model with the same vocabulary", tokens.Size(), f.draftConfig.Vocab, f.config.Vocab)
	}
	for id := range int32(tokens.Size()) {
		if a, b := tokens.Token(id), f.tokenizer.Token(id); a != b {
			return fmt.Errorf("token %d is %q in the small model, but %q in the model: use a small model with the same vocabulary", id, a, b)
		}
	}
	return nil
}

func (f *files) close() error {
	var err error
	for _, file := range []*gguf.File{f.model, f.draft} {
		if file != nil {
			err = errors.Join(err, file.Close())
		}
	}
	return err
}
