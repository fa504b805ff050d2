// Package release tests the script that installs a release.
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/internal/bounded"
)

// release holds the files of a release.
type release struct {
	version string // such as v1.2.3
	files   map[string][]byte
}

// archive returns the name of the archive for this machine.
func (r release) archive() string {
	return fmt.Sprintf("ingot_%s_%s_%s.tar.gz", r.version[1:], runtime.GOOS, runtime.GOARCH)
}

// with returns a copy of the release with another archive for this machine, and with the right
// checksum.
func (r release) with(archive []byte) release {
	changed := release{r.version, map[string][]byte{r.archive(): archive}}
	changed.files["checksums.txt"] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(archive), r.archive())
	return changed
}

// current is the release in $INGOT_ARCHIVES, which make snapshot has built. Without that variable,
// it is built from this tree.
var current = sync.OnceValues(func() (release, error) {
	if dist := os.Getenv("INGOT_ARCHIVES"); dist != "" {
		return readRelease(os.DirFS(dist))
	}
	folder, err := os.MkdirTemp("", "ingot-release-")
	if err != nil {
		return release{}, err
	}
	defer os.RemoveAll(folder) //nolint:errcheck // the system cleans up temporary folders
	r := release{version: "v1.2.3"}
	program := filepath.Join(folder, "ingot")
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-X main.version="+r.version, "-o", program, "../../cmd/ingot")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	for _, c := range []*exec.Cmd{build, exec.Command(program, "share", folder)} {
		if out, err := c.CombinedOutput(); err != nil {
			return release{}, fmt.Errorf("%s: %w: %s", c, err, out)
		}
	}
	archive, err := pack(os.DirFS(folder))
	return r.with(archive), err
})

// readRelease reads the archives and the checksums that goreleaser has built.
func readRelease(dist fs.FS) (release, error) {
	r := release{files: map[string][]byte{}}
	names, err := fs.Glob(dist, "*.t*") // archives and checksums.txt
	if err != nil {
		return r, err
	}
	for _, name := range names {
		if r.files[name], err = fs.ReadFile(dist, name); err != nil {
			return r, err
		}
		if m := regexp.MustCompile(`^ingot_(.*)_linux_amd64\.tar\.gz$`).FindStringSubmatch(name); m != nil {
			r.version = "v" + m[1]
		}
	}
	return r, nil
}

// pack returns the files of a folder as a .tar.gz.
func pack(folder fs.FS) ([]byte, error) {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	if err := t.AddFS(folder); err != nil {
		return nil, err
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err := z.Close()
	return b.Bytes(), err
}

// serve returns the address of a server that has r as its latest release.
func serve(t *testing.T, r release) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		for _, folder := range []string{"/latest/download/", "/download/" + r.version + "/"} {
			if name, found := strings.CutPrefix(q.URL.Path, folder); found && r.files[name] != nil {
				w.Write(r.files[name]) //nolint:errcheck // fails only if the client has closed the connection
				return
			}
		}
		http.NotFound(w, q)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// user is a user who runs the script.
type user struct {
	home, releases, path string
}

func newUser(t *testing.T, r release) user {
	t.Helper()
	return user{home: t.TempDir(), releases: serve(t, r), path: os.Getenv("PATH")}
}

// install runs a script with arguments and returns its output, including stderr.
func (u user) install(t *testing.T, script io.Reader, args ...string) (string, error) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	require.NoError(t, err)
	c := bounded.Command(t, sh, append([]string{"-s", "--"}, args...)...)
	c.Stdin = script
	c.Env = []string{"HOME=" + u.home, "PATH=" + u.path, "INGOT_RELEASES=" + u.releases, "TMPDIR=" + t.TempDir()}
	out, err := c.CombinedOutput()
	return string(out), err
}

func script(t *testing.T) *bytes.Reader {
	t.Helper()
	text, err := os.ReadFile("../../install.sh")
	require.NoError(t, err)
	return bytes.NewReader(text)
}

// requireNothing checks that the script left no file.
func requireNothing(t *testing.T, folder string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			err = fmt.Errorf("the script has written %s", path)
		}
		return err
	}))
}

func latest(t *testing.T) release {
	t.Helper()
	r, err := current()
	require.NoError(t, err)
	return r
}

func TestInstall(t *testing.T) {
	t.Parallel()
	r := latest(t)
	u := newUser(t, r)
	program := filepath.Join(u.home, ".local", "bin", "ingot")
	for range 2 { // the second installation replaces the first
		out, err := u.install(t, script(t))
		require.NoError(t, err, out)
		require.Contains(t, out, "Ingot "+r.version+" is installed:\n  "+program+"\n")
		require.Contains(t, out, `export PATH="`+filepath.Dir(program)+`:$PATH"`)
	}
	version, err := bounded.Command(t, program, "--version").Output()
	require.NoError(t, err)
	require.Equal(t, r.version+"\n", string(version))
	for _, path := range []string{"man/man1/ingot-run.1", "bash-completion/completions/ingot", "zsh/site-functions/_ingot", "fish/vendor_completions.d/ingot.fish"} {
		require.FileExists(t, filepath.Join(u.home, ".local", "share", path))
	}

	prefix := filepath.Join(u.home, "with a space")
	u.path += ":" + filepath.Join(prefix, "bin")
	out, err := u.install(t, script(t), "--version", r.version[1:], "--prefix", prefix)
	require.NoError(t, err, out)
	require.FileExists(t, filepath.Join(prefix, "bin", "ingot"))
	require.NotContains(t, out, "PATH")
	u.path = filepath.Dir(program) + ":" + u.path
	out, err = u.install(t, script(t), "--prefix", prefix)
	require.NoError(t, err, out)
	require.Contains(t, out, "Another Ingot comes first on the PATH: "+program)
}

