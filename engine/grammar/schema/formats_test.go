package schema_test

import (
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
	"github.com/ingot-run/ingot/engine/grammar"
)

// TestFormats draws texts of each format, which another validator must find valid, and has known
// texts of each.
func TestFormats(t *testing.T) {
	long := strings.Repeat("a", 63)
	c := grammar.NewCompiler(vocabulary(), grammar.Limits{})
	random := rand.New(rand.NewPCG(7, 8))
	walks := 12
	if os.Getenv("INGOT_LONG") != "" {
		walks = 500
	}
	for format, texts := range map[string]struct{ yes, no []string }{
		"date":      {[]string{"2026-01-31", "2024-02-29", "2400-02-29"}, []string{"2026-1-31", "2023-02-29", "2100-02-29", "2026-13-01", "2026-11-31"}},
		"time":      {[]string{"00:00:00Z", "23:59:59.125+23:59"}, []string{"24:00:00Z", "12:00Z", "12:00:00", "12:60:00Z"}},
		"date-time": {[]string{"2026-11-24T20:00:00-08:00", "1985-04-12T23:20:50.52Z"}, []string{"2026-11-24 20:00:00Z", "2026-02-30T00:00:00Z"}},
		"duration":  {[]string{"P1Y2M3DT4H5M6S", "PT36H", "P4W", "P1D"}, []string{"P", "PT", "P1", "1D", "P1Y1W", "P1DT", "P1S"}},
		"email":     {[]string{"joe.bloggs@example.com", "te~st!#$%&'*+/=?^_`{|}@a.b"}, []string{"joe", ".a@example.com", "a..b@example.com", "a@-b.com", "a@b", strings.Repeat("a", 65) + "@b.com"}},
		"hostname":  {[]string{"www.example.com", "xn--4gbwdl.xn--wgbh1c", "a", long + ".com"}, []string{"-a", "a-", "a..b", "a_b", long + "a", strings.Repeat("a.", 127)}},
		"ipv4":      {[]string{"192.168.0.1", "255.255.255.255", "0.0.0.0"}, []string{"256.0.0.1", "1.2.3", "01.2.3.4", "1.2.3.4.5"}},
		"ipv6": {[]string{"::", "::1", "1::", "fe80::a00:27ff:fe8d:c0d", "1:2:3:4:5:6:7:8", "::ffff:192.168.0.1", "1:2::3:4:5:6:7", "1:2:3:4:5:6:7::"},
			[]string{"1:2:3:4:5:6:7", "1::2::3", ":2:3:4:5:6:7:8", "12345::", "1:2:3:4:5:6:7:8:9", "::1.2.3", "fe80::1%eth0"}},
		"uuid":                  {[]string{"2EB8AA08-AA98-11EA-B4AA-73B441D16380"}, []string{"2eb8aa08aa9811eab4aa73b441d16380", "2eb8aa08-aa98-11ea-b4aa-73b441d1638"}},
		"uri":                   {[]string{"https://example.org:8080/a/b%20c?q=1#f", "mailto:a@example.org", "urn:isbn:0451450523", "http://[2001:db8::7]/", "tel:+1-816-555-1212", "file:///etc/hosts"}, []string{"//example.org", "/a", "a b", "http://a b", "http://[::1", "https://example.org/ä", "1a:b", "\\\\host"}},
		"uri-reference":         {[]string{"/a/b", "a/b?c", "#f", "", "../x", "//h/p", "http://x"}, []string{"\\x", "a b", ":x"}},
		"iri":                   {[]string{"http://ƒøø.ßår/?∂éœ=πîx#πîüx"}, []string{"/a", "http:// x"}},
		"iri-reference":         {[]string{"/âππ", "#ƒrägmênt"}, []string{"\\\\ü", " "}},
		"json-pointer":          {[]string{"", "/foo/0", "/a~1b~0", "/é/\""}, []string{"foo", "/~", "/~2"}},
		"relative-json-pointer": {[]string{"0", "1/a", "12#"}, []string{"/a", "-1", "01", "0##", "1a"}},
	} {
		document := text(t, map[string]any{"type": "string", "format": format})
		g, err := c.Compile(t.Context(), &generation.Constraint{Schema: document})
		require.NoError(t, err)
		v := validator(t, document)
		for _, s := range texts.yes {
			_, ok := accepts(g, random, text(t, s))
			assert.True(t, ok, "%s: %q", format, s)
		}
		for _, s := range texts.no {
			_, ok := accepts(g, random, text(t, s))
			assert.False(t, ok, "%s: %q", format, s)
		}
		for range walks {
			x, ok := walk(t, g, random, random.IntN(40), 600)
			if !ok {
				continue
			}
			value, err := jsonschema.UnmarshalJSON(strings.NewReader(x))
			require.NoError(t, err, x)
			assert.NoError(t, v.Validate(value), "%s: %s", format, x)
		}
	}
}
