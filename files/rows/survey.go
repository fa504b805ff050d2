package rows

import (
	"bytes"
	"errors"
	"io"

	"github.com/ingot-run/ingot/openai"
)

// Survey has the numbers of a file's rows.
type Survey struct {
	Rows      int
	Continued int // requests with Row.Continue
	Chats     int // requests for a chat, which only a model with a chat template can answer; 0 unless SurveyOptions.Chats is set
}

// SurveyOptions are the settings of ReadSurvey. The zero value counts rows and Survey.Continued.
type SurveyOptions struct {
	Format Format     // FormatAuto if empty
	Chats  bool       // count Survey.Chats, for which every line is parsed
	Line   func(Line) // called with each row's line; may be nil
}

// ReadSurvey reads r to the end and counts its rows. Its errors are those of Next.
func ReadSurvey(r io.Reader, o SurveyOptions) (Survey, error) {
	lines := NewReader(r, Options{Format: o.Format})
	for s := (Survey{}); ; s.Rows++ {
		l, err := lines.NextLine()
		if errors.Is(err, io.EOF) {
			return s, nil
		}
		if err != nil {
			return Survey{}, err
		}
		if o.Line != nil {
			o.Line(l)
		}
		if o.Chats || bytes.Contains(l.Text, []byte(`"prompt"`)) {
			line, err := lines.parser(l.Text)
			switch {
			case err != nil || l.Long:
			case o.Chats && line.Endpoint == openai.Chat:
				s.Chats++
			case continues(l.Text, line):
				s.Continued++
			}
		}
	}
}

// Count reads r to the end and returns the number of rows. Its errors are those of Next.
func Count(r io.Reader, f Format) (int, error) {
	s, err := ReadSurvey(r, SurveyOptions{Format: f})
	return s.Rows, err
}
