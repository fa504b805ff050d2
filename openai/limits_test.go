package openai

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/engine/generation"
)

// The literal parts of a prompt are within its bytes, in order.
func TestLiteralRanges(t *testing.T) {
	t.Parallel()
	for ranges, want := range map[string][][2]int{
		`[]`: nil, `null`: nil, `[[0,0]]`: {{0, 0}}, `[[0,2],[2,5]]`: {{0, 2}, {2, 5}}, `[[1,5]]`: {{1, 5}},
	} {
		r := parse(t, Completions, `{"prompt":"héll","literal_ranges":`+ranges+`}`)
		require.Equal(t, want, generationOf(r, 0).LiteralParts, ranges)
	}
	for ranges, says := range map[string]string{
		`[[0,6]]`:       `"literal_ranges[0]" must be two offsets in the bytes of the only prompt, 0 to 5, in ascending order, not [0,6]`,
		`[[-1,2]]`:      "0 to 5, in ascending order, not [-1,2]",
		`[[0,3],[2,5]]`: `"literal_ranges[1]" must be two offsets in the bytes of the only prompt, 3 to 5, in ascending order, not [2,5]`,
		`[[3,2]]`:       "not [3,2]",
		`[[1]]`:         "not [1]",
		`[[1,2,3]]`:     "not [1,2,3]",
		`[5]`:           "not 5",
		`["a"]`:         `not "a"`,
	} {
		_, err := ParseRequest(Completions, []byte(`{"prompt":"héll","literal_ranges":`+ranges+`}`))
		require.ErrorContains(t, err, says, ranges)
	}
	_, err := ParseRequest(Completions, []byte(`{"prompt":["a","b"],"literal_ranges":[[0,1]]}`))
	require.ErrorContains(t, err, "0 to 0, in ascending order, not [0,1]")
	_, err = ParseRequest(Completions, []byte(`{"prompt":"a","literal_ranges":{}}`))
	require.ErrorContains(t, err, `"literal_ranges" must be an array`)
}

