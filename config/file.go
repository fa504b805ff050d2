package config

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

const fileFlag = "config"

// AddFileFlag adds --config, the path of the config file.
func AddFileFlag(flags *pflag.FlagSet) {
	flags.String(fileFlag, "", "read settings from `FILE` (default ./ingot.yaml, else ingot/ingot.yaml in $XDG_CONFIG_HOME)")
}

// findFile returns the path of the config file; empty if there is none. It does not check whether
// the file of --config exists.
func findFile(flags *pflag.FlagSet) string {
	if f := flags.Lookup(fileFlag); f != nil && f.Changed {
		return f.Value.String()
	}
	for _, path := range []string{"ingot.yaml", userFile("ingot.yaml")} {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return ""
}

const maxFile = 1 << 20

// readLimited reads a config file. It stops after maxFile bytes, since the file may be a device
// without an end.
func readLimited(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // the file was only read
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = errors.New("the file is larger than 1 MiB: give a YAML file of settings")
	}
	return text, err
}

// GeometryFile returns the path of the file to which "ingot bench kernels --sweep" adds the fastest
// sizes of GPU kernels: ingot/geometry.json in $XDG_CONFIG_HOME, next to the user's config file.
// The path is empty if the user has no home folder.
func GeometryFile() string { return userFile("geometry.json") }

// TuningFile returns the path of the file with the tuning of a GPU, in the folder ingot/tuning of
// $XDG_CONFIG_HOME. The path is empty if the user has no home folder.
func TuningFile(device string) string { return userFile(filepath.Join("tuning", device+".json")) }

// userFile returns the path of a file in the folder ingot of $XDG_CONFIG_HOME, or of the default in
// the XDG Base Directory Specification. It is empty if the user has no home folder.
func userFile(name string) string {
	dir := os.Getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return ""
		}
		dir = filepath.Join(home, ".config")
	}
	return filepath.Join(dir, "ingot", name)
}
