package task

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"github.com/dlclark/regexp2/v2"

	"github.com/ingot-run/ingot/internal/ordered"
)

// The metrics of IFEval: the share of rows whose instructions are all followed, and the share of
// instructions that are followed. The loose metrics also accept an answer that follows an
// instruction if its first line, its last line or its asterisks are removed.
const (
	PromptStrict      = "prompt_level_strict_acc"
	PromptLoose       = "prompt_level_loose_acc"
	InstructionStrict = "inst_level_strict_acc"
	InstructionLoose  = "inst_level_loose_acc"
)

// instructionMetrics are the metrics of IFEval with their aggregations.
var instructionMetrics = map[string]string{
	PromptStrict: "mean", PromptLoose: "mean", InstructionStrict: "weighted_mean", InstructionLoose: "weighted_mean",
}

// Instruction is an instruction of an IFEval row. A program can check whether an answer follows it.
type Instruction struct {
	ID      string
	follows func(answer string) bool
}

// ErrSkip means that a row cannot be scored, because it needs something that is not supported. The
// task's other rows can still be scored.
var ErrSkip = errors.New("the row is left out")

func readInstructions(row *ordered.Object, p *Prompt) error {
	text, err := json.Marshal(plain(row))
	if err != nil {
		return err
	}
	var doc struct {
		IDs    []string       `json:"instruction_id_list"`
		Kwargs []instructions `json:"kwargs"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read instruction_id_list and kwargs: %w", err)
	}
	if len(doc.IDs) == 0 || len(doc.Kwargs) != len(doc.IDs) {
		return fmt.Errorf("instruction_id_list has %d elements and kwargs has %d: both need the same number, at least 1", len(doc.IDs), len(doc.Kwargs))
	}
	for i, id := range doc.IDs {
		check, ok := instructionChecks[id]
		if !ok {
			return fmt.Errorf("%w: instruction %q is %w", ErrSkip, id, ErrUnsupported)
		}
		follows, err := check(&doc.Kwargs[i])
		if err != nil {
			return fmt.Errorf("instruction %q: %w", id, err)
		}
		p.Instructions = append(p.Instructions, Instruction{id, follows})
	}
	return nil
}

// Follow returns how many of the row's instructions an answer follows, strictly and loosely.
func (p *Prompt) Follow(answer string) (strict, loose int) {
	lines := strings.Split(answer, "\n")
	last := max(1, len(lines)-1)
	variants := []string{answer}
	for _, part := range [][]string{lines[1:], lines[:len(lines)-1], lines[1:last]} {
		variants = append(variants, strings.TrimSpace(strings.Join(part, "\n")))
	}
	for _, v := range slices.Clone(variants) {
		variants = append(variants, strings.ReplaceAll(v, "*", ""))
	}
	for _, each := range p.Instructions {
		follows := func(s string) bool { return strings.TrimSpace(s) != "" && each.follows(s) }
		if follows(answer) {
			strict++
		}
		if slices.ContainsFunc(variants, follows) {
			loose++
		}
	}
	return strict, loose
}

// instructions holds the settings of one instruction. They are an element of the column kwargs.
// Settings that the instruction does not use are null.
type instructions struct {
	Keywords     []string `json:"keywords"`
	Keyword      string   `json:"keyword"`
	Forbidden    []string `json:"forbidden_words"`
	Letter       string   `json:"letter"`
	Frequency    number64 `json:"frequency"`
	LetFrequency number64 `json:"let_frequency"`
	Relation     string   `json:"relation"`
	LetRelation  string   `json:"let_relation"`
	Words        number64 `json:"num_words"`
	Paragraphs   number64 `json:"num_paragraphs"`
	Nth          number64 `json:"nth_paragraph"`
	FirstWord    string   `json:"first_word"`
	Placeholders number64 `json:"num_placeholders"`
	Postscript   string   `json:"postscript_marker"`
	Bullets      number64 `json:"num_bullets"`
	Highlights   number64 `json:"num_highlights"`
	Sections     number64 `json:"num_sections"`
	Splitter     string   `json:"section_spliter"`
	Repeat       string   `json:"prompt_to_repeat"`
	End          string   `json:"end_phrase"`
	Capitals     number64 `json:"capital_frequency"`
	CapitalRel   string   `json:"capital_relation"`
}

// number64 is an integer that a file may write as 3.0.
type number64 = float64

// errArgument means that a setting of an instruction is missing or out of range. For a missing
// setting, the harness draws a random value, which the prompt does not mention; here, the row is an
// error.
var errArgument = errors.New("a setting of the instruction in kwargs is missing or out of range")

// compared returns a check of an answer: count(answer) must be "at least" or "less than" a limit.
// relation is one of these two texts. The parameter than is the limit.
func compared(relation string, than number64, count func(answer string) int) (func(string) bool, error) {
	switch {
	case than <= 0:
		return nil, errArgument
	case relation == "less than":
		return func(s string) bool { return number64(count(s)) < than }, nil
	case relation == "at least":
		return func(s string) bool { return number64(count(s)) >= than }, nil
	}
	return nil, fmt.Errorf("relation %q is not \"less than\" or \"at least\"", relation)
}

func mustExpression(pattern string, o regexp2.RegexOptions) *regexp2.Regexp {
	re, _ := compile(pattern, o) // the patterns are valid constants
	return re
}

var (
	wordRE            = mustExpression(`\w+`, regexp2.None)
	placeholderRE     = mustExpression(`\[.*?\]`, regexp2.None)
	starBulletRE      = mustExpression(`^\s*\*[^\*].*$`, regexp2.Multiline)
	dashBulletRE      = mustExpression(`^\s*-.*$`, regexp2.Multiline)
	highlightRE       = mustExpression(`\*[^\n\*]*\*`, regexp2.None)
	doubleHighlightRE = mustExpression(`\*\*[^\n\*]*\*\*`, regexp2.None)
	dividerRE         = mustExpression(`\s?\*\*\*\s?`, regexp2.None)
	titleRE           = mustExpression(`<<[^\n]+>>`, regexp2.None)
	capitalWordRE     = mustExpression(`[\w'’]+(-[\w'’]+)*`, regexp2.None)
)

// all returns the texts of all matches of an expression.
func all(re *regexp2.Regexp, s string) (list []string) {
	m, err := re.FindStringMatch(s)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		list = append(list, m.String())
	}
	return list
}

// splitAt splits a text at the matches of an expression.
func splitAt(re *regexp2.Regexp, s string) []string {
	var parts []string
	r, from := []rune(s), 0
	m, err := re.FindStringMatch(s)
	for ; m != nil && err == nil; m, err = re.FindNextMatch(m) {
		parts = append(parts, string(r[from:m.RuneIndex]))
		from = m.RuneIndex + m.RuneLength
	}
	return append(parts, string(r[from:]))
}

// given returns a check, or errArgument if the settings that it needs are not valid.
func given(valid bool, check func(string) bool) (func(string) bool, error) {
	if !valid {
		return nil, errArgument
	}
	return check, nil
}

func always(check func(string) bool) func(*instructions) (func(string) bool, error) {
	return func(*instructions) (func(string) bool, error) { return check, nil }
}

// atLeast returns a check that count returns at least n for an answer.
func atLeast(n number64, count func(string) int) (func(string) bool, error) {
	return compared("at least", n, count)
}

// instructionChecks maps the id of an instruction to a function that makes its check from its
// settings. The checks are the same as in the harness (tasks/ifeval/instructions.py), with these
// exceptions. Two instructions are missing: language:response_language needs language detection,
// and length_constraints:number_sentences a trained sentence splitter. change_case:english_capital
// and english_lowercase check only the case, not the language. change_case:capital_word_frequency
// splits words at spaces and punctuation; the harness uses NLTK's tokeniser.
var instructionChecks = map[string]func(k *instructions) (func(answer string) bool, error){
	"keywords:existence": func(k *instructions) (func(string) bool, error) {
		if len(k.Keywords) == 0 {
			return nil, errArgument
		}
		list, err := compileAll(k.Keywords, regexp2.IgnoreCase)
		return func(s string) bool {
			return !slices.ContainsFunc(list, func(re *regexp2.Regexp) bool { return !matched(re, s) })
		}, err
	},
	"keywords:frequency": func(k *instructions) (func(string) bool, error) {
		if k.Keyword == "" {
			return nil, errArgument
		}
		re, err := compile(strings.TrimSpace(k.Keyword), regexp2.IgnoreCase)
		if err != nil {
			return nil, err
		}
		return compared(k.Relation, k.Frequency, func(s string) int { return len(all(re, s)) })
	},
	"keywords:forbidden_words": func(k *instructions) (func(string) bool, error) {
		if len(k.Forbidden) == 0 {
			return nil, errArgument
		}
		var patterns []string
		for _, word := range k.Forbidden {
			patterns = append(patterns, `\b`+word+`\b`)
		}
		list, err := compileAll(patterns, regexp2.IgnoreCase)
		return func(s string) bool {
			return !slices.ContainsFunc(list, func(re *regexp2.Regexp) bool { return matched(re, s) })
		}, err
	},
	"keywords:letter_frequency": func(k *instructions) (func(string) bool, error) {
		letter := strings.ToLower(k.Letter)
		if len(letter) != 1 || letter < "a" || letter > "z" {
			return nil, errArgument
		}
		return compared(k.LetRelation, k.LetFrequency, func(s string) int { return strings.Count(strings.ToLower(s), letter) })
	},
	"length_constraints:number_words": func(k *instructions) (func(string) bool, error) {
		return compared(k.Relation, k.Words, func(s string) int { return len(all(wordRE, s)) })
	},
	"length_constraints:number_paragraphs": func(k *instructions) (func(string) bool, error) {
		return given(k.Paragraphs > 0, func(s string) bool { return paragraphs(s) == k.Paragraphs })
	},
	"length_constraints:nth_paragraph_first_word": func(k *instructions) (func(string) bool, error) {
		return given(k.Nth > 0 && k.Nth <= k.Paragraphs && k.FirstWord != "", func(s string) bool { return startsNth(s, k) })
	},
	"detectable_content:number_placeholders": func(k *instructions) (func(string) bool, error) {
		return atLeast(k.Placeholders, func(s string) int { return len(all(placeholderRE, s)) })
	},
	"detectable_content:postscript": func(k *instructions) (func(string) bool, error) {
		marker := strings.TrimSpace(k.Postscript)
		pattern := `\s*` + strings.ToLower(marker) + `.*$`
		switch marker {
		case "":
			return nil, errArgument
		case "P.P.S":
			pattern = `\s*p\.\s?p\.\s?s.*$`
		case "P.S.":
			pattern = `\s*p\.\s?s\..*$`
		}
		re, err := compile(pattern, regexp2.Multiline)
		return func(s string) bool { return matched(re, strings.ToLower(s)) }, err
	},
	"detectable_format:number_bullet_lists": func(k *instructions) (func(string) bool, error) {
		return given(k.Bullets > 0, func(s string) bool { return number64(len(all(starBulletRE, s))+len(all(dashBulletRE, s))) == k.Bullets })
	},
	"detectable_format:constrained_response": always(func(s string) bool {
		return slices.ContainsFunc([]string{"My answer is yes.", "My answer is no.", "My answer is maybe."}, func(o string) bool { return strings.Contains(s, o) })
	}),
	"detectable_format:number_highlighted_sections": func(k *instructions) (func(string) bool, error) {
		return atLeast(k.Highlights, func(s string) int {
			n := 0
			for _, h := range all(highlightRE, s) {
				n += cmp.Compare(len(strings.TrimSpace(strings.Trim(h, "*"))), 0)
			}
			for _, h := range all(doubleHighlightRE, s) {
				n += cmp.Compare(len(strings.TrimSpace(h[2:len(h)-2])), 0)
			}
			return n
		})
	},
	"detectable_format:multiple_sections": func(k *instructions) (func(string) bool, error) {
		if k.Splitter == "" {
			return nil, errArgument
		}
		re, err := compile(`\s?`+strings.TrimSpace(k.Splitter)+`\s?\d+\s?`, regexp2.None)
		if err != nil {
			return nil, err
		}
		return atLeast(k.Sections, func(s string) int { return len(all(re, s)) })
	},
	"detectable_format:json_format": always(func(s string) bool { return json.Valid([]byte(unfenced(s))) }),
	"detectable_format:title": always(func(s string) bool {
		return slices.ContainsFunc(all(titleRE, s), func(t string) bool {
			return strings.TrimSpace(strings.TrimRight(strings.TrimLeft(t, "<"), ">")) != ""
		})
	}),
	"combination:two_responses": always(twoResponses),
	"combination:repeat_prompt": func(k *instructions) (func(string) bool, error) {
		return given(k.Repeat != "", func(s string) bool {
			return strings.HasPrefix(strings.ToLower(strings.TrimSpace(s)), strings.ToLower(strings.TrimSpace(k.Repeat)))
		})
	},
	"startend:end_checker": func(k *instructions) (func(string) bool, error) {
		end := strings.ToLower(strings.TrimSpace(k.End))
		return given(end != "", func(s string) bool {
			return strings.HasSuffix(strings.ToLower(strings.Trim(strings.TrimSpace(s), `"`)), end)
		})
	},
	"startend:quotation": always(func(s string) bool {
		s = strings.TrimSpace(s)
		return len(s) > 1 && s[0] == '"' && s[len(s)-1] == '"'
	}),
	"change_case:english_capital":   always(isUpper),
	"change_case:english_lowercase": always(isLower),
	"change_case:capital_word_frequency": func(k *instructions) (func(string) bool, error) {
		return compared(k.CapitalRel, k.Capitals, func(s string) int {
			n := 0
			for _, w := range all(capitalWordRE, s) {
				if isUpper(w) {
					n++
				}
			}
			return n
		})
	},
	"punctuation:no_comma": always(func(s string) bool { return !strings.Contains(s, ",") }),
}

