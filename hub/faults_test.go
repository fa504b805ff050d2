package hub

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/ingot-run/ingot/hub/hubtest"
)

// answer is a fault: it answers a request instead of the server. It returns false to let the server
// answer.
type answer = func(w http.ResponseWriter, r *http.Request) bool

// times makes a fault happen n times.
func times(n int32, f answer) answer {
	var left atomic.Int32
	left.Store(n)
	return func(w http.ResponseWriter, r *http.Request) bool { return left.Add(-1) >= 0 && f(w, r) }
}

// always is a number of times that is larger than any number of attempts.
const always = 1 << 30

// status answers with an HTTP status and headers, given as pairs of names and values.
func status(code int, header ...string) answer {
	return func(w http.ResponseWriter, _ *http.Request) bool {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		return true
	}
}

// cut sends n bytes of the requested range and then closes the connection.
func cut(b *bundle, n int) answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		all := b.Blob(r)
		first, last := rangeOf(r, len(all))
		if last-first < n {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(last-first+1))
		w.Header().Set("Content-Range", "bytes "+strconv.Itoa(first)+"-"+strconv.Itoa(last)+"/"+strconv.Itoa(len(all)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(all[first : first+n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// rangeOf returns the offsets of the first and last byte that a request asks for.
func rangeOf(r *http.Request, size int) (first, last int) {
	from, to, _ := strings.Cut(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-")
	first, _ = strconv.Atoi(from)
	last, err := strconv.Atoi(to)
	if err != nil {
		last = size - 1
	}
	return first, last
}

// whole sends the whole file whatever the request asks for. If n is not 0, it closes the connection
// after n bytes.
func whole(b *bundle, n int) answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		all := b.Blob(r)
		w.Header().Set("Content-Length", strconv.Itoa(len(all)))
		if n == 0 {
			_, _ = w.Write(all)
			return true
		}
		_, _ = w.Write(all[:n])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// only limits a fault to requests whose path contains part.
func only(part string, f answer) answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		return strings.Contains(r.URL.EscapedPath(), part) && f(w, r)
	}
}

// changed passes a request on to the server and changes the JSON of its response.
func changed(b *bundle, part string, change func(v any)) answer {
	return only(part, func(w http.ResponseWriter, r *http.Request) bool {
		recorder := httptest.NewRecorder()
		b.ServeAPI(recorder, r)
		var v any
		if err := json.Unmarshal(recorder.Body.Bytes(), &v); err != nil {
			panic(err)
		}
		change(v)
		return json.NewEncoder(w).Encode(v) == nil
	})
}

// entry returns the model's entry in the response for a tree.
func entry(v any) map[string]any {
	all := v.([]any)
	i := slices.IndexFunc(all, func(e any) bool { return strings.HasPrefix(e.(map[string]any)["path"].(string), "model-Q4_K_M") })
	return all[i].(map[string]any)
}

// TestFaults: with each fault, a pull ends with the right file or with a message that says what to
// do. After a failure, the same pull without the fault ends with the right file.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		fault func(b *bundle)
		want  string // part of the error; empty if the pull succeeds
		waits time.Duration
	}{
		// Faults of the connection.
		{name: "cut in the middle", fault: func(b *bundle) { b.Bytes = times(3, cut(b, 700_000)) }},
		{name: "cut again and again, with little each time", fault: func(b *bundle) { b.Bytes = times(20, cut(b, 100_000)) }},
		{name: "cut before the first byte, always", fault: func(b *bundle) { b.Bytes = times(always, cut(b, 0)) }, want: "the connection was cut (tried 7 times)"},
		{name: "stalled", fault: func(b *bundle) {
			b.env.Timeout = 300 * time.Millisecond
			b.Bytes = times(1, func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Content-Range", "bytes 0-"+strconv.Itoa(blockSize-1)+"/"+strconv.Itoa(len(b.model)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write(b.model[:500])
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return true
			})
		}},
		{name: "no answer", fault: func(b *bundle) {
			b.env.Timeout = 300 * time.Millisecond
			b.API = times(1, func(_ http.ResponseWriter, r *http.Request) bool {
				<-r.Context().Done()
				return true
			})
		}},
		{name: "no server", fault: func(b *bundle) { b.env.Endpoint = "http://127.0.0.1:1" }, want: "reach 127.0.0.1:1: "},
		{name: "no such host", fault: func(b *bundle) { b.env.Endpoint = "http://hub.invalid" }, want: "reach hub.invalid: "},

		// Servers with wrong ranges.
		{name: "no ranges", fault: func(b *bundle) { b.Bytes = times(always, whole(b, 0)) }},
		{name: "no ranges, and cut", fault: func(b *bundle) {
			short := times(3, whole(b, 1_500_000))
			b.Bytes = func(w http.ResponseWriter, r *http.Request) bool { return short(w, r) || whole(b, 0)(w, r) }
		}},
		{name: "the whole file after a part of it", fault: func(b *bundle) {
			first, late := times(1, cut(b, 1000)), times(2, whole(b, 0))
			b.Bytes = func(w http.ResponseWriter, r *http.Request) bool { return first(w, r) || late(w, r) }
		}},
		{name: "another range", fault: func(b *bundle) {
			b.Bytes = times(2, func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Range", "bytes 7-9/"+strconv.Itoa(len(b.model)))
				w.WriteHeader(http.StatusPartialContent)
				_, _ = w.Write([]byte("abc"))
				return true
			})
		}},
		{name: "a part without its place", fault: func(b *bundle) { b.Bytes = times(always, status(http.StatusPartialContent)) }, want: "sends a part of the file with the invalid Content-Range"},
		{name: "416", fault: func(b *bundle) { b.Bytes = times(always, status(http.StatusRequestedRangeNotSatisfiable)) }, want: "the server's file is shorter than"},

		// Wrong content.
		{name: "wrong hash", fault: func(b *bundle) { b.Bytes = times(always, flipped(b)) }, want: "the download was deleted; pull again (if this repeats, the server or a proxy changes the file)"},
		{name: "another size in the range", fault: func(b *bundle) {
			b.Bytes = times(always, status(http.StatusPartialContent, "Content-Range", "bytes 0-9/10"))
		}, want: "the server's file has 10 bytes instead of"},
		{name: "another size in the hub's header", fault: func(b *bundle) {
			b.Resolve = times(always, status(http.StatusFound, "X-Linked-Size", "10", "Location", b.CDN))
		}, want: "the server gives two sizes for model-Q4_K_M.gguf"},
		{name: "another size of the whole file", fault: func(b *bundle) {
			b.Bytes = times(always, func(w http.ResponseWriter, _ *http.Request) bool { _, err := w.Write([]byte("abc")); return err == nil })
		}, want: "the server's file has 3 bytes instead of"},

		// Missing permissions.
		{name: "401, a token that is not valid", fault: func(b *bundle) { b.env.Token, b.env.TokenAt = "stale", "HF_TOKEN" },
			want: "the token is refused: it is from HF_TOKEN; make a new one at https://huggingface.co/settings/tokens, or remove it"},
		{name: "401, no such repository", fault: func(b *bundle) { b.Add(modelName, &hubtest.Repo{Token: "secret"}) },
			want: "does not exist or is private: check the name at https://huggingface.co/user/model-GGUF; a private model needs HF_TOKEN"},
		{name: "404, no such repository for this token", fault: func(b *bundle) {
			b.env.Token, b.env.TokenAt = "other", "HF_TOKEN"
			b.Add(modelName, &hubtest.Repo{Token: "secret"})
		}, want: "the token (from HF_TOKEN) may not read it if it is private"},
		{name: "403, gated", fault: func(b *bundle) {
			b.Add(modelName, &hubtest.Repo{Gated: true, Files: map[string][]byte{"model-Q4_K_M.gguf": b.model}})
		}, want: "access to the model is restricted: accept its licence at https://huggingface.co/user/model-GGUF, make a token"},
		{name: "403, gated for this token", fault: func(b *bundle) {
			b.env.Token, b.env.TokenAt = "mine", "HF_TOKEN"
			b.Add(modelName, &hubtest.Repo{Gated: true, Files: map[string][]byte{"model-Q4_K_M.gguf": b.model}})
		}, want: "with the account of the token (from HF_TOKEN)"},

		// Missing repositories, revisions and files.
		{name: "404, no such revision", fault: func(b *bundle) {
			b.API = times(always, func(w http.ResponseWriter, _ *http.Request) bool {
				hubtest.Refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id")
				return true
			})
		}, want: `the repository has no branch, tag or commit "main"`},
		{name: "404, the file has gone", fault: func(b *bundle) {
			b.Resolve = times(always, func(w http.ResponseWriter, _ *http.Request) bool {
				hubtest.Refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
				return true
			})
		}, want: "the revision main does not have the file"},
		{name: "no GGUF", fault: func(b *bundle) {
			b.Add(modelName, &hubtest.Repo{Files: map[string][]byte{"model.safetensors": []byte("x")}})
		},
			want: "the repository has no GGUF model; look for a repository whose name ends in -GGUF"},
		{name: "a file of a set is missing", fault: func(b *bundle) {
			b.Add(modelName, &hubtest.Repo{Files: map[string][]byte{"m-Q4_K_M-00001-of-00003.gguf": []byte("x"), "m-Q4_K_M-00003-of-00003.gguf": []byte("z")}})
		}, want: "should have 3 files, but only 1 of them were found"},

		// Rate limits and failures of the server.
		{name: "429 with RateLimit", fault: func(b *bundle) { b.API = times(1, status(http.StatusTooManyRequests, "RateLimit", `"api";r=0;t=55`)) }, waits: 55 * time.Second},
		{name: "429 with Retry-After", fault: func(b *bundle) { b.Bytes = times(1, status(http.StatusTooManyRequests, "Retry-After", "30")) }, waits: 30 * time.Second},
		{name: "429 for ever", fault: func(b *bundle) { b.Resolve = times(always, status(http.StatusTooManyRequests, "Retry-After", "290")) },
			want: "too many requests (HF_TOKEN raises the limit); the server requires a wait of 4m50s: try again later"},
		{name: "500s", fault: func(b *bundle) {
			b.API, b.Resolve, b.Bytes = times(3, status(500)), times(2, status(502)), times(4, status(503))
		}},
		{name: "500 for ever", fault: func(b *bundle) { b.API = times(always, status(500)) }, want: "the server failed (500 Internal Server Error) (tried 7 times)"},
		{name: "503 for some of the connections", fault: func(b *bundle) {
			var n atomic.Int32
			b.Bytes = func(w http.ResponseWriter, r *http.Request) bool { return n.Add(1)%2 == 0 && status(503)(w, r) }
		}},

		// Redirects.
		{name: "a redirect loop of the API", fault: func(b *bundle) {
			b.API = times(always, func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.Path, http.StatusTemporaryRedirect)
				return true
			})
		}, want: "redirects more than 10 times, probably in a circle"},
		{name: "a redirect loop of the CDN", fault: func(b *bundle) {
			b.Bytes = times(always, func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, r.URL.RequestURI(), http.StatusFound)
				return true
			})
		}, want: "probably in a circle"},
		{name: "a repository with a new name", fault: func(b *bundle) {
			b.Add("new/name", &hubtest.Repo{Files: map[string][]byte{"model-Q4_K_M.gguf": b.model}})
			renamed := only("user/model-GGUF", func(w http.ResponseWriter, r *http.Request) bool {
				http.Redirect(w, r, strings.Replace(r.URL.RequestURI(), "user/model-GGUF", "new/name", 1), http.StatusTemporaryRedirect)
				return true
			})
			b.API, b.Resolve = renamed, renamed
		}},
		{name: "an address that has expired", fault: func(b *bundle) {
			expired := times(1, func(http.ResponseWriter, *http.Request) bool { b.Expire(); return false })
			b.Bytes = func(w http.ResponseWriter, r *http.Request) bool {
				first, _ := rangeOf(r, 0)
				return first > 0 && expired(w, r)
			}
		}},
		{name: "addresses that are never good", fault: func(b *bundle) { b.Bytes = times(always, status(http.StatusForbidden)) }, want: "the address has expired: "},

		// Invalid responses.
		{name: "a page instead of JSON", fault: func(b *bundle) {
			b.API = times(always, func(w http.ResponseWriter, _ *http.Request) bool {
				_, err := w.Write([]byte("<html>Log in"))
				return err == nil
			})
		}, want: "check that HF_ENDPOINT ("},
		{name: "a commit that is none", fault: func(b *bundle) {
			b.API = changed(b, "/revision/", func(v any) { v.(map[string]any)["sha"] = "../../../etc" })
		}, want: `the server's response has "../../../etc" instead of a commit's hash`},
		{name: "a path out of the folder", fault: func(b *bundle) {
			b.API = changed(b, "/tree/", func(v any) { entry(v)["path"] = "model-Q4_K_M/../../../evil.gguf" })
		}, want: `a file with the path "model-Q4_K_M/../../../evil.gguf", which is not allowed`},
		{name: "an absolute path", fault: func(b *bundle) {
			b.API = changed(b, "/tree/", func(v any) { entry(v)["path"] = "/tmp/evil.gguf" })
		}, want: `which is not allowed`},
		{name: "a hash that is none", fault: func(b *bundle) {
			b.API = changed(b, "/tree/", func(v any) { entry(v)["lfs"].(map[string]any)["oid"] = "../../evil" })
		}, want: "no valid hash and size for model-Q4_K_M.gguf"},
		{name: "a negative size", fault: func(b *bundle) {
			b.API = changed(b, "/tree/", func(v any) { entry(v)["lfs"].(map[string]any)["size"] = -1 })
		}, want: "no valid hash and size for model-Q4_K_M.gguf"},
		{name: "more bytes than the disk has", fault: func(b *bundle) {
			b.API = changed(b, "/tree/", func(v any) { entry(v)["lfs"].(map[string]any)["size"] = int64(1) << 60 })
		}, want: "but the disk has"},
		{name: "a list of files without an end", fault: func(b *bundle) {
			b.API = only("/tree/", func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Link", "<"+b.URL+r.URL.RequestURI()+`>; rel="next"`)
				_, err := w.Write([]byte("[]"))
				return err == nil
			})
		}, want: "has more than 1000 pages"},
		{name: "offline", fault: func(b *bundle) { b.env.Offline = true }, want: ": HF_HUB_OFFLINE is set, so nothing is downloaded; unset it to download"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			env, repo := b.env, &hubtest.Repo{Files: map[string][]byte{"model-Q4_K_M.gguf": b.model}}
			c.fault(b)
			var waited atomic.Int64
			p := b.puller()
			p.client.wait = func(ctx context.Context, d time.Duration) error {
				if int64(d) > waited.Load() {
					waited.Store(int64(d))
				}
				return ctx.Err()
			}
			got, err := p.Pull(t.Context(), parse(t, modelName))
			if c.want == "" {
				require.NoError(t, err)
				b.requireModel(t, got, b.model)
				if c.waits > 0 {
					require.InDelta(t, c.waits, time.Duration(waited.Load()), float64(time.Second))
				}
			} else {
				require.ErrorContains(t, err, c.want)
				require.NotContains(t, err.Error(), "\n")
				require.NotContains(t, err.Error(), "signature", "addresses with signatures are secret")
				_, err = Store{b.env}.Find(parse(t, modelName))
				require.ErrorIs(t, err, ErrNotHere, "an incomplete file is not found")
				b.Heal()
				b.env = env
				b.Add(modelName, repo)
				got, err = b.pull(t, modelName)
				require.NoError(t, err)
				b.requireModel(t, got, b.model)
			}
			for _, r := range b.Requests() {
				require.False(t, r.CDN && r.Auth != "", "only the hub gets the token")
				require.Equal(t, "identity", r.Accept)
			}
			_, err = os.Stat("/tmp/evil.gguf")
			require.ErrorIs(t, err, os.ErrNotExist)
		})
	}
}

