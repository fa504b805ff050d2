package emulator

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// TestKey checks that sources have the same key if they differ only in comments, and different keys
// otherwise.
func TestKey(t *testing.T) {
	c := &compiler{}
	key := func(text string) string { return c.key(text, metal.Release) }
	const text = "int a = 1;  // one\n/* two\n   lines */ char b = '\"'; // \"\nconst char* c = \"// no comment\";\n"
	for _, same := range []string{
		"int a = 1;\n/*\n*/ char b = '\"';\nconst char* c = \"// no comment\"; // it's a string\n",
		"int a = 1; /* another */\n\n char b = '\"';\nconst char* c = \"// no comment\";\n",
	} {
		require.Equal(t, key(text), key(same), same)
	}
	for _, other := range []string{
		"int a = 2;  // one\n/* two\n   lines */ char b = '\"'; // \"\nconst char* c = \"// no comment\";\n",
		"int a = 1;  // one\n/* two\n   lines */ char b = '\"'; // \"\nconst char* c = \"// a comment\";\n",
		"int a = 1;  // one\n// two\n// lines\nchar b = '\"'; // \"\nconst char* c = \"// no comment\";\n",
	} {
		require.NotEqual(t, key(text), key(other), other)
	}
	require.NotEqual(t, key(text), c.key(text, metal.Debug))
}
