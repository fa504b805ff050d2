package serve_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/serve"
)

// ask sends a request under a host name, with headers, and returns the response's status and body.
func (b *bench) ask(t testing.TB, method, path, host, body string, headers ...string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Host = host
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	out := httptest.NewRecorder()
	b.Config.Handler.ServeHTTP(out, r)
	return response{out.Code, out.Header(), out.Body.String()}
}

// A server without keys must not be used by the web pages that a person visits: neither by requests
// from a page of another site, nor by a page whose host name leads to this machine (DNS rebinding).
func TestForeignPagesAreRefused(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys")
	require.NoError(t, os.WriteFile(keys, []byte("key-of-all\n"), 0o600))
	accepted, err := serve.ReadKeys(keys)
	require.NoError(t, err)
	const local, chat = "127.0.0.1:8080", `{` + hello + `,"max_tokens":1}`
	crossSite := []string{"Sec-Fetch-Site", "cross-site", "Origin", "https://evil.example"}
	for _, c := range []struct {
		name, method, path, host string
		headers                  []string
		change                   func(*serve.Options)
		status                   int
		code                     string
	}{
		{"another program", "POST", "/v1/chat/completions", local, nil, nil, 200, ""},
		{"a page of this server", "POST", "/v1/chat/completions", local, []string{"Sec-Fetch-Site", "same-origin"}, nil, 200, ""},
		{"a page of another site", "POST", "/v1/chat/completions", local, crossSite, nil, 403, "cross_site_request"},
		{"a page of another port", "POST", "/v1/chat/completions", local, []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:1"}, nil, 403, "cross_site_request"},
		{"an older browser", "POST", "/v1/completions", local, []string{"Origin", "https://evil.example"}, nil, 403, "cross_site_request"},
		{"a sandboxed page", "POST", "/v1/completions", local, []string{"Origin", "null"}, nil, 403, "cross_site_request"},
		{"an upload", "POST", "/v1/files", local, crossSite, nil, 403, "cross_site_request"},
		{"a batch", "POST", "/v1/batches", local, crossSite, nil, 403, "cross_site_request"},
		{"the tokenizer", "POST", "/tokenize", local, crossSite, nil, 403, "cross_site_request"},
		{"the console's form", "POST", "/console/try", local, crossSite, nil, 403, ""},

		{"localhost", "GET", "/v1/models", "localhost:8080", nil, nil, 200, ""},
		{"a name below localhost", "GET", "/v1/models", "INGOT.localhost.:8080", nil, nil, 200, ""},
		{"an IPv6 address", "GET", "/v1/models", "[::1]:8080", nil, nil, 200, ""},
		{"an IPv6 address without a port", "GET", "/v1/models", "[fe80::1]", nil, nil, 200, ""},
		{"no host", "GET", "/v1/models", "", nil, nil, 200, ""},
		{"a rebound name", "GET", "/v1/models", "evil.example:8080", nil, nil, 403, "unknown_host"},
		{"a rebound name like an address", "GET", "/v1/models", "127.0.0.1.evil.example", nil, nil, 403, "unknown_host"},
		{"a rebound name like localhost", "GET", "/v1/models", "notlocalhost", nil, nil, 403, "unknown_host"},
		{"a rebound name, files", "GET", "/v1/files", "evil.example", nil, nil, 403, "unknown_host"},
		{"a rebound name, metrics", "GET", "/metrics", "evil.example", nil, nil, 403, "unknown_host"},
		{"a rebound name, a chat", "POST", "/v1/chat/completions", "evil.example", nil, nil, 403, "unknown_host"},
		{"a rebound name, the console", "GET", "/", "evil.example", nil, nil, 403, ""},
		{"a rebound name, an unknown path", "GET", "/v2", "evil.example", nil, nil, 403, "unknown_host"},
		{"the name in --listen", "GET", "/v1/models", "ingot.lan:8080", nil, func(o *serve.Options) { o.Host = "Ingot.lan" }, 200, ""},
		{"another name than in --listen", "GET", "/v1/models", "evil.example", nil, func(o *serve.Options) { o.Host = "ingot.lan" }, 403, "unknown_host"},
		{"any name with --allow-anyone", "GET", "/v1/models", "ingot.example", nil, func(o *serve.Options) { o.AnyHost = true }, 200, ""},
		{"another site with --allow-anyone", "POST", "/v1/completions", local, crossSite, func(o *serve.Options) { o.AnyHost = true }, 403, "cross_site_request"},
		{"health", "GET", "/healthz", "lb.example", nil, nil, 200, ""},

		{"the origin in --cors-origin", "POST", "/v1/chat/completions", local, crossSite, func(o *serve.Options) { o.Origin = "https://evil.example" }, 200, ""},
		{"another origin", "POST", "/v1/chat/completions", local, crossSite, func(o *serve.Options) { o.Origin = "https://app.example" }, 403, "cross_site_request"},
		{"all origins", "POST", "/v1/chat/completions", local, crossSite, func(o *serve.Options) { o.Origin = "*" }, 200, ""},
		{"all origins, a rebound name", "GET", "/v1/models", "evil.example", nil, func(o *serve.Options) { o.Origin = "*" }, 403, "unknown_host"},
		{"all origins, the console", "POST", "/console/try", local, crossSite, func(o *serve.Options) { o.Origin = "*" }, 403, ""},

		{"a key", "POST", "/v1/chat/completions", "api.example", append([]string{"Authorization", "Bearer key-of-all"}, crossSite...),
			func(o *serve.Options) { o.Keys = accepted }, 200, ""},
		{"no key", "POST", "/v1/chat/completions", "api.example", crossSite, func(o *serve.Options) { o.Keys = accepted }, 401, "missing_api_key"},
		{"the console's form with keys", "POST", "/console/signin", "api.example", crossSite, func(o *serve.Options) { o.Keys = accepted }, 403, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := setUp(t, c.change).ask(t, c.method, c.path, c.host, chat, c.headers...)
			require.Equal(t, c.status, got.status, got.text)
			if c.code != "" {
				require.Contains(t, got.text, `"code":"`+c.code+`"`)
			} else if c.status == 403 {
				require.Equal(t, "text/html; charset=utf-8", got.header.Get("Content-Type"), "a page for a person")
			}
		})
	}
}

