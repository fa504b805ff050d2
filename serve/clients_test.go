package serve_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/queue/redisqueue"
	"github.com/ingot-run/ingot/queue/redistest"
	"github.com/ingot-run/ingot/serve/batch"
)

// runClients runs a program in serve/clients, which uses OpenAI's Node clients, against the server
// at url.
func runClients(t *testing.T, program, url string) {
	t.Helper()
	if _, err := exec.LookPath("node"); err != nil {
		t.Skip("OpenAI's Node clients are not tested: install Node and run npm ci in serve/clients")
	}
	if _, err := os.Stat(filepath.Join("clients", "node_modules")); err != nil {
		t.Skip("OpenAI's Node clients are not tested: run npm ci in serve/clients")
	}
	node := exec.CommandContext(t.Context(), "node", program, url)
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

// To a client, a server in front of a fleet behaves like any other server.
func TestNodeClientsChatWithFleet(t *testing.T) {
	t.Parallel()
	runClients(t, "chat.mjs", setUpFleet(t, redisqueue.New(redistest.Start(t).Client)).URL)
}
