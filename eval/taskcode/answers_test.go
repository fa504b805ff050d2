package taskcode

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/ordered"
)

// What the process answers is a value, an error, or no result.
func TestAnswersOfTheProcess(t *testing.T) {
	t.Parallel()
	v, err := value([]byte(`{"value":[1,null]}`))
	require.NoError(t, err)
	require.Equal(t, []ordered.Value{int64(1), nil}, v)
	for line, says := range map[string]string{
		`noise`: `python3 answered "noise"`, `[1]`: `python3 answered "[1]"`, ``: `python3 answered ""`, `{"error":"KeyError: 1"}`: "KeyError: 1", `{}`: errNoResult.Error(),
	} {
		_, err := value([]byte(line))
		require.EqualError(t, err, says)
	}
}

// Values that JSON lacks are null, and whole floats stay floats.
func TestArgumentsOfFunctions(t *testing.T) {
	t.Parallel()
	o := ordered.NewObject()
	o.Set("b", []ordered.Value{math.NaN(), math.Inf(1), 1.0, 1.5, 1e30, int64(2), "<é>", true, nil})
	o.Set("a", ordered.NewObject())
	require.Equal(t, `{"b":[null,null,1.0,1.5,1e+30,2,"\u003cé\u003e",true,null],"a":{}}`, string(appendJSON(nil, o))) //nolint:testifylint // JSONEq takes 1.0 for 1
	require.Equal(t, "null", string(appendJSON(nil, func() {})))
}

// A result that is too large is an error, and the process starts again for the next call.
func TestResultsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	p, _ := start(t)
	file := filepath.Join(t.TempDir(), "large.py")
	require.NoError(t, os.WriteFile(file, []byte("def text(n):\n    return \"x\" * n\n"), 0o600))
	p.out.Buffer(nil, 1000) // instead of maxAnswer
	_, err := p.Call(Plain, file, "text", int64(1000))
	require.ErrorContains(t, err, "its result is larger than ")
	v, err := p.Call(Plain, file, "text", int64(3))
	require.NoError(t, err)
	require.Equal(t, "xxx", v)
}

func TestProcessesThatCannotStart(t *testing.T) { // not parallel: it changes PATH
	t.Setenv("PATH", t.TempDir())
	p := &Process{}
	require.EqualError(t, p.Start(), "python3 is not installed, or not in PATH")
	p.Close()
	(*Process)(nil).Close()
	require.Empty(t, withoutNetwork(true))
	require.Contains(t, withoutNetwork(false), " without network")
	require.NoError(t, os.WriteFile(filepath.Join(os.Getenv("PATH"), "python3"), []byte("no program"), 0o700))
	for unsandboxed, says := range map[bool]string{true: "start python3: ", false: "start python3 without network ("} {
		require.ErrorContains(t, (&Process{Unsandboxed: unsandboxed}).Start(), says)
	}
}
