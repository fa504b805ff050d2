package config

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/compute"
	"github.com/ingot-run/ingot/engine/gguf"
	"github.com/ingot-run/ingot/metal"
)

type named[T any] struct {
	name  string
	value T
}

var kernelModes = []named[metal.Mode]{{"release", metal.Release}, {"debug", metal.Debug}, {"fast", metal.FastMath}}

var precisions = []named[compute.Precision]{{"high", compute.High}, {"fast", compute.Fast}}

var logLevels = []named[slog.Level]{{"debug", slog.LevelDebug}, {"info", slog.LevelInfo}, {"warn", slog.LevelWarn}, {"error", slog.LevelError}}

var logFormats = []string{"text", "json"}

var kvTypes = cacheTypes()

var samplings = []named[bool]{{"recommended", true}, {"plain", false}}

func cacheTypes() (all []named[gguf.Type]) {
	for _, t := range gguf.CacheTypes() {
		all = append(all, named[gguf.Type]{strings.ToLower(t.String()), t})
	}
	return all
}

func choose[T any](all []named[T], name string) (T, error) {
	for _, n := range all {
		if n.name == name {
			return n.value, nil
		}
	}
	var none T
	return none, fmt.Errorf("%q is not known: use %s", name, alternatives(namesOf(all)))
}

func namesOf[T any](all []named[T]) []string {
	list := make([]string, len(all))
	for i, n := range all {
		list[i] = n.name
	}
	return list
}

func oneOf(s string, allowed []string) error {
	if slices.Contains(allowed, s) {
		return nil
	}
	return fmt.Errorf("%q is not known: use %s", s, alternatives(allowed))
}

func alternatives(names []string) string { return english.WordSeries(names, "or") }

func (c *Config) setDevices(list string) error {
	c.Devices = nil
	for s := range strings.SplitSeq(list, ",") {
		n, err := integer(strings.TrimSpace(s), 0, 255)
		if err != nil {
			return err
		}
		if slices.Contains(c.Devices, n) {
			return fmt.Errorf("%q has the number %d twice: give each GPU once", list, n)
		}
		c.Devices = append(c.Devices, n)
	}
	c.Device = c.Devices[0]
	return nil
}

func integer(s string, low, high int) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%q is not allowed; give a whole number from %d to %d", s, low, high)
	}
	return n, nil
}

type unit struct {
	name  string
	bytes float64
}

// units are the units of sizes. B is last, since all other units end with B.
var units = []unit{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1}}

func setMemory(o *engine.Options, s string) (err error) {
	o.Memory, o.MemoryPercent = 0, 0
	if share, ok := strings.CutSuffix(s, "%"); ok {
		o.MemoryPercent, err = integer(share, 1, 100)
		return err
	}
	if i := slices.IndexFunc(units, func(u unit) bool { return strings.HasSuffix(s, u.name) }); i >= 0 {
		n, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(s, units[i].name)), 64)
		if bytes := n * units[i].bytes; err == nil && bytes >= 1 && bytes < math.MaxInt64 {
			o.Memory = int64(bytes)
			return nil
		}
	}
	return fmt.Errorf("%q is not a size; give a size such as 12GiB or 800MB, or a share of the free memory such as %d%%", s, engine.DefaultMemoryPercent)
}

func draftTokens(s string) (int, error) {
	if s == "auto" {
		return 0, nil
	}
	n, err := integer(s, 1, engine.MaxDraftTokens)
	if err != nil {
		return 0, fmt.Errorf("%w, or auto", err)
	}
	return n, nil
}

func concurrency(s string) (int, error) {
	if s == "auto" {
		return 0, nil
	}
	n, err := integer(s, 1, 4096)
	if err != nil {
		return 0, fmt.Errorf("%w, or auto", err)
	}
	return n, nil
}

func stepTime(s string) (time.Duration, error) {
	if s == "auto" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not allowed; give a time above 0 such as 20ms, or auto", s)
	}
	return d, nil
}

// tuningTime returns 0 for off.
func tuningTime(s string) (time.Duration, error) {
	if s == "off" {
		return 0, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not allowed; give a time above 0 such as 45s, or off", s)
	}
	return d, nil
}

// checkRedis checks a Redis URL. It does not wrap the parser's error, because that error quotes the
// URL, which can contain a password.
func checkRedis(s string) error {
	if s == "" {
		return nil
	}
	if _, err := redis.ParseURL(s); err != nil {
		return errors.New("not a Redis URL; give redis://[user:password@]host:port/db, the same with rediss:// for TLS, or unix:///path")
	}
	return nil
}

func checkAddress(s string) error {
	if s == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(s)
	if err != nil {
		return fmt.Errorf("%q is not an address; give host:port or :port", s)
	}
	_, err = integer(port, 0, 65535)
	return err
}
