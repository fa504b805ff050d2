package serve

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/ingot-run/ingot/engine"
	"github.com/ingot-run/ingot/engine/tokenizer"
	"github.com/ingot-run/ingot/openai"
)

// /tokenize, /detokenize and /tokenizer_info are paths of vLLM. lm-eval uses them, so that it needs
// no tokenizer itself.

// engineOf returns the engine of a model. An empty alias stands for the only model that the request
// may use.
func (s *Server) engineOf(r *http.Request, alias string) (*engine.Engine, Model, error) {
	models, err := s.usable(r)
	if err != nil {
		return nil, Model{}, err
	}
	unnamed := alias == ""
	if unnamed && len(models) > 0 {
		alias = models[0].Alias
	}
	m, err := s.model(r, alias)
	if err != nil {
		return nil, Model{}, err
	}
	eng := s.answerer.Engine(alias)
	if eng != nil && unnamed && len(models) > 1 {
		return nil, Model{}, &openai.Error{
			Code: openai.CodeMissing, Param: "model", Message: `this server has several models: name one in "model": ` + quotedAliases(models),
		}
	}
	notesOf(r.Context()).model = m.Alias
	if eng == nil {
		return nil, Model{}, failf(http.StatusNotFound, "", "unsupported", "this server has no tokenizer, since its workers have the models: send the request to a server that was started with --model")
	}
	return eng, m, nil
}

type tokenizeRequest struct {
	Model        string          `json:"model"`
	Prompt       *string         `json:"prompt"`
	Messages     json.RawMessage `json:"messages"`
	Special      *bool           `json:"add_special_tokens"` // for a prompt: add special tokens such as BOS; true if absent
	TokenStrings bool            `json:"return_token_strs"`
	Literal      bool            `json:"no_special_in_content"` // also a field of chats
}

// tokenize answers POST /tokenize with the token ids of a prompt, or of a chat after the chat
// template.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, body []byte) error {
	var req tokenizeRequest
	if err := parseBody(body, &req); err != nil {
		return err
	}
	eng, m, err := s.engineOf(r, req.Model)
	if err != nil {
		return err
	}
	var ids []int32
	switch {
	case req.Prompt != nil:
		o := tokenizer.EncodeOptions{Special: !req.Literal, BOS: req.Special == nil || *req.Special}
		ids, err = eng.Tokenizer().EncodeContext(r.Context(), *req.Prompt, o)
	case req.Messages != nil:
		var chat *openai.Request
		if chat, err = openai.ParseLive(openai.Chat, body); err == nil {
			if ids, err = eng.Prompt(r.Context(), chat.Generation(0, 0, time.Now())); err != nil {
				err = ofRequest(chat, err)
			}
		}
	default:
		err = missing("prompt")
	}
	if err != nil {
		return err
	}
	var name func(id int32) string
	if req.TokenStrings {
		name = eng.Tokenizer().Token
	}
	writeTokens(w, m.Context, ids, name)
	return nil
}

// tokensPart is the size in bytes of the pieces in which token ids are written.
const tokensPart = 64 << 10

// writeTokens writes the response of /tokenize in pieces, since a text can have millions of tokens.
// name returns the text of a token; nil leaves out the texts.
func writeTokens(w http.ResponseWriter, context int, ids []int32, name func(id int32) string) {
	w.Header().Set("Content-Type", "application/json")
	pieces := bufio.NewWriterSize(w, tokensPart)
	defer pieces.Flush()                                           //nolint:errcheck // fails only if the client has left
	write := func(text string) { _, _ = pieces.WriteString(text) } // Flush has the error too
	list := func(text func(id int32) string) {
		for i, id := range ids {
			if i > 0 {
				write(",")
			}
			write(text(id))
		}
	}
	write(fmt.Sprintf(`{"count":%d,"max_model_len":%d,"tokens":[`, len(ids), context))
	list(func(id int32) string { return strconv.Itoa(int(id)) })
	if name == nil {
		write(`],"token_strs":null}`)
	} else {
		write(`],"token_strs":[`)
		list(func(id int32) string {
			text, _ := openai.Marshal(name(id)) // a string can always be encoded
			return string(text)
		})
		write("]}")
	}
	write("\n")
}

// detokenize answers POST /detokenize with the text of token ids. Control tokens are a part of the
// text, so that /tokenize gives the same ids again.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request, body []byte) error {
	var req struct {
		Model       string  `json:"model"`
		Tokens      []int32 `json:"tokens"`
		SkipSpecial bool    `json:"skip_special_tokens"` // leave out control tokens, such as <|user|>
	}
	if err := parseBody(body, &req); err != nil {
		return err
	}
	if req.Tokens == nil {
		return missing("tokens")
	}
	eng, _, err := s.engineOf(r, req.Model)
	if err != nil {
		return err
	}
	vocab, size := eng.Info().Vocab, 0
	for i, id := range req.Tokens {
		if id < 0 || int(id) >= vocab {
			return failf(http.StatusBadRequest, "tokens", openai.CodeInvalidValue, `"tokens[%d]" is %d, but the vocabulary has ids 0 to %d`, i, id, vocab-1)
		}
		if size += len(eng.Tokenizer().Token(id)); size > openai.MaxBody {
			return failf(http.StatusBadRequest, "tokens", openai.CodeInvalidValue, `the text of "tokens" has more than %d MiB: send a part of them`, openai.MaxBody>>20)
		}
	}
	decode := eng.Tokenizer().DecodeSpecial // as vLLM and llama.cpp
	if req.SkipSpecial {
		decode = eng.Tokenizer().Decode
	}
	return reply(w, map[string]string{"prompt": decode(req.Tokens)}, nil)
}

func (s *Server) tokenizerInfo(w http.ResponseWriter, r *http.Request) error {
	eng, _, err := s.engineOf(r, r.URL.Query().Get("model"))
	if err != nil {
		return err
	}
	t := eng.Tokenizer()
	info := map[string]any{"tokenizer_class": "ingot", "add_bos_token": t.AddsBOS(), "bos_token": nil, "eos_token": nil, "pad_token": nil, "chat_template": nil}
	if id, ok := t.BOS(); ok {
		info["bos_token"] = t.Token(id)
	}
	if id, ok := t.EOS(); ok {
		info["eos_token"] = t.Token(id)
		info["pad_token"] = t.Token(id) // clients expect a padding token, although Ingot needs none
	}
	if template, ok := eng.ChatTemplate(); ok {
		info["chat_template"] = template
	}
	return reply(w, info, nil)
}
