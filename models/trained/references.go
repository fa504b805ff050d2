// Package trained compares Ingot with transformers on trained models. references.py made the
// references in float32 from the dequantised weights. The models themselves are not in the tree.
package trained

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ingot-run/ingot/engine/gguf"
)

// Chunk is a fixed text as token ids, with the reference's log-probabilities.
type Chunk struct {
	Kind     string    `json:"kind"`     // kind of text, such as "code"
	IDs      []int32   `json:"ids"`      // with BOS first, if the model has one
	From     int       `json:"from"`     // index of the first token with a log-probability; 0 means 1
	Logprobs []float64 `json:"logprobs"` // [len(IDs)-From] natural logarithms of the tokens' probabilities
	Best     []int32   `json:"best"`     // [len(IDs)-From] the most probable tokens at the same positions
}

// ReadChunks reads a file that references.py wrote. It reads whole chunks until they have at least
// limit tokens; 0 means all. The beginning of a file is a mixture of all kinds and lengths.
func ReadChunks(path string, limit int) (chunks []Chunk, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read references: %w", err)
	}
	defer f.Close() //nolint:errcheck // the file is only read
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return nil, fmt.Errorf("read references %s: %w", path, err)
	}
	tokens := 0
	for lines := json.NewDecoder(z); limit == 0 || tokens < limit; tokens += len(chunks[len(chunks)-1].IDs) {
		var c Chunk
		if err := lines.Decode(&c); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("read references %s, chunk %d: %w", path, len(chunks)+1, err)
		}
		c.From = max(c.From, 1)
		scored := len(c.Logprobs)+len(c.Best) > 0 // chunks for WriteChunks need no scores
		if n := len(c.IDs) - c.From; n < 1 || scored && (len(c.Logprobs) != n || len(c.Best) != n) {
			return nil, fmt.Errorf("read references %s, chunk %d: %d ids, %d log-probabilities and %d best tokens from number %d do not match",
				path, len(chunks)+1, len(c.IDs), len(c.Logprobs), len(c.Best), c.From)
		}
		chunks = append(chunks, c)
	}
	return chunks, nil
}

// WriteChunks writes the results as references for the same chunks.
func WriteChunks(path string, chunks []Chunk, results []Result) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write references: %w", err)
	}
	z := gzip.NewWriter(f)
	to := json.NewEncoder(z)
	for i, c := range chunks {
		c.Logprobs, c.Best = results[i].Logprobs, results[i].Best
		if err = to.Encode(&c); err != nil {
			break
		}
	}
	if err := errors.Join(err, z.Close(), f.Close()); err != nil {
		return fmt.Errorf("write references %s: %w", path, err)
	}
	return nil
}

// Types returns the types of a file's weights, each with its share.
func Types(path string) (string, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // the file is only read
	shares, all := map[gguf.Type]int{}, 0
	for _, t := range f.Tensors() {
		if len(t.Shape) > 1 { // norms are always F32
			shares[t.Type] += t.Elements()
			all += t.Elements()
		}
	}
	types := slices.SortedFunc(maps.Keys(shares), func(a, b gguf.Type) int { return shares[b] - shares[a] })
	var list []string
	for _, t := range types {
		list = append(list, fmt.Sprintf("%s %.1f %%", t, 100*float64(shares[t])/float64(all)))
	}
	return strings.Join(list, ", "), nil
}
