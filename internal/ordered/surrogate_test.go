package ordered_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/ingot-run/ingot/internal/ordered"
)

func TestHalfSurrogate(t *testing.T) {
	for text, offset := range map[string]int{
		`"plain \n \u00e9"`:    -1,
		`"\ud83d\ude00"`:       -1,
		`"\uD83D\uDE00\ud83d"`: 13,
		`"\ud800"`:             1,
		`"\udc00"`:             1,
		`"a\ud800\n"`:          2,
		`"\ud800\ud800\udc00"`: 1,
		`"\\ud800"`:            -1,
		`"\\\ud800"`:           3,
		`"\ud83d\u`:            1,
		`"\u`:                  -1,
		`\`:                    -1,
	} {
		assert.Equal(t, offset, ordered.HalfSurrogate([]byte(text)), text)
	}
}
