package schema_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
	"github.com/ingot-run/ingot/engine/grammar/regex"
	"github.com/ingot-run/ingot/engine/grammar/schema"
)

// prefix is the beginning of a valid instance, and which bytes may follow.
type prefix struct {
	Schema  json.RawMessage `json:"schema"`
	Prefix  []byte          `json:"prefix"`
	allowed []int
	name    string
}

// TestLlguidance compares the bytes that may follow random beginnings of valid instances with those
// that llguidance allows. It needs INGOT_LONG=1, and python3 with llguidance.
func TestLlguidance(t *testing.T) {
	list := files(t)
	if os.Getenv("INGOT_LONG") == "" {
		t.Skip("INGOT_LONG is not set")
	}
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import llguidance").Run(); err != nil {
		t.Skip("python3 -m pip install llguidance")
	}
	prefixes := randomPrefixes(t, list)
	require.GreaterOrEqual(t, len(prefixes), 2000)
	var in bytes.Buffer
	e := json.NewEncoder(&in)
	for _, p := range prefixes {
		require.NoError(t, e.Encode(p))
	}
	python := exec.CommandContext(t.Context(), "python3", "testdata/allowed_bytes.py")
	python.Stdin, python.Stderr = &in, os.Stderr
	out, err := python.Output()
	require.NoError(t, err)
	lines := bufio.NewScanner(bytes.NewReader(out))
	same, explained, refused := 0, map[string]int{}, 0
	for _, p := range prefixes {
		require.True(t, lines.Scan())
		var answer struct {
			Allowed []int
			Refused string
		}
		require.NoError(t, json.Unmarshal(lines.Bytes(), &answer))
		if answer.Refused != "" {
			refused++
			assert.Contains(t, answer.Refused, "circular references", "%s: %s", p.name, p.Prefix)
			continue
		}
		more, less := difference(p.allowed, answer.Allowed), difference(answer.Allowed, p.allowed)
		switch reason := explain(string(p.Prefix), more, less); {
		case more == "" && less == "":
			same++
		case reason != "":
			explained[reason]++
		default:
			t.Errorf("%s: after %s: only Ingot allows %q, only llguidance %q", p.name, p.Prefix, more, less)
		}
	}
	t.Logf("%d prefixes: %d with the same bytes, %d refused by llguidance, differences: %v", len(prefixes), same, refused, explained)
}

// explain returns why two engines differ, or nothing.
func explain(text, more, less string) string {
	switch {
	case more == "\x7f" && less == "":
		return "llguidance does not allow DEL in strings, JSON does"
	case more == "/" && less == "" && strings.HasSuffix(text, `\`):
		return "llguidance does not allow \\/ in strings, JSON does"
	case more == "" && less == `"` && strings.Contains(text, "@"):
		return "llguidance allows domains without a point in format email"
	case more == "" && less == "-0123456789" && text == "":
		return "oneOf is anyOf in llguidance"
	case more == "\xef" && less == "":
		return "\\s of ECMAScript has U+FEFF"
	case more == "." && less == "":
		return "1.0 is an integer, and may be written where there are other numbers too"
	case more == "0" && less == "":
		return "0.10 is a multiple of 0.01 too"
	case more == "" && (less == "t" || less == "z"):
		return "llguidance allows small letters in times"
	case more == "" && less == "6" && strings.HasSuffix(text, ":"):
		return "llguidance allows leap seconds in times"
	case more == "" && less == "u" && strings.HasSuffix(text, `\`):
		return "llguidance allows control characters of enum as \\u escapes"
	}
	return ""
}

// difference returns the bytes of a that b does not have.
func difference(a, b []int) string {
	have := map[int]bool{}
	for _, x := range b {
		have[x] = true
	}
	var out []byte
	for _, x := range a {
		if !have[x] {
			out = append(out, byte(x))
		}
	}
	return string(out)
}

func randomPrefixes(t *testing.T, list []file) []prefix {
	t.Helper()
	c := grammar.NewCompiler(vocabulary(), grammar.Limits{})
	random := rand.New(rand.NewPCG(9, 2))
	var prefixes []prefix
	for _, f := range list {
		g, err := c.Compile(t.Context(), &generation.Constraint{Schema: string(f.Schema)})
		if err != nil {
			continue // counted by TestVectors
		}
		s, root, err := schema.New(regex.NewBuilder(regex.Limits{Nodes: 1e6, Work: 1e7}), string(f.Schema))
		require.NoError(t, err)
		for _, x := range f.Valid {
			text, _ := schema.Arrange(s, root, string(x), random.IntN(2) == 0)
			for range 6 {
				p := prefix{Schema: f.Schema, Prefix: []byte(text[:random.IntN(len(text)+1)]), name: f.name}
				p.allowed = allowedAfter(t, g, p.Prefix)
				prefixes = append(prefixes, p)
			}
		}
	}
	return prefixes
}

// allowedAfter returns the bytes that may follow a text, and 256 if it may end.
func allowedAfter(t testing.TB, g *grammar.Grammar, text []byte) []int {
	t.Helper()
	m := g.NewMatcher()
	for _, c := range text {
		require.NoError(t, m.Accept(int32(c)))
	}
	mask := make([]uint32, (end+1+len(pieces)+31)/32)
	require.NoError(t, m.Mask(mask))
	var allowed []int
	for id := range end + 1 {
		if mask[id/32]>>(id%32)&1 != 0 {
			allowed = append(allowed, id)
		}
	}
	return allowed
}
