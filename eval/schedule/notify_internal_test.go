package schedule

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestWebhookThatRedirects: a redirection that turns the request into a GET delivers no notice, so
// it is not a success.
func TestWebhookThatRedirects(t *testing.T) {
	t.Parallel()
	var received []string
	mux := http.NewServeMux()
	mux.HandleFunc("/to", func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		received = append(received, r.Method+" "+r.Header.Get("Idempotency-Key")+" "+string(body))
		if err != nil {
			received = append(received, err.Error())
		}
	})
	mux.Handle("/moved", http.RedirectHandler("/to?secret=1", http.StatusMovedPermanently))
	mux.Handle("/kept", http.RedirectHandler("/to", http.StatusPermanentRedirect))
	mux.Handle("/round", http.RedirectHandler("/round", http.StatusTemporaryRedirect))
	site := httptest.NewServer(mux)
	defer site.Close()
	require.NoError(t, post(t.Context(), site.URL+"/kept", "k", []byte("notice")))
	require.Equal(t, []string{"POST k notice"}, received)
	err := post(t.Context(), site.URL+"/moved", "k", []byte("notice"))
	require.EqualError(t, err, "notify by webhook: the server redirects to another address and drops the notice: give the other address")
	require.EqualError(t, post(t.Context(), site.URL+"/round", "k", []byte("notice")), "notify by webhook: the server redirects too often")
	require.Len(t, received, 1)
}
