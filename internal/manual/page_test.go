package manual

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
)

func TestManualPageText(t *testing.T) {
	t.Parallel()
	cmd := &cobra.Command{
		Use: "cut FILE", Short: "Cut a file", Run: func(*cobra.Command, []string) {},
		Long: "Cut takes C:\\files.\n\n.hidden files are cut:\n  first   -1\n  second  -2\n'This' is the end.",
	}
	cmd.Flags().StringP("out", "o", "", "write to `OUT`")
	folder := t.TempDir()
	require.NoError(t, new(Help).writePages(folder, cmd, "v1", "2026-11-22"))
	page, err := os.ReadFile(filepath.Join(folder, "cut.1"))
	require.NoError(t, err)
	_, description, _ := strings.Cut(string(page), ".SH SYNOPSIS\n")
	require.Equal(t, `.B cut FILE [flags]
.SH DESCRIPTION
Cut takes C:\efiles.
.PP
\&.hidden files are cut:
.nf
  first   \-1
  second  \-2
.fi
\&'This' is the end.
.SH FLAGS
.TP
.B \-o, \-\-out OUT
write to OUT
`, description)
}
