package serve_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/serve/batch"
)

// needClients skips a test if Node or the clients are not installed.
func needClients(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("OpenAI's Node clients are not tested: install Node and run npm ci in serve/clients")
	}
	if _, err := os.Stat(filepath.Join("clients", "node_modules")); err != nil {
		t.Skip("OpenAI's Node clients are not tested: run npm ci in serve/clients")
	}
}

// runClients runs a program in serve/clients, which uses OpenAI's Node clients, against the server
// at url.
func runClients(t *testing.T, program, url string) {
	t.Helper()
	needClients(t)
	node := bounded.Command(t, "node", program, url)
	node.Dir = "clients"
	text, err := node.CombinedOutput()
	t.Log(string(text))
	require.NoError(t, err)
}

func TestNodeClientsUseBatches(t *testing.T) {
	t.Parallel()
	runClients(t, "batches.mjs", setUpStore(t).URL)
}

func TestNodeClientsUseBatchesOfFleet(t *testing.T) {
	t.Parallel()
	queue := redisqueue.New(redistest.Start(t).Client)
	eng, err := shared()
	require.NoError(t, err)
	startWorker(t, queue, eng)
	b, run := setUpStoreOf(t, func(*bench) batch.Runner { return batch.NewFleet(queue, "test") })
	run()
	runClients(t, "batches.mjs", b.URL)
}

func TestNodeClientsChat(t *testing.T) {
	t.Parallel()
	runClients(t, "chat.mjs", setUp(t, nil).URL)
}

// OpenAI's clients repeat a request that gets the error of a model without workers. It is answered
// when a worker serves the model again.
func TestNodeClientsWaitForWorker(t *testing.T) {
	needClients(t)
	t.Parallel()
	queue := redisqueue.New(redistest.Start(t).Client)
	eng, err := shared()
	require.NoError(t, err)
	stop := startWorker(t, queue, eng)
	b := setUpFront(t, queue, eng)
	status := func(text string) func() bool {
		return func() bool {
			return strings.Contains(b.send(t, http.MethodGet, "/metrics", "").text, `ingot_http_requests_total{path="POST /v1/chat/completions",status="`+text)
		}
	}
	require.Eventually(t, func() bool { return b.send(t, http.MethodGet, "/v1/models/tiny", "").status == 200 }, time.Minute, time.Millisecond)
	stop()
	require.Eventually(t, func() bool { return b.send(t, http.MethodGet, "/v1/models/tiny", "").status == 503 }, time.Minute, time.Millisecond)
	started := make(chan struct{})
	go func() {
		defer close(started)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for !status(`503"} 2`)() && t.Context().Err() == nil { // both clients' first requests have failed
			<-tick.C
		}
		startWorker(t, queue, eng) //nolint:testifylint // if the worker does not start, the clients report errors
	}()
	runClients(t, "away.mjs", b.URL)
	<-started
	require.True(t, status(`200"} 2`)())
}

// To a client, a server in front of a fleet behaves like any other server.
func TestNodeClientsChatWithFleet(t *testing.T) {
	t.Parallel()
	runClients(t, "chat.mjs", setUpFleet(t, redisqueue.New(redistest.Start(t).Client)).URL)
}

// TestNodeClientsCallTools: with functions of zod, the helpers of OpenAI's clients parse the calls,
// run the functions and send the results back.
func TestNodeClientsCallTools(t *testing.T) {
	t.Parallel()
	runClients(t, "tools.mjs", setUp(t, nil).URL)
}

func TestNodeClientsCallToolsOfFleet(t *testing.T) {
	t.Parallel()
	runClients(t, "tools.mjs", setUpFleet(t, redisqueue.New(redistest.Start(t).Client)).URL)
}

// TestNodeClientsGetForms: with schemas of zod, the helpers of OpenAI's clients parse the answers.
func TestNodeClientsGetForms(t *testing.T) {
	t.Parallel()
	runClients(t, "forms.mjs", setUp(t, nil).URL)
}
