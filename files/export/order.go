package export

import (
	"bufio"
	"context"
	"io"
)

// bufferSize is the size of the buffer with which a file of lines is read or written, in bytes.
const bufferSize = 1 << 20

// WriteLines writes the lines of all answers to w, sorted by row. Those of the same row keep the
// order of the files.
func WriteLines(ctx context.Context, w io.Writer, all []*Answers) error {
	out := bufio.NewWriterSize(w, bufferSize)
	next := make([]int, len(all))
	for ctx.Err() == nil {
		first := lowest(all, next)
		if first < 0 {
			return out.Flush()
		}
		text, err := all[first].text(all[first].entries[next[first]])
		if err != nil {
			return err
		}
		if _, err := out.Write(text); err != nil {
			return err
		}
		next[first]++
	}
	return ctx.Err()
}

// Order sorts the lines of a file of answers by row. It replaces the file atomically, so that a
// reader never sees an incomplete file. No other process may write to the file meanwhile.
func Order(ctx context.Context, path string) error {
	a, err := OpenAnswers(path)
	if err != nil {
		return err
	}
	defer a.Close() //nolint:errcheck // the file was only read
	if a.sorted {
		return nil
	}
	return writeFile(path, func(w io.Writer) error { return WriteLines(ctx, w, []*Answers{a}) })
}

// lowest returns the index of the answers whose next entry has the lowest row; -1 if no entries are
// left. next has the index of the next entry of each.
func lowest(all []*Answers, next []int) int {
	first := -1
	for i, a := range all {
		if next[i] < len(a.entries) && (first < 0 || a.entries[next[i]].row < all[first].entries[next[first]].row) {
			first = i
		}
	}
	return first
}
