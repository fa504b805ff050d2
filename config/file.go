package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

const fileFlag = "config"

// AddFileFlag adds --config, the path of the config file.
func AddFileFlag(flags *pflag.FlagSet) {
	flags.String(fileFlag, "", "`FILE` with settings (default ./ingot.yaml, else ingot/ingot.yaml in $XDG_CONFIG_HOME)")
}

// findFile returns the path of the config file, or nothing where there is none. A file that --config names has to be there.
func findFile(flags *pflag.FlagSet) (string, error) {
	if f := flags.Lookup(fileFlag); f != nil && f.Changed {
		return f.Value.String(), nil
	}
	for _, path := range []string{"ingot.yaml", filepath.Join(userDir(), "ingot", "ingot.yaml")} {
		switch _, err := os.Stat(path); {
		case err == nil:
			return path, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("look for the config file: %w", err)
		}
	}
	return "", nil
}

// userDir is $XDG_CONFIG_HOME, or its default in the XDG Base Directory Specification.
func userDir() string {
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(os.Getenv("HOME"), ".config")
}

// isSet tells whether an environment variable has a value; an empty one counts as absent.
func isSet(variable string) bool { return os.Getenv(variable) != "" }
