package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/metal/drivers"
	"github.com/ingot-run/ingot/queue"
)

// Name is the name of a setting: its key in a config file and, in most commands, its flag.
type Name string

// The settings.
const (
	Redis       Name = "redis"
	Model       Name = "model"
	Alias       Name = "alias"
	Priority    Name = "priority"
	Backend     Name = "backend"
	Device      Name = "device"
	Kernels     Name = "kernels"
	Tuning      Name = "tuning"
	Threads     Name = "threads"
	Precision   Name = "precision"
	Context     Name = "context"
	KV          Name = "kv"
	Sampling    Name = "sampling"
	MemoryLimit Name = "memory"
	Draft       Name = "draft"
	DraftTokens Name = "draft-tokens"
	StepTime    Name = "step-time"
	Concurrency Name = "concurrency"
	Listen      Name = "listen"
	Data        Name = "data"
	APIKeyFile  Name = "api-key-file"
	TLSCert     Name = "tls-cert"
	TLSKey      Name = "tls-key"
	CORSOrigin  Name = "cors-origin"
	LogLevel    Name = "log-level"
	LogFormat   Name = "log-format"
)

// Env returns the setting's environment variable.
func (n Name) Env() string {
	return "INGOT_" + strings.ToUpper(strings.ReplaceAll(string(n), "-", "_"))
}

type setting struct {
	name  Name
	usage string // help text of the flag, with the name of its value in backquotes
	def   string
	set   func(c *Config, text string) error // stores the value in c; errors name the allowed values

	formerName  Name     // earlier name, whose key in a config file and environment variable still work; empty for none
	formerFlags []string // earlier flags, which still work; they are hidden
}

// backends are the values of Backend. The backends for tests are last.
var backends = slices.Concat([]string{BackendAuto}, drivers.Names(true), []string{BackendCPU}, drivers.Names(false))

var settings = []setting{
	{
		name: Redis, usage: "`URL` of the Redis server, such as redis://:password@host:6379/0",
		set: func(c *Config, s string) error { c.Redis = s; return checkRedis(s) },
	},
	{
		name: Model, usage: "`MODEL`: a GGUF file, or the name of a model that \"ingot pull\" has downloaded",
		set: func(c *Config, s string) error { c.Model = s; return nil },
	},
	{
		name: Alias, usage: "`ALIAS` of the model, under which producers and workers find each other", def: queue.DefaultAlias,
		set:        func(c *Config, s string) error { c.Alias = s; return queue.CheckAlias(s) },
		formerName: "model-name", formerFlags: []string{"model-name", "name"},
	},
	{
		name: Priority, usage: "queue with priority `LEVEL`: critical, default or bulk", def: string(queue.Default),
		set: func(c *Config, s string) (err error) { c.Priority, err = queue.ParsePriority(s); return err },
	},
	{
		name: Backend, usage: "compute with `BACKEND`: auto (a GPU if possible), " + alternatives(backends[1:]) + " (for tests)", def: BackendAuto,
		set: func(c *Config, s string) error { c.Backend = s; return oneOf(s, backends) },
	},
	{
		name: Device, usage: "compute on GPU `N` of the backend, counted from 0; a worker can use several: 0,1", def: "0",
		set: func(c *Config, s string) error { return c.setDevices(s) },
	},
	{
		name: Kernels, usage: "compile the GPU's kernels in `MODE`: release, debug (with checks) or fast (less exact)", def: "release",
		set: func(c *Config, s string) (err error) { c.Kernels, err = choose(kernelModes, s); return err },
	},
	{
		name: Tuning, usage: "measure a new GPU's kernels for up to `TIME` at the first start, for the fastest sizes; off for none", def: "45s",
		set: func(c *Config, s string) (err error) { c.Tuning, err = tuningTime(s); return err },
	},
	{
		name: Threads, usage: "use `N` threads on the CPU; 0 for one per processor", def: "0",
		set: func(c *Config, s string) (err error) { c.Threads, err = integer(s, 0, 1024); return err },
	},
	{
		name: Precision, usage: "round the inputs of products with quantised weights on the CPU with `PRECISION`: high (16 bits) or fast (8 bits)", def: "high",
		set: func(c *Config, s string) (err error) { c.Precision, err = choose(precisions, s); return err },
	},
	{
		name: Context, usage: "allow `N` tokens of prompt and answer; 0 for what the model was trained for", def: "0",
		set: func(c *Config, s string) (err error) { c.Engine.Context, err = integer(s, 0, 1<<24); return err },
	},
	{
		name: KV, usage: "store the KV cache as `TYPE`: " + alternatives(namesOf(kvTypes)) + "; with fewer bits, more rows fit", def: "f16",
		set: func(c *Config, s string) (err error) { c.Engine.KV, err = choose(kvTypes, s); return err },
	},
	{
		name: Sampling, usage: "give rows that set no sampling option `DEFAULTS`: recommended (by the model's makers) or plain (temperature 1)", def: "recommended",
		set: func(c *Config, s string) (err error) { c.Engine.Recommended, err = choose(samplings, s); return err },
	},
	{
		name: MemoryLimit, usage: "use at most `SIZE` of memory for weights, steps, rows and KV cache, such as 12GiB or a share of the free memory such as 70%",
		def: strconv.Itoa(engine.DefaultMemoryPercent) + "%",
		set: func(c *Config, s string) error { return setMemory(&c.Engine, s) },
	},
	{
		name: Draft, usage: "draft tokens with `HOW`: " + engine.DraftSettings + "; FILE is a small model, or a drafter of Gemma 4", def: string(engine.DraftAuto),
		set: func(c *Config, s string) (err error) {
			c.Engine.Draft, c.Engine.DraftModel, err = engine.ParseDrafting(s)
			return err
		},
	},
	{
		name: DraftTokens, usage: "draft `N` tokens per row and step; auto chooses the fastest number", def: "auto",
		set: func(c *Config, s string) (err error) { c.Engine.DraftTokens, err = draftTokens(s); return err },
	},
	{
		name: StepTime, usage: "limit steps that compute prompts to `TIME`, such as 20ms; auto limits them while interactive requests wait", def: "auto",
		set: func(c *Config, s string) (err error) { c.Engine.StepTime, err = stepTime(s); return err },
	},
	{
		name: Concurrency, usage: "compute `N` rows at once; auto chooses by memory and the measured cost of steps", def: "auto",
		set: func(c *Config, s string) (err error) { c.Concurrency, err = concurrency(s); return err },
	},
	{
		name: Listen, usage: "serve /metrics, /healthz and /readyz on `ADDR`, such as :9090; off if empty",
		set: func(c *Config, s string) error { c.Listen = s; return checkAddress(s) },
	},
	{
		name: Data, usage: "keep uploaded files and batches in `FOLDER`",
		set: func(c *Config, s string) error { c.Data = s; return nil },
	},
	{
		name: APIKeyFile, usage: "accept only requests with an API key in `FILE`, which has one key per line, with optional limits",
		set: func(c *Config, s string) error { c.APIKeyFile = s; return nil },
	},
	{
		name: TLSCert, usage: "serve HTTPS with the certificate chain in `FILE` (PEM)",
		set: func(c *Config, s string) error { c.TLSCert = s; return nil },
	},
	{
		name: TLSKey, usage: "read the certificate's private key from `FILE` (PEM)",
		set: func(c *Config, s string) error { c.TLSKey = s; return nil },
	},
	{
		name: CORSOrigin, usage: "let web pages of `ORIGIN` call the API, such as https://app.example.com; * for all; off if empty",
		set: func(c *Config, s string) error { c.CORSOrigin = s; return nil },
	},
	{
		name: LogLevel, usage: "log messages of at least `LEVEL`: " + alternatives(namesOf(logLevels)), def: "info",
		set: func(c *Config, s string) (err error) { c.LogLevel, err = choose(logLevels, s); return err },
	},
	{
		name: LogFormat, usage: "log as `FORMAT`: " + alternatives(logFormats), def: "text",
		set: func(c *Config, s string) error { c.LogFormat = s; return oneOf(s, logFormats) },
	},
}

