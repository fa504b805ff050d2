package export

import (
	"encoding/json"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/files/table"
)

// Limits include their ends, and each setting drops answers by itself.
func TestLimitsOfFilters(t *testing.T) {
	t.Parallel()
	re := func(texts ...string) (list []*regexp.Regexp) {
		for _, text := range texts {
			list = append(list, regexp.MustCompile(text))
		}
		return list
	}
	five := sample{response: json.RawMessage(`"Äpfel"`), finishReason: "stop", completion: 3}
	failed := sample{failure: "timeout"}
	unknown := sample{response: json.RawMessage(`"a"`), completion: -1}
	for name, c := range map[string]struct {
		filter Filter
		sample sample
		set    bool
		want   Reason
	}{
		"nothing":                              {Filter{}, five, false, ""},
		"nothing, a failed row":                {Filter{}, failed, false, ""},
		"a failed row":                         {Filter{MaxTokens: 1}, failed, true, Failed},
		"another finish reason":                {Filter{FinishReasons: []string{"length"}}, five, true, OtherFinish},
		"the finish reason":                    {Filter{FinishReasons: []string{"length", "stop"}}, five, true, ""},
		"one expression matches":               {Filter{Match: re("pf")}, five, true, ""},
		"one of two expressions matches":       {Filter{Match: re("pf", "q")}, five, true, Unmatched},
		"an expression that must not match":    {Filter{NotMatch: re("q", "pf")}, five, true, Matched},
		"an expression that does not match":    {Filter{NotMatch: re("q")}, five, true, ""},
		"as many characters as the minimum":    {Filter{MinChars: 5}, five, true, ""},
		"one character fewer":                  {Filter{MinChars: 6}, five, true, TooShort},
		"as many characters as the maximum":    {Filter{MaxChars: 5}, five, true, ""},
		"one character more":                   {Filter{MaxChars: 4}, five, true, TooLong},
		"as many tokens as the minimum":        {Filter{MinTokens: 3}, five, true, ""},
		"one token fewer":                      {Filter{MinTokens: 4}, five, true, TooShort},
		"as many tokens as the maximum":        {Filter{MaxTokens: 3}, five, true, ""},
		"one token more":                       {Filter{MaxTokens: 2}, five, true, TooLong},
		"no tokens":                            {Filter{MinTokens: 1}, sample{response: five.response}, true, TooShort},
		"no tokens, without a minimum":         {Filter{MaxTokens: 1}, sample{response: five.response}, true, ""},
		"an unknown number of tokens, minimum": {Filter{MinTokens: 1}, unknown, true, ""},
		"an unknown number of tokens, maximum": {Filter{MaxTokens: 1}, unknown, true, ""},
		"only duplicates":                      {Filter{Unique: []string{"q"}}, five, true, ""},
		"duplicates, a failed row":             {Filter{Unique: []string{"q"}}, failed, true, Failed},
	} {
		require.Equal(t, c.set, c.filter.IsSet(), name)
		got, err := c.filter.drops(&c.sample)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for _, f := range []Filter{{Match: re("a")}, {NotMatch: re("a")}, {MinChars: 1}, {MaxChars: 1}} {
		_, err := f.drops(&sample{response: json.RawMessage(`5`)})
		require.ErrorContains(t, err, "its response is not a text")
	}
	_, err := (&Filter{MinTokens: 1}).drops(&sample{response: json.RawMessage(`5`)})
	require.NoError(t, err, "a filter by tokens does not read the response")
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	columns := []table.Column{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	record := func(values ...string) (fields []table.Field) {
		for i, v := range values {
			if v != "" {
				fields = append(fields, table.Field{Name: columns[i].Name, Value: json.RawMessage(v)})
			}
		}
		return fields
	}
	u, err := newUnique([]string{"a", "b"}, columns)
	require.NoError(t, err)
	for _, c := range []struct {
		fields    []table.Field
		duplicate bool
	}{
		{record(`"x"`, `"y"`, `1`), false},
		{record(`"x"`, `"y"`, `2`), true},
		{record(`"xy"`, `""`), false},
		{record(`"x"`, `"z"`), false},
		{record(`"y"`, `"x"`), false},
		{record("", `"x"`), false},
		{record(`"x"`), false},
		{record(`"x"`), true},
		{record(`" x "`, "\"y\\t\""), true},
		{record(`"x  \n y"`, `1`), false},
		{record(`"x y"`, `1`), true},
		{record(`"x y"`, `"1"`), false},
		{record(`"\u00c4"`, `1`), false},
		{record(`"A\u0308"`, `1`), true},
		{record(`{"a": 1}`, `1`), false},
		{record(`{"a":1}`, `1`), false},
		{record(), false},
		{record(), true},
	} {
		require.Equal(t, c.duplicate, u.isDuplicate(c.fields), "%s", c.fields)
	}
	none, err := newUnique(nil, columns)
	require.NoError(t, err)
	for range 2 {
		require.False(t, none.isDuplicate(record(`"x"`)))
	}
	_, err = newUnique([]string{"a", "d"}, columns)
	require.EqualError(t, err, `the table has no column "d": its columns are "a", "b", "c"`)
}

func TestSummaries(t *testing.T) {
	t.Parallel()
	o := &Output{Path: "out.csv", Failed: "failed.csv"}
	for want, c := range map[string]Counts{
		"out.csv: 0 records":                                                          {},
		"out.csv: 1 record; 1 row without an answer":                                  {Records: 1, Unanswered: 1},
		"out.csv: 2 records; 1 answer without the columns of their text":              {Records: 2, Unparsed: 1},
		"out.csv: 0 records; 1 row in failed.csv":                                     {Failed: 1},
		"out.csv: 0 records, 1 dropped (too long 1)":                                  {Dropped: map[Reason]int{TooLong: 1, TooShort: 0}},
		"out.csv: 0 records, 5 dropped (failed 2, duplicate 3); 2 rows in failed.csv": {Dropped: map[Reason]int{Duplicate: 3, Failed: 2}, Failed: 2},
	} {
		require.Equal(t, want, o.describe(c))
	}
}

// A failed row is a line with its reason. What is not an object, or has a reason already, is a text
// in another field if it has no fields or is not valid.
func TestLinesWithAReason(t *testing.T) {
	t.Parallel()
	one := []table.Field{{Name: "a", Value: json.RawMessage("1")}}
	earlier := []table.Field{{Name: table.ReasonColumn, Value: json.RawMessage(`"old"`)}}
	reason, line := table.ReasonColumn, table.LineColumn
	for _, c := range []struct {
		line   string
		fields []table.Field
		want   string
	}{
		{` {"a":1} `, one, `{"a":1,"` + reason + `":"no"}`},
		{`{ }`, nil, `{"` + reason + `":"no"}`},
		{`[1]`, nil, `{"` + line + `":"[1]","` + reason + `":"no"}`},
		{`{"a":1,`, one, `{"a":1,"` + line + `":"{\"a\":1,","` + reason + `":"no"}`},
		{`{"` + reason + `":"old"}`, earlier, `{"` + reason + `":"old","` + reason + `":"no"}`},
		{`  `, nil, `{"` + reason + `":"no"}`},
	} {
		require.Equal(t, c.want, string(lineWith(table.Record{Line: []byte(c.line), Fields: c.fields}, json.RawMessage(`"no"`))), c.line)
	}
}