func matched(re *regexp2.Regexp, s string) bool {
	ok, err := re.MatchString(s)
	return ok && err == nil
}

// paragraphs returns the number of paragraphs, which are divided by three asterisks. It returns -1
// if a paragraph between the first and the last is empty.
func paragraphs(s string) number64 {
	parts := splitAt(dividerRE, s)
	n := len(parts)
	for i, p := range parts {
		if strings.TrimSpace(p) != "" {
			continue
		}
		if i > 0 && i < len(parts)-1 {
			return -1
		}
		n--
	}
	return number64(n)
}

// startsNth reports whether an answer has k.Paragraphs paragraphs, separated by empty lines, and
// paragraph k.Nth begins with k.FirstWord.
func startsNth(s string, k *instructions) bool {
	parts := strings.Split(s, "\n\n")
	n := len(parts)
	for _, p := range parts {
		if strings.TrimSpace(p) == "" {
			n--
		}
	}
	nth := int(k.Nth)
	if nth > n {
		return false
	}
	words := strings.Fields(parts[nth-1])
	if len(words) == 0 {
		return false
	}
	word := strings.TrimLeft(strings.TrimLeft(words[0], "'"), `"`)
	if i := strings.IndexAny(word, `.,?!'"`); i >= 0 {
		word = word[:i]
	}
	return number64(n) == k.Paragraphs && strings.EqualFold(word, k.FirstWord)
}

// twoResponses reports whether an answer consists of two different texts, separated by six
// asterisks.
func twoResponses(s string) bool {
	parts := strings.Split(s, "******")
	var valid []string
	for i, p := range parts {
		switch {
		case strings.TrimSpace(p) != "":
			valid = append(valid, strings.TrimSpace(p))
		case i > 0 && i < len(parts)-1:
			return false
		}
	}
	return len(valid) == 2 && valid[0] != valid[1]
}

// isUpper is Python's isupper: it reports whether s has an upper-case letter and no lower-case
// letter.
func isUpper(s string) bool {
	return strings.ContainsFunc(s, unicode.IsUpper) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsLower(r) || unicode.IsTitle(r) })
}

// isLower is Python's islower: it reports whether s has a lower-case letter and no upper-case
// letter.
func isLower(s string) bool {
	return strings.ContainsFunc(s, unicode.IsLower) && !strings.ContainsFunc(s, func(r rune) bool { return unicode.IsUpper(r) || unicode.IsTitle(r) })
}