// lookup returns the setting that has or had a name, or nil if there is none.
func lookup(n Name) *setting {
	i := slices.IndexFunc(settings, func(s setting) bool { return s.name == n || s.formerName != "" && s.formerName == n })
	if i < 0 {
		return nil
	}
	return &settings[i]
}

func names() string {
	all := make([]string, len(settings))
	for i, s := range settings {
		all[i] = string(s.name)
	}
	return strings.Join(all, ", ")
}

// AddFlag adds the flags of settings, under the settings' names.
func AddFlag(flags *pflag.FlagSet, names ...Name) {
	for _, n := range names {
		s := lookup(n)
		value := &flagValue{name: n, text: s.def}
		flags.Var(value, string(n), s.usage)
		for _, former := range s.formerFlags {
			flags.Var(value, former, s.usage)
			flags.Lookup(former).Hidden = true // not pflag's Deprecated, which cobra reports on stdout
		}
	}
}

// AddFlagUsage adds the flag of a setting with a help text that fits the command.
func AddFlagUsage(flags *pflag.FlagSet, n Name, usage string) {
	AddFlag(flags, n)
	flags.Lookup(string(n)).Usage = usage
}

// AllowList lets the flag of a setting be given several times. The values are joined with newlines.
// usage replaces the flag's help text.
func AllowList(flags *pflag.FlagSet, n Name, usage string) {
	f := flags.Lookup(string(n))
	f.Usage = usage
	f.Value.(*flagValue).list = true
}

// flagValue is the value of a setting's flag. It accepts any text; Load checks the text like the
// values of other sources.
type flagValue struct {
	name  Name
	text  string
	list  bool // the flag may be given several times
	given bool
}

func (f *flagValue) String() string { return f.text }

func (f *flagValue) Set(s string) error {
	if f.list && f.given {
		s = f.text + "\n" + s
	}
	f.text, f.given = s, true
	return nil
}

// Type makes the help show a default in quotes unless it is a number. The result must not be one of
// pflag's types: for these, viper would parse the value and read malformed text as 0.
func (f *flagValue) Type() string {
	if _, err := strconv.Atoi(lookup(f.name).def); err == nil {
		return "number"
	}
	return "string"
}
