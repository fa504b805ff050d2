package launch

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/hub"
)

// ModelFile returns the path of a model, given by its file or its name. It makes no network
// request.
func ModelFile(name string) (string, error) {
	n, err := hub.ParseName(name)
	if err != nil {
		return "", fmt.Errorf("find the model: %w", err)
	}
	store := hub.Store{Env: hub.ReadEnv()}
	if err := store.CheckFile(n); err != nil {
		return "", err
	}
	found, err := store.Find(n)
	return found.Path, err
}

// ModelSize returns the size of a model's file in bytes; 0 if it is not known. The error is that of
// ModelFile.
func ModelSize(name string) (int64, error) {
	path, err := ModelFile(name)
	if err != nil {
		return 0, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, nil //nolint:nilerr // opening the file reports it
	}
	return info.Size(), nil
}

// OpenModel opens a model's file, given its path or a model name.
func OpenModel(name string) (*gguf.File, error) {
	path, err := ModelFile(name)
	if err != nil {
		return nil, err
	}
	return gguf.Open(path)
}

// TemplateSum returns the SHA-256 of the chat template in a model's file; empty if the file has no
// template.
func TemplateSum(path string) (string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	template, err := f.Meta().String("tokenizer.chat_template")
	if err != nil || template == "" {
		return "", nil // the file has no template
	}
	sum := sha256.Sum256([]byte(template))
	return hex.EncodeToString(sum[:]), nil
}