// TestInstallWithOtherPrograms runs the script on systems that have only some of the programs that
// it can use.
func TestInstallWithOtherPrograms(t *testing.T) {
	t.Parallel()
	basic := []string{"cat", "cp", "cut", "grep", "gzip", "mkdir", "mktemp", "mv", "rm", "tar", "uname"}
	for _, c := range []struct {
		have []string
		want string
	}{
		{[]string{"curl", "sha256sum"}, "is installed:"},
		{[]string{"wget", "shasum", "perl"}, "is installed:"},
		{[]string{"sha256sum"}, "neither curl nor wget is installed: install one of them"},
		{[]string{"curl"}, "neither sha256sum nor shasum is installed, so the download cannot be checked: install one of them"},
	} {
		t.Run(strings.Join(c.have, ","), func(t *testing.T) {
			t.Parallel()
			u := newUser(t, latest(t))
			u.path = t.TempDir()
			for _, name := range append(c.have, basic...) {
				program, err := exec.LookPath(name)
				if err != nil {
					t.Skip("needs " + name)
				}
				require.NoError(t, os.Symlink(program, filepath.Join(u.path, name)))
			}
			out, _ := u.install(t, script(t))
			require.Contains(t, out, c.want)
		})
	}
}

func TestInstallErrors(t *testing.T) {
	t.Parallel()
	r := latest(t)
	other := "ingot_1.2.3_plan9_mips.tar.gz"
	broken, err := pack(brokenProgram(t))
	require.NoError(t, err)
	for name, c := range map[string]struct {
		release release
		args    []string
		uname   string
		want    string
	}{
		"another checksum": {
			release: release{r.version, map[string][]byte{r.archive(): []byte("x"), "checksums.txt": r.files["checksums.txt"]}},
			want:    r.archive() + " has the SHA-256 2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881, and checksums.txt has ",
		},
		"no archive": {
			release: release{r.version, map[string][]byte{"checksums.txt": r.files["checksums.txt"]}},
			want:    r.archive() + " cannot be downloaded: check the connection, and try again",
		},
		"no checksum": {
			release: release{r.version, map[string][]byte{"checksums.txt": fmt.Appendf(nil, "%064d  %s\n", 0, other)}},
			want:    "/latest/download/checksums.txt has no archive for " + runtime.GOOS + "_" + runtime.GOARCH,
		},
		"a path for a name": {
			release: release{r.version, map[string][]byte{"checksums.txt": fmt.Appendf(nil, "%064d  ../%s\n", 0, r.archive())}},
			want:    "checksums.txt has no archive for ",
		},
		"no such version":  {release: r, args: []string{"--version", "v9.9.9"}, want: "check the connection, and that version v9.9.9 exists"},
		"no program":       {release: r.with([]byte("not an archive")), want: r.archive() + " cannot be unpacked"},
		"another system":   {release: r.with(broken), want: "the program does not start on this system, and was not installed"},
		"unknown argument": {release: r, args: []string{"--root"}, want: "unknown argument --root; see --help"},
		"no value":         {release: r, args: []string{"--prefix"}, want: "--prefix needs a value"},
		"no folder":        {release: r, args: []string{"--prefix", "/dev/null/x"}, want: "folders cannot be made below /dev/null/x: choose another with --prefix"},
		"Windows":          {release: r, uname: "MINGW64_NT-10.0 x86_64", want: "Ingot runs on Linux and macOS, and this is MINGW64_NT-10.0"},
		"RISC-V":           {release: r, uname: "Linux riscv64", want: "there is no release for processors of type riscv64"},
		"Intel Mac":        {release: r, uname: "Darwin x86_64", want: "there is no release for Macs with Intel processors"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUser(t, c.release)
			if c.uname != "" {
				folder := t.TempDir()
				system, machine, _ := strings.Cut(c.uname, " ")
				answer := fmt.Sprintf("#!/bin/sh\nif [ $1 = -s ]; then echo %s; else echo %s; fi\n", system, machine)
				require.NoError(t, os.WriteFile(filepath.Join(folder, "uname"), []byte(answer), 0o755))
				u.path = folder + ":" + u.path
			}
			out, err := u.install(t, script(t), c.args...)
			require.Error(t, err)
			require.Contains(t, out, "install.sh: ")
			require.Contains(t, out, c.want)
			requireNothing(t, u.home)
		})
	}
}

// brokenProgram returns a folder with a program that does not start.
func brokenProgram(t *testing.T) fs.FS {
	t.Helper()
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "ingot"), []byte("#!/bin/nothing\n"), 0o755))
	return os.DirFS(folder)
}

// TestInstallFromPart checks that a script that arrives only in part installs nothing.
func TestInstallFromPart(t *testing.T) {
	t.Parallel()
	u := newUser(t, latest(t))
	whole := script(t)
	end := whole.Size() - int64(len("main \"$@\"\n"))
	for at := int64(0); at <= end; at += 97 {
		_, _ = u.install(t, io.NewSectionReader(whole, 0, at)) // may fail or do nothing
	}
	_, _ = u.install(t, io.NewSectionReader(whole, 0, end))
	requireNothing(t, u.home)
}

func TestShellcheck(t *testing.T) {
	t.Parallel()
	shellcheck, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("the script is not checked: shellcheck is not installed")
	}
	out, err := bounded.Command(t, shellcheck, "../../install.sh").CombinedOutput()
	require.NoError(t, err, string(out))
}
