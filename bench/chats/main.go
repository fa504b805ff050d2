// Command chats writes chats of different lengths as JSON Lines, to measure `ingot run` with:
//
//	go run ./bench/chats 2000 docs/*.md >chats.jsonl
//
// The texts are passages of the given files. Prompts have about 20 to 1,500 tokens, with a
// log-normal distribution; answers end after 10 to 300 tokens. The chats are always the same.
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
)

type message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chat struct {
	Messages  []message `json:"messages"`
	MaxTokens int       `json:"max_tokens"`
}

func main() {
	log.SetFlags(0)
	if err := run(os.Args[1:]); err != nil {
		log.Fatalf("write chats: %v", err)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return errors.New("the arguments must be the number of chats and the names of text files")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < 1 {
		return fmt.Errorf("the number of chats is %q, but must be at least 1", args[0])
	}
	var words []string
	for _, name := range args[1:] {
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		words = append(words, strings.Fields(string(text))...)
	}
	const longest = 1000
	if len(words) <= longest {
		return fmt.Errorf("the files have %d words; more than %d are needed", len(words), longest)
	}
	r := rand.New(rand.NewPCG(27, 1))
	out := json.NewEncoder(os.Stdout)
	for range n {
		// A word of these texts has about 1.7 tokens.
		length := int(min(max(math.Exp(4.4+0.9*r.NormFloat64()), 12), 880))
		from := r.IntN(len(words) - longest)
		c := chat{MaxTokens: 10 + r.IntN(291), Messages: []message{{"user", "Continue this text: " + strings.Join(words[from:from+length], " ")}}}
		if err := out.Encode(c); err != nil {
			return err
		}
	}
	return nil
}