// flipped sends the requested range with one flipped bit.
func flipped(b *bundle) answer {
	return func(w http.ResponseWriter, r *http.Request) bool {
		all := slices.Clone(b.Blob(r))
		all[len(all)/2] ^= 1
		first, last := rangeOf(r, len(all))
		w.Header().Set("Content-Range", "bytes "+strconv.Itoa(first)+"-"+strconv.Itoa(last)+"/"+strconv.Itoa(len(all)))
		w.WriteHeader(http.StatusPartialContent)
		_, _ = w.Write(all[first : last+1])
		return true
	}
}

// TestTheTokenIsForTheHubAlone: a private model is pulled with the token. The CDN never gets the
// token.
func TestTheTokenIsForTheHubAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Add("me/private-GGUF", &hubtest.Repo{Token: "secret", Files: map[string][]byte{"a-Q8_0.gguf": b.model}})
	b.env.Token = "secret"
	got, err := b.pull(t, "me/private-GGUF")
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	hub, cdn := 0, 0
	for _, r := range b.Requests() {
		if r.CDN {
			cdn++
			require.Empty(t, r.Auth)
		} else {
			hub++
			require.Equal(t, "Bearer secret", r.Auth)
		}
	}
	require.Positive(t, cdn)
	require.Positive(t, hub)
	require.Contains(t, strings.Join(b.notes, "\n"), "is sent to "+b.URL+", because HF_ENDPOINT is set")
}

