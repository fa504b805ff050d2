package bench

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/internal/ordered"
)

// ReadQuestionsFile is ReadQuestions of a file.
func ReadQuestionsFile(path string, gen int) ([]generation.Request, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read questions: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file was only read
	reqs, err := ReadQuestions(f, gen)
	if err != nil {
		return nil, fmt.Errorf("read questions of %s: %w", path, err)
	}
	return reqs, nil
}

// ReadQuestions reads JSON lines with a field "question", as in models/heldout.jsonl. It returns a
// request for each line: a chat with the question as the user's message, answered greedily with at
// most gen tokens.
func ReadQuestions(r io.Reader, gen int) ([]generation.Request, error) {
	var reqs []generation.Request
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		var line struct {
			Question string `json:"question"`
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		if line.Question == "" {
			return nil, fmt.Errorf(`line %d: "question" is missing`, n)
		}
		message, prompt := ordered.NewObject(), ordered.NewObject()
		message.Set("role", "user")
		message.Set("content", line.Question)
		prompt.Set("messages", []ordered.Value{message})
		reqs = append(reqs, generation.Request{Chat: prompt, MaxTokens: gen})
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(reqs) == 0 {
		return nil, fmt.Errorf("the file has no questions: each line must be a JSON object with \"question\"")
	}
	return reqs, nil
}
