// Package config has the program's settings. They are read once at start, from flags, the
// environment and a file, and checked before anything else happens.
//
// A flag overrides the environment, the environment overrides the file, and the file overrides the
// default. The environment variable of a setting is INGOT_ and its name in capitals, with _ for -.
// The file is YAML with the settings' names as keys. It is the file that --config names. Without
// --config, it is ./ingot.yaml or, if that does not exist, $XDG_CONFIG_HOME/ingot/ingot.yaml.
package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/metal"
	"github.com/ingot-run/ingot/queue"
)

// Config has the settings of all commands. Its values have been checked. Text settings without a
// value are empty.
type Config struct {
	Redis       string // URL of the server; may contain a password
	Model       string // GGUF file or model name; for run and serve, one or more lines of MODEL or ALIAS=MODEL
	Alias       string // name under which producers and workers know a model
	Priority    queue.Priority
	Backend     string            // BackendAuto, BackendCPU or the name of a driver
	Device      int               // index of the GPU, from 0; the first of Devices
	Devices     []int             // indices of a worker's GPUs; other commands have one
	Kernels     metal.Mode        // mode in which a GPU backend compiles its kernels
	Tuning      time.Duration     // maximum time for tuning the kernels of a new GPU; 0 for none
	Threads     int               // threads of the CPU backend; 0 for one per processor
	Precision   compute.Precision // of products of quantised weights on the CPU; GPUs have one precision
	Engine      engine.Options    // context, KV cache, memory and drafting; commands set the other fields
	Concurrency int               // number of rows that the engine computes at once; 0 to let the engine choose
	Listen      string            // address of metrics and health checks; for serve, of the API; empty if not set
	Data        string            // folder of files and batches
	APIKeyFile  string            // file of API keys; if it is empty, requests need no key
	TLSCert     string            // file of the certificate chain for HTTPS; empty for HTTP
	TLSKey      string            // file of the certificate's private key
	CORSOrigin  string            // origin whose web pages may call the API, or *; empty for none
	LogLevel    slog.Level        // minimum level of logged messages
	LogFormat   string            // text or json
	FromFlags   []Name            // the settings that were given by flags, in the order in which this package lists all settings
}

// The values of Backend that are not names of GPU drivers.
const (
	BackendAuto = "auto" // the first GPU that a driver finds, or cpu if there is none
	BackendCPU  = "cpu"
)

// Load reads the settings for a command whose flags were made with AddFlag and parsed. An error
// names the setting, the source of the value, and the allowed values. A key in the file that is not
// a setting is also an error.
func Load(flags *pflag.FlagSet) (*Config, error) {
	v := viper.New()
	file, err := readFile(v, flags)
	if err != nil {
		return nil, err
	}
	sources, err := bind(v, flags)
	if err != nil {
		return nil, err
	}
	c := &Config{}
	for _, s := range settings {
		from := sources[s.name]
		if from == "" && v.InConfig(string(s.name)) {
			from = file
		}
		if strings.HasPrefix(from, "--") {
			c.FromFlags = append(c.FromFlags, s.name)
		}
		text, err := scalar(v.Get(string(s.name)))
		if err == nil {
			err = s.set(c, text)
		}
		if err != nil {
			return nil, fmt.Errorf("%s (from %s): %w", s.name, from, err)
		}
	}
	return c, nil
}

// bind connects the settings with their flags, environment variables and defaults. It returns the
// source of each setting that is given by a flag ("--" and its name) or by an environment variable
// (its name).
func bind(v *viper.Viper, flags *pflag.FlagSet) (map[Name]string, error) {
	sources := map[Name]string{}
	for _, s := range settings {
		v.SetDefault(string(s.name), s.def)
		variables := []string{s.name.Env()}
		if s.formerName != "" {
			variables = append(variables, s.formerName.Env())
		}
		if err := v.BindEnv(append([]string{string(s.name)}, variables...)...); err != nil {
			return nil, fmt.Errorf("bind %s: %w", s.name.Env(), err)
		}
		if i := slices.IndexFunc(variables, func(v string) bool { return os.Getenv(v) != "" }); i >= 0 { // an empty one counts as absent
			sources[s.name] = variables[i]
		}
	}
	var failed error
	flags.VisitAll(func(f *pflag.Flag) {
		of, ok := f.Value.(*flagValue)
		if !ok || f.Name != string(of.name) && !f.Changed {
			return
		}
		if err := v.BindPFlag(string(of.name), f); err != nil {
			failed = fmt.Errorf("bind --%s: %w", f.Name, err)
		}
		if f.Changed {
			sources[of.name] = "--" + f.Name
		}
	})
	return sources, failed
}

func scalar(value any) (string, error) {
	switch v := value.(type) {
	case string:
		return v, nil
	case int, int64, uint64:
		return fmt.Sprint(v), nil
	}
	return "", fmt.Errorf("%v is not allowed; give a string or a whole number", value)
}

// Require returns an error for the first of the named settings that has no value. It supports Redis
// and Model only.
func (c *Config) Require(names ...Name) error {
	values := map[Name]string{Redis: c.Redis, Model: c.Model}
	for _, n := range names {
		if values[n] == "" {
			return fmt.Errorf("%s is missing: give --%s, set %s, or write it in the config file", n, n, n.Env())
		}
	}
	return nil
}

func readFile(v *viper.Viper, flags *pflag.FlagSet) (string, error) {
	path := findFile(flags)
	if path == "" {
		return "", nil
	}
	text, err := readLimited(path)
	if err == nil {
		v.SetConfigType("yaml")
		err = v.ReadConfig(bytes.NewReader(text))
	}
	if err != nil {
		return "", fmt.Errorf("read config file %s: %w", path, err)
	}
	keys := v.AllKeys()
	slices.Sort(keys)
	for _, key := range keys {
		top, _, nested := strings.Cut(key, ".")
		switch {
		case lookup(Name(top)) == nil:
			return "", fmt.Errorf("read config file %s: %q is not a setting; the settings are: %s", path, key, names())
		case nested:
			return "", fmt.Errorf("read config file %s: %q has settings below it; give one value", path, top)
		case lookup(Name(top)).name != Name(top) && !v.InConfig(string(lookup(Name(top)).name)):
			v.RegisterAlias(top, string(lookup(Name(top)).name)) // moves the value to the setting's name
		}
	}
	return path, nil
}
