package batch

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/openai"
	"github.com/ingot-run/ingot/worker"
)

// A file is deleted after its time to live. A batch's input stays until the batch has ended.
func TestFilesExpire(t *testing.T) {
	t.Parallel()
	s, err := Open(t.TempDir(), Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	add := func() File {
		u, err := s.NewUpload()
		require.NoError(t, err)
		_, err = u.Write([]byte("{}\n"))
		require.NoError(t, err)
		f, err := s.AddFile(u, "a", PurposeInput, time.Hour)
		require.NoError(t, err)
		require.Equal(t, f.CreatedAt+3600, *f.ExpiresAt)
		return f
	}
	f, input := add(), add()
	b, err := s.CreateBatch(Request{InputFileID: input.ID, Endpoint: openai.Chat})
	require.NoError(t, err)
	s.removeExpired()
	_, err = s.File(f.ID)
	require.NoError(t, err)

	s.now = func() time.Time { return time.Now().Add(time.Hour) }
	_, err = s.File(f.ID)
	require.ErrorIs(t, err, ErrNoFile)
	page, err := s.Files(Query{Limit: 10}, "")
	require.NoError(t, err)
	require.Empty(t, page.Items)
	s.removeExpired()
	require.NoFileExists(t, s.filePath(f.ID))
	require.NoFileExists(t, s.contentPath(f.ID))
	require.FileExists(t, s.contentPath(input.ID))

	_, err = s.CancelBatch(b.ID)
	require.NoError(t, err)
	b0, err := s.find(b.ID)
	require.NoError(t, err)
	require.NoError(t, s.advance(t.Context(), b0, NewAlone(map[string]worker.Engine{}, AloneOptions{}))) // decides how the batch ends
	require.NoError(t, s.advance(t.Context(), b0, NewAlone(map[string]worker.Engine{}, AloneOptions{}))) // ends the batch without files, since the input was not read
	require.Equal(t, Cancelled, b0.view().Status)
	s.removeExpired()
	require.NoFileExists(t, s.contentPath(input.ID))
	entries, err := os.ReadDir(s.folder(filesFolder))
	require.NoError(t, err)
	require.Empty(t, entries)
}