// The first error of a request is reported, whatever follows it.
func TestFirstErrors(t *testing.T) {
	t.Parallel()
	const chat = `{"messages":[{"role":"user","content":"a"}],`
	for body, says := range map[string]string{
		chat + `"stop":["a",5,""]}`:                                                                      `"stop[1]" must be a string, not a number`,
		chat + `"stop":["a","",5]}`:                                                                      `"stop" has an empty string`,
		chat + `"logit_bias":{"x":1,"y":1}}`:                                                             `"logit_bias" must have token ids as keys, not "x"`,
		chat + `"logit_bias":{"01":1,"1":1,"z":1}}`:                                                      `"logit_bias" has token 1 twice, once as "1"`,
		chat + `"logit_bias":{"1":1,"1":1,"z":1}}`:                                                       `"logit_bias" has the key "1" twice`,
		chat + `"logit_bias":{"1":101,"2":"a"}}`:                                                         `"logit_bias.1" must be between -100 and 100, not 101`,
		chat + `"stream_options":{"include_usage":5}}`:                                                   `"stream_options" needs "stream" to be true`,
		chat + `"guided_choice":[5,"\ud800"]}`:                                                           `"guided_choice[0]" must be a string, not a number`,
		chat + `"guided_choice":["a","\ud800",5]}`:                                                       `"guided_choice[1]" has half of a surrogate pair`,
		chat + `"guided_choice":[]}`:                                                                     `"guided_choice" is an empty array`,
		chat + `"guided_json":"{","guided_regex":"a"}`:                                                   `"guided_json" must be an object, or a text with an object as JSON`,
		chat + `"guided_json":"[]"}`:                                                                     `"guided_json" must be an object, or a text with an object as JSON`,
		chat + `"tools":[5,{"type":"x"}]}`:                                                               `"tools[0]" must be an object, not a number`,
		chat + `"tools":[null]}`:                                                                         `"tools[0]" must be an object, not null`,
		chat + `"tool_choice":{"type":"allowed_tools"},"tools":[` + weatherTool + `]}`:                   `"tool_choice.allowed_tools" is missing`,
		chat + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto"}}}`:                 `"tool_choice.allowed_tools.tools" is missing`,
		chat + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[5,6]}}}`:   `"tool_choice.allowed_tools.tools[0]" must be an object, not a number`,
		chat + `"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`:      `"tool_choice.allowed_tools.tools" is empty`,
		chat + `"tool_choice":{"type":"function"}}`:                                                      `"tool_choice.function" is missing`,
		chat + `"continue_final_message":true,"messages":[]}`:                                            `"messages" is empty`,
		`{"messages":[],"continue_final_message":true}`:                                                  `"messages" is empty`,
		`{"messages":[5,6],"continue_final_message":true}`:                                               `"messages[0]" must be an object, not a number`,
		`{"messages":[{"role":"user","content":"a"},"x"],"continue_final_message":true}`:                 `"messages[1]" must be an object, not a string`,
		`{"messages":[{"role":"assistant","content":"","tool_calls":5}]}`:                                `"messages[0].tool_calls" must be an array, not a number`,
		`{"messages":[{"role":"assistant","tool_calls":[{}]}]}`:                                          `"messages[0].tool_calls[0].function" must be an object, not null`,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{"}}]}]}`:   `"messages[0].tool_calls[0].function.arguments" must be an object as JSON: `,
		`{"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"[1]"}}]}]}`: `"messages[0].tool_calls[0].function.arguments" must be an object as JSON, not an array`,
	} {
		_, err := ParseLive(Chat, []byte(body))
		require.ErrorContains(t, err, says, body)
	}
	for body, says := range map[string]string{
		`{"prompt":[]}`:             `"prompt" is an empty array`,
		`{"prompt":["a",[1],"b"]}`:  `"prompt" must be a string, or an array of strings, of token ids or of arrays of token ids`,
		`{"prompt":[[1],["a"]]}`:    `"prompt`,
		`{"prompt":[true]}`:         `"prompt" must be a string, or an array`,
		`{"prompt":["a",null]}`:     `"prompt" must be a string, or an array`,
		`{"prompt":"a","prompt":"`:  "is not valid JSON",
		`5`:                         "is not a JSON object, but a number",
		`{"prompt":"a","stop":"\"}`: "is not valid JSON",
		`{"prompt":"a","guided_json":{},"guided_regex":"a"}`: `"guided_json" and "guided_regex" both give the form of the answer: give one`,
	} {
		_, err := ParseLive(Completions, []byte(body))
		require.ErrorContains(t, err, says, body)
	}
}

// As many tools, choices and prompts as the limits are accepted, and not one more.
func TestLimitsOfLists(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		endpoint        Endpoint
		start, one, end string
		limit           int
		says            string
	}{
		"choices": {Completions, `{"prompt":"a","guided_choice":[`, `"x"`, `]}`, maxChoices, `"guided_choice" has more than 100000 strings`},
		"prompts": {Completions, `{"prompt":[`, `"x"`, `]}`, maxPrompts, `prompts, more than`},
		"tools":   {Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[`, `{"type":"function","function":{"name":"f#"}}`, `]}`, maxTools, `"tools" has more than`},
		"stops":   {Completions, `{"prompt":"a","stop":[`, `"x"`, `]}`, maxStops, `strings, more than`},
	} {
		for _, more := range []int{0, 1} {
			list := make([]string, c.limit+more)
			for i := range list {
				list[i] = strings.Replace(c.one, "#", strconv.Itoa(i), 1)
			}
			body := c.start + strings.Join(list, ",") + c.end
			_, err := ParseLive(c.endpoint, []byte(body))
			if more == 0 {
				require.NoError(t, err, what)
			} else {
				require.ErrorContains(t, err, c.says, what)
			}
		}
	}
}

// A list is read up to its limit: a longer list costs no memory for the items after it.
func TestItemsBeyondTheLimitAreNotRead(t *testing.T) {
	for what, c := range map[string]struct {
		endpoint        Endpoint
		start, one, end string
		limit           int
	}{
		"choices": {Completions, `{"prompt":"a","guided_choice":[`, `"x"`, `]}`, maxChoices},
		"prompts": {Completions, `{"prompt":[`, `"x"`, `]}`, maxPrompts},
		"tools":   {Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[`, `{"type":"function","function":{"name":"f"}}`, `]}`, maxTools},
	} {
		allocations := func(items int) float64 {
			body := []byte(c.start + strings.Repeat(c.one+",", items-1) + c.one + c.end)
			return testing.AllocsPerRun(1, func() {
				_, err := ParseLive(c.endpoint, body)
				require.Error(t, err, what)
			})
		}
		// Each item that is read is an allocation or more. Pools that the garbage collector empties
		// add some hundreds.
		require.InDelta(t, allocations(c.limit+1), allocations(c.limit+2000), 1000, what)
	}
}

