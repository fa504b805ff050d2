package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRead reads the events of a run with a test that passes, one that is skipped, one that fails,
// and a failed build.
func TestRead(t *testing.T) {
	const events = `{"ImportPath":"m/ingot/c","Action":"build-output","Output":"c.go:1:1: undefined: x\n"}
{"Action":"start","Package":"m/ingot/a"}
{"Action":"run","Package":"m/ingot/a","Test":"TestOne"}
{"Action":"output","Package":"m/ingot/a","Test":"TestOne","Output":"=== RUN   TestOne\n"}
{"Action":"output","Package":"m/ingot/a","Test":"TestOne","Output":"    a_test.go:7: noise\n"}
{"Action":"pass","Package":"m/ingot/a","Test":"TestOne","Elapsed":0}
{"Action":"output","Package":"m/ingot/a","Test":"TestTwo","Output":"    a_test.go:9: needs a GPU: none here\n"}
{"Action":"output","Package":"m/ingot/a","Test":"TestTwo","Output":"--- SKIP: TestTwo (0.00s)\n"}
{"Action":"skip","Package":"m/ingot/a","Test":"TestTwo","Elapsed":0}
{"Action":"output","Package":"m/ingot/a","Output":"PASS\n"}
{"Action":"output","Package":"m/ingot/a","Output":"ok  \tm/ingot/a\t0.1s\n"}
{"Action":"pass","Package":"m/ingot/a","Elapsed":0.1}
{"Action":"output","Package":"m/ingot/b","Test":"TestThree","Output":"    b_test.go:3: wrong\n"}
{"Action":"fail","Package":"m/ingot/b","Test":"TestThree","Elapsed":0}
{"Action":"output","Package":"m/ingot/b","Output":"FAIL\n"}
{"Action":"fail","Package":"m/ingot/b","Elapsed":0.1}
`
	var out strings.Builder
	outcomes, err := read(strings.NewReader(events), &out)
	require.NoError(t, err)
	require.Equal(t, "c.go:1:1: undefined: x\nok  \tm/ingot/a\t0.1s\n    b_test.go:3: wrong\nFAIL\n", out.String())

	out.Reset()
	printSkips(&out, outcomes)
	require.Equal(t, "skipped: needs a GPU: none here\n    a TestTwo\n", out.String())
}

// TestPrintSkips checks that tests are listed by reason and that subtests are counted.
func TestPrintSkips(t *testing.T) {
	var out strings.Builder
	printSkips(&out, []outcome{
		{"skip", "m/ingot/a", "TestOne/first", "no GPU"},
		{"skip", "m/ingot/a", "TestOne/second", "no GPU"},
		{"skip", "m/ingot/a", "TestOne/third", "too long"},
		{"skip", "m/ingot/b", "TestTwo", "no GPU"},
		{"pass", "m/ingot/b", "TestThree", ""},
	})
	require.Equal(t, "skipped: no GPU\n    a TestOne (subtests: 2)\n    b TestTwo\nskipped: too long\n    a TestOne (subtests: 1)\n", out.String())
}
