// Command drafts measures what drafting gains and costs, with greedy and drawn texts of five kinds:
//
//	go build -o drafts ./bench/drafts
//	./drafts -ingot bin/ingot -model model.gguf docs/*.md engine/*.go
//
// Each kind of rows is answered in turns without drafts and with them. The speed is that of the
// tokens between the answers to the first and the last row, so it leaves out loading. The output is
// a table of medians. Prompts have passages of the given files; Go files make the rows with code.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

type settings struct {
	ingot, model        string
	rows, atOnce, turns int
	tokens              int
	kinds               string
}

func main() {
	log.SetFlags(0)
	var s settings
	flag.StringVar(&s.ingot, "ingot", "ingot", "the program")
	flag.StringVar(&s.model, "model", "", "the model's file")
	flag.IntVar(&s.rows, "rows", 320, "number of rows of each kind")
	flag.IntVar(&s.atOnce, "concurrency", 64, "number of rows at once")
	flag.IntVar(&s.tokens, "tokens", 200, "maximum number of tokens of an answer")
	flag.IntVar(&s.turns, "turns", 3, "number of runs of which the median is taken")
	flag.StringVar(&s.kinds, "kinds", "repetitive,random,changing,code,mixed", "the kinds of rows, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := s.run(ctx, flag.Args())
	stop()
	if err != nil {
		log.Fatalf("measure drafts: %v", err)
	}
}

var sampling = []struct {
	name        string
	temperature float64
}{{"greedy", 0}, {"default", 1}}

func (s *settings) run(ctx context.Context, files []string) (err error) {
	prose, code, err := passages(files)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "ingot-drafts-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	fmt.Println("| rows | options | tokens/s without drafts | with drafts | accepted |\n|---|---|--:|--:|--:|")
	for _, kind := range kinds {
		if !slices.Contains(strings.Split(s.kinds, ","), kind.name) {
			continue
		}
		for _, options := range sampling {
			path := filepath.Join(dir, kind.name+"-"+options.name+".jsonl")
			if err := s.write(path, kind.prompt, options.temperature, prose, code); err != nil {
				return err
			}
			var off, on []float64
			accepted := 0.0
			for range s.turns {
				without, _, err := s.measure(ctx, path, "off")
				if err != nil {
					return err
				}
				with, share, err := s.measure(ctx, path, "auto")
				if err != nil {
					return err
				}
				off, on, accepted = append(off, without), append(on, with), share
			}
			fmt.Printf("| %s | %s | %.0f | %.3f | %.2f |\n", kind.name, options.name, median(off), median(on)/median(off), accepted)
		}
	}
	return nil
}

func median(v []float64) float64 {
	slices.Sort(v)
	return v[len(v)/2]
}

// kinds are the kinds of rows, by what the answers should look like.
var kinds = []struct {
	name   string
	prompt func(r *rand.Rand, prose, code []string) string
}{
	{"repetitive", repetitive}, {"random", arbitrary}, {"changing", changing}, {"code", program},
	{"mixed", func(r *rand.Rand, prose, code []string) string {
		of := []func(r *rand.Rand, prose, code []string) string{repetitive, arbitrary, changing, program}
		return of[r.IntN(len(of))](r, prose, code)
	}},
}

func repetitive(r *rand.Rand, prose, _ []string) string {
	return "Write this sentence fifty times: " + passage(r, prose, 10)
}

func arbitrary(r *rand.Rand, _, _ []string) string {
	var numbers []string
	for range 60 {
		numbers = append(numbers, strconv.Itoa(r.IntN(100_000)))
	}
	return "Continue this list with numbers that are not in it: " + strings.Join(numbers, " ")
}

// changing wants an answer whose first part repeats the prompt.
func changing(r *rand.Rand, prose, _ []string) string {
	return "Copy this text, and then write a poem about the sea: " + passage(r, prose, 80)
}

func program(r *rand.Rand, _, code []string) string {
	return "Copy this part of a Go program and add comments:\n```go\n" + passage(r, code, 120) + "\n```"
}

func passage(r *rand.Rand, words []string, n int) string {
	from := r.IntN(len(words) - n)
	return strings.Join(words[from:from+n], " ")
}

// passages returns the words of files: of texts and of Go programs.
func passages(files []string) (prose, code []string, err error) {
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, nil, err
		}
		if filepath.Ext(name) == ".go" {
			code = append(code, strings.Split(string(text), " ")...)
		} else {
			prose = append(prose, strings.Fields(string(text))...)
		}
	}
	if min(len(prose), len(code)) < 1000 {
		return nil, nil, fmt.Errorf("the files have %d words of text and %d of Go programs: give files with 1,000 of each", len(prose), len(code))
	}
	return prose, code, nil
}

func (s *settings) write(path string, prompt func(r *rand.Rand, prose, code []string) string, temperature float64, prose, code []string) error {
	var out strings.Builder
	r := rand.New(rand.NewPCG(27, 4))
	for i := range s.rows {
		row := map[string]any{
			"messages": []map[string]string{{"role": "user", "content": prompt(r, prose, code)}}, "temperature": temperature, "seed": i,
			"max_tokens": s.tokens/2 + r.IntN(s.tokens/2+1), "ignore_eos": true,
		}
		line, err := json.Marshal(row)
		if err != nil {
			return err
		}
		out.Write(append(line, '\n'))
	}
	return os.WriteFile(path, []byte(out.String()), 0o600)
}

// answer is what is read of an answer's line.
type answer struct {
	Stats struct {
		Completion int `json:"completion_tokens"`
		Drafted    int `json:"draft_tokens"`
		Accepted   int `json:"accepted_tokens"`
	} `json:"stats"`
}

// measure answers the rows of a file. It returns the tokens per second between the first and the
// last answer, and the share of drafts that were accepted.
func (s *settings) measure(ctx context.Context, path, drafts string) (speed, accepted float64, err error) {
	cmd := exec.CommandContext(ctx, s.ingot, "run", path, "-o", "-", "--model", s.model, "--quiet", "--concurrency", strconv.Itoa(s.atOnce), "--draft", drafts)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	var first, last time.Time
	tokens, all, right := 0, 0, 0
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			return 0, 0, errors.Join(fmt.Errorf("read an answer: %w", err), cmd.Process.Kill(), cmd.Wait())
		}
		last = time.Now()
		if first.IsZero() {
			first = last
		} else {
			tokens += a.Stats.Completion
		}
		all, right = all+a.Stats.Drafted, right+a.Stats.Accepted
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		return 0, 0, fmt.Errorf("answer the rows of %s: %w", path, err)
	}
	if !last.After(first) {
		return 0, 0, fmt.Errorf("%s has too few rows to measure a speed", path)
	}
	return float64(tokens) / last.Sub(first).Seconds(), float64(right) / float64(max(all, 1)), nil
}