// TestALateRedirect: a mirror gives the file's size itself and redirects the requests for bytes.
// The other server does not get the token.
func TestALateRedirect(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.env.Token = "secret"
	b.Resolve = func(w http.ResponseWriter, r *http.Request) bool {
		return r.Method == http.MethodHead && status(http.StatusOK)(w, r)
	}
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	for _, r := range b.Requests() {
		require.False(t, r.CDN && r.Auth != "")
	}
}

// TestADamagedPartIsNotUsed: if the part from an earlier pull is damaged, the pull starts over.
func TestADamagedPartIsNotUsed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Bytes = times(always, func(w http.ResponseWriter, r *http.Request) bool {
		first, _ := rangeOf(r, 0)
		return first > 0 && status(http.StatusForbidden)(w, r)
	})
	_, err := b.pull(t, modelName)
	require.Error(t, err)
	partial := filepath.Join(b.env.Cache, "models--user--model-GGUF", "blobs", hubtest.SHA256(b.model)+partialSuffix)
	f, err := os.OpenFile(partial, os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("damage"), 1000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	b.Heal()
	got, err := b.pull(t, modelName)
	require.NoError(t, err)
	b.requireModel(t, got, b.model)
	require.Contains(t, strings.Join(b.notes, "\n"), "is damaged; starting over")
}
