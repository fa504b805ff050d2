package drivers

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/metal"
)

// TestTable checks the properties of the table on which the choice of a backend relies.
func TestTable(t *testing.T) {
	seen := map[string]bool{"auto": true, "cpu": true}
	for i, d := range All() {
		require.False(t, seen[d.Name], "two drivers have the name %s", d.Name)
		seen[d.Name] = true
		require.Equal(t, i < len(Names(true)), d.Auto, "%s: drivers for tests come last", d.Name)
		found, ok := Find(d.Name)
		require.True(t, ok)
		require.Equal(t, d.Note, found.Note)
		require.Equal(t, d.Auto, d.Note == "", "%s: exactly the drivers that cannot be chosen automatically have a note", d.Name)
	}
	_, ok := Find("auto")
	require.False(t, ok)
	_, err := Open("auto", 0)
	require.ErrorContains(t, err, `no driver "auto"`)
}

// TestOpen opens a device of every driver. Info must name the driver. Without a GPU, the error must
// give the reason.
func TestOpen(t *testing.T) {
	for _, d := range All() {
		dev, err := Open(d.Name, 0)
		if err != nil {
			require.Nil(t, dev, "with an error, the device must be nil")
			t.Logf("%s is not tested: %v", d.Name, err)
			continue
		}
		require.Equal(t, d.Name, dev.Info().Driver)
		require.NoError(t, dev.Close())
	}
}

// TestOpenAuto checks that OpenAuto skips drivers without a GPU, stops at the first driver that
// opens a GPU or fails, and reports all reasons if no driver has a GPU.
func TestOpenAuto(t *testing.T) {
	broken, none := errors.New("broken"), errors.Join(metal.ErrUnsupported, errors.New("not here"))
	row := func(auto bool, err error) Driver {
		return Driver{Auto: auto, Open: func(int) (metal.Device, error) { return nil, err }}
	}
	have := table
	t.Cleanup(func() { table = have })
	for name, c := range map[string]struct {
		rows        []Driver
		want        error
		unsupported bool
	}{
		"opens":       {[]Driver{row(true, none), row(true, nil), row(true, broken)}, nil, false},
		"fails":       {[]Driver{row(true, none), row(true, broken), row(true, nil)}, broken, false},
		"unsupported": {[]Driver{row(true, none), row(false, nil)}, none, true},
	} {
		table = c.rows
		_, err := OpenAuto(0)
		require.ErrorIs(t, err, c.want, name)
		require.Equal(t, c.unsupported, errors.Is(err, metal.ErrUnsupported), name)
	}
}