// A known path with another method names the method that it has.
func TestOtherMethods(t *testing.T) {
	t.Parallel()
	b := setUp(t, nil)
	for path, method := range map[string]string{"/v1/models": "GET", "/v1/chat/completions": "POST"} {
		got := b.send(t, http.MethodPut, path, "")
		require.Equal(t, http.StatusMethodNotAllowed, got.status)
		require.Equal(t, method, got.header.Get("Allow"))
		require.Contains(t, got.text, "the method PUT is not allowed for "+path+": use "+method)
	}
	require.Equal(t, http.StatusNotFound, b.send(t, http.MethodPut, "/v2", "").status)
	for path, hint := range map[string]string{
		"/v1/responses": ": use /v1/chat/completions", "/embeddings": ": this server has no embeddings", "/v1/v1/chat/completions": ": give the base URL with one /v1", "/v1/audio": "",
	} {
		require.Equal(t, "the URL is unknown: POST "+path+hint, b.fails(t, 404, http.MethodPost, path, `{}`).Message)
	}
}

// Pages of the origin in --cors-origin, and no others, may read responses.
func TestCORS(t *testing.T) {
	t.Parallel()
	const app = "https://app.example"
	preflight := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type"}
	for _, c := range []struct{ name, allowed, origin, want string }{
		{"the origin", app, app, app},
		{"all origins", "*", app, "*"},
		{"another origin", app, "https://evil.example", ""},
		{"no origin", app, "", ""},
		{"no setting", "", app, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setUp(t, func(o *serve.Options) { o.Origin = c.allowed })
			var from []string
			if c.origin != "" {
				from = []string{"Origin", c.origin, "Sec-Fetch-Site", "cross-site"}
			}
			got := b.send(t, http.MethodGet, "/v1/models", "", from...)
			require.Equal(t, 200, got.status)
			require.True(t, json.Valid([]byte(got.text)), "answered once: %s", got.text)
			require.Equal(t, c.want, got.header.Get("Access-Control-Allow-Origin"))
			require.Equal(t, c.allowed != "", got.header.Get("Vary") == "Origin")
			require.Equal(t, c.want != "", got.header.Get("Access-Control-Expose-Headers") == "X-Request-Id, Retry-After")
			got = b.send(t, http.MethodOptions, "/v1/chat/completions", "", append(preflight, from...)...)
			require.Equal(t, c.want, got.header.Get("Access-Control-Allow-Origin"))
			if c.want == "" {
				require.NotEqual(t, 204, got.status)
				return
			}
			require.Equal(t, 204, got.status)
			require.Equal(t, "GET, POST, DELETE", got.header.Get("Access-Control-Allow-Methods"))
			require.Equal(t, "authorization,content-type", got.header.Get("Access-Control-Allow-Headers"))
		})
	}
}
