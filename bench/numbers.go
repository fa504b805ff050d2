package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Numbers is the value of a flag: a list of whole numbers, in which 2k means 2048.
type Numbers []int

// String returns the list with commas.
func (n *Numbers) String() string {
	texts := make([]string, len(*n))
	for i, number := range *n {
		texts[i] = strconv.Itoa(number)
	}
	return strings.Join(texts, ",")
}

// Set reads a list with commas.
func (n *Numbers) Set(s string) error {
	*n = nil
	for text := range strings.SplitSeq(s, ",") {
		digits, thousands := strings.CutSuffix(text, "k")
		number, err := strconv.Atoi(digits)
		if err != nil || number < 0 || number > 1<<24 {
			return fmt.Errorf("%q is not allowed; give whole numbers up to %d, such as 256 or 2k, separated by commas", text, 1<<24)
		}
		if thousands {
			number *= 1024
		}
		*n = append(*n, number)
	}
	return nil
}

// Type returns the form of the value.
func (*Numbers) Type() string { return "numbers" }