// A form that cannot be kept is an error that names its field, as is one that ends too early.
func TestFormsThatCannotBeKept(t *testing.T) {
	t.Parallel()
	refuse := func(*generation.Constraint) error { return errors.New("no") }
	accept := func(*generation.Constraint) error { return nil }
	form := parse(t, Completions, `{"prompt":"a","guided_regex":"b"}`)
	require.Equal(t, "guided_regex", form.FormParam())
	require.EqualError(t, form.CheckConstraint(refuse), `"guided_regex" cannot be kept: no`)
	require.NoError(t, form.CheckConstraint(accept))
	require.NoError(t, parse(t, Completions, `{"prompt":"a"}`).CheckConstraint(refuse))
	require.Empty(t, parse(t, Completions, `{"prompt":"a"}`).FormParam())
	tools := parse(t, Chat, `{"messages":[{"role":"user","content":"a"}],"tools":[`+weatherTool+`]}`)
	require.Equal(t, "tools", tools.FormParam())
	require.Error(t, tools.CheckConstraint(refuse), "the tool is strict")
	require.NoError(t, tools.CheckConstraint(accept))
	_, err := ParseLive(Completions, []byte(`{"prompt":"a","guided_regex":"b","ignore_eos":true}`))
	require.ErrorContains(t, err, `"ignore_eos" and "guided_regex" cannot be combined`)
}

// A stream whose answer comes as a whole needs a response that can be decoded.
func TestEndsOfStreams(t *testing.T) {
	t.Parallel()
	whole := parse(t, Completions, `{"prompt":"a","echo":true,"logprobs":0}`).NewStream(Answer{})
	_, err := whole.End(make(chan int), Tokens{})
	require.ErrorContains(t, err, "encode the response: ")
	_, err = whole.End([]int{1}, Tokens{})
	require.ErrorContains(t, err, "decode the response: ")
	chunks, err := whole.End(map[string]any{"choices": []int{7}}, Tokens{})
	require.NoError(t, err)
	require.Len(t, chunks, 1)
	text, err := Marshal(chunks[0])
	require.NoError(t, err)
	require.Contains(t, string(text), `"choices":[7]`)
	none, err := parse(t, Completions, `{"prompt":"a"}`).NewStream(Answer{}).End(make(chan int), Tokens{})
	require.NoError(t, err)
	require.Empty(t, none)
}

// A range without a real upper end is described by the bound that a number violates.
func TestDescribedBounds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		v, low, high int64
		want         string
	}{
		{0, 1, 5, "between 1 and 5"}, {6, 1, 5, "between 1 and 5"},
		{0, 1, math.MaxInt32, "at least 1"}, {math.MaxInt32 + 1, 1, math.MaxInt32, "at most 2147483647"},
		{0, 1, math.MaxInt32 - 1, "between 1 and 2147483646"}, {math.MaxInt32, 1, math.MaxInt32 - 1, "between 1 and 2147483646"},
		{0, 1, math.MaxInt64, "at least 1"},
	} {
		require.Equal(t, c.want, bounds(c.v, c.low, c.high), "%+v", c)
	}
}
