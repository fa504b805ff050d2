package table

import (
	"errors"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"
)

// someRows are the rows of a row group whose reading or closing fails.
type someRows struct {
	parquet.Rows
	read, close func() error
}

func (r someRows) ReadRows([]parquet.Row) (int, error) { return 0, r.read() }
func (r someRows) Close() error                        { return r.close() }

// A panic of the library, or its error, is an error of the reader, at the end of a row group and
// when reading ends early. The file is closed all the same.
func TestFaultsOfTheParquetLibrary(t *testing.T) {
	t.Parallel()
	fault := errors.New("fault")
	fails := func() error { return fault }
	panics := func() error { panic("out of range") }
	fine := func() error { return nil }
	ends := func() error { return io.EOF }
	for name, c := range map[string]struct {
		read, close   func() error
		next, closing error // io.EOF for the end of the file
	}{
		"no fault":                     {ends, fine, io.EOF, nil},
		"reading fails":                {fails, fine, fault, nil},
		"reading panics":               {panics, fine, errDamaged, nil},
		"no progress":                  {fine, fine, io.ErrNoProgress, nil},
		"the end fails":                {ends, fails, fault, nil},
		"the end panics":               {ends, panics, errDamaged, nil},
		"reading and closing fail":     {panics, fails, errDamaged, fault},
		"reading and closing panic":    {fails, panics, fault, errDamaged},
		"closing panics after reading": {fine, panics, io.ErrNoProgress, errDamaged},
	} {
		closed := 0
		f := &file{name: "a", closes: []func() error{func() error { closed++; return nil }}}
		p := &parquetReader{file: f, rows: someRows{read: c.read, close: c.close}, buf: make([]parquet.Row, 0, batchRows)}
		_, err := p.Next()
		require.ErrorIs(t, err, c.next, name)
		require.Zero(t, closed, name)
		if err := p.Close(); c.closing == nil {
			require.NoError(t, err, name)
		} else {
			require.ErrorIs(t, err, c.closing, name)
		}
		require.Equal(t, 1, closed, name)
		require.NoError(t, p.Close(), name)
	}
}
