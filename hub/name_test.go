package hub

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseName(t *testing.T) {
	t.Parallel()
	sum := strings.Repeat("0a", 32)
	for text, want := range map[string]Name{
		"user/repo":                                           {Kind: Repo, User: "user", Repo: "repo"},
		"user/repo:Q4_K_M":                                    {Kind: Repo, User: "user", Repo: "repo", Select: "Q4_K_M"},
		"user/repo:a/b-Q8_0.gguf":                             {Kind: Repo, User: "user", Repo: "repo", Select: "a/b-Q8_0.gguf"},
		"user/repo@v1.0":                                      {Kind: Repo, User: "user", Repo: "repo", Revision: "v1.0"},
		"user/repo@refs/pr/1:Q6_K":                            {Kind: Repo, User: "user", Repo: "repo", Revision: "refs/pr/1", Select: "Q6_K"},
		"hf.co/user/repo:Q4_0":                                {Kind: Repo, User: "user", Repo: "repo", Select: "Q4_0"},
		"hf:user/repo":                                        {Kind: Repo, User: "user", Repo: "repo"},
		"huggingface.co/user/repo":                            {Kind: Repo, User: "user", Repo: "repo"},
		"https://huggingface.co/user/repo":                    {Kind: Repo, User: "user", Repo: "repo"},
		"https://hf.co/user/repo/tree/dev":                    {Kind: Repo, User: "user", Repo: "repo", Revision: "dev"},
		"https://huggingface.co/user/repo/blob/main/a/b.gguf": {Kind: Repo, User: "user", Repo: "repo", Revision: "main", Select: "a/b.gguf"},
		"https://huggingface.co/user/repo/resolve/main/b.gguf?download=true": {Kind: Repo, User: "user", Repo: "repo", Revision: "main", Select: "b.gguf"},
		"https://host:8443/dir/b.gguf?key=1":                                 {Kind: Web, URL: "https://host:8443/dir/b.gguf?key=1"},
		"https://host/b.gguf#sha256=" + sum:                                  {Kind: Web, URL: "https://host/b.gguf", SHA256: sum},
		"http://localhost/b.gguf":                                            {Kind: Web, URL: "http://localhost/b.gguf"},
		"ollama:qwen3:0.6b":                                                  {Kind: Ollama, Select: "qwen3:0.6b"},
		"./user/repo":                                                        {Kind: File, Path: "./user/repo"},
		"/abs/model":                                                         {Kind: File, Path: "/abs/model"},
		"models/none.gguf":                                                   {Kind: File, Path: "models/none.gguf"},
		"none.gguf":                                                          {Kind: File, Path: "none.gguf"},
		"a/b/c":                                                              {Kind: File, Path: "a/b/c"},
		"qwen3-4b":                                                           {Kind: Repo, Short: "qwen3-4b", User: "bartowski", Repo: "Qwen_Qwen3-4B-GGUF", Select: "Q4_K_M"},
		"Qwen3-4B":                                                           {Kind: Repo, Short: "qwen3-4b", User: "bartowski", Repo: "Qwen_Qwen3-4B-GGUF", Select: "Q4_K_M"},
	} {
		want.Text = text
		got, err := ParseName(text)
		require.NoError(t, err, text)
		require.Equal(t, want, got, text)
	}
	for text, want := range map[string]string{
		"":                             "it is empty",
		"nothing":                      "there is no such file",
		"user/repo:":                   "after the colon",
		"user/repo@:Q4_0":              "after the @",
		"user/repo@../x":               "after the @",
		"user/..":                      "there is no such file",
		"user/repo:../../etc/passwd":   "neither a quantisation nor a file",
		"user/repo:/etc/passwd":        "neither a quantisation nor a file",
		"ftp://host/a.gguf":            "must begin with https:// or http://",
		"https://../a.gguf":            "is not an address",
		"https:///a.gguf":              "is not an address",
		"https://host/page":            "must end in the name of a .gguf file",
		"https://host/a.gguf#x":        "only sha256=HEX may follow the #",
		"https://host/a.gguf#sha256=1": "the 64 hexadecimal digits",
		"https://huggingface.co/docs":  "neither a model nor a file on the hub",
		"ollama:":                      "give ollama:MODEL",
		"ollama:../x:y":                "give ollama:MODEL",
	} {
		_, err := ParseName(text)
		require.ErrorIs(t, err, ErrName, text)
		require.ErrorContains(t, err, want, text)
	}
}

// TestAFileComesFirst: the path of an existing file means the file, even if it looks like another
// kind of name.
func TestAFileComesFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.MkdirAll("user/folder", 0o755))
	for _, file := range []string{"qwen3-4b", "user/repo", "user/repo:Q4_0"} {
		require.NoError(t, os.WriteFile(filepath.FromSlash(file), []byte("x"), 0o600))
		n, err := ParseName(file)
		require.NoError(t, err)
		require.Equal(t, Name{Kind: File, Text: file, Path: file}, n)
	}
	n, err := ParseName("user/folder")
	require.NoError(t, err)
	require.Equal(t, Repo, n.Kind, "a folder is not a model")
}

func FuzzParseName(f *testing.F) {
	for _, s := range []string{"user/repo@rev:Q4_K_M", "https://hf.co/a/b/resolve/main/c.gguf", "ollama:a/b:c", "https://h/a.gguf#sha256=", "a:b@c", "~/x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		n, err := ParseName(text)
		if err != nil {
			return
		}
		env := Env{Cache: "/cache", URLs: "/urls"}
		switch n.Kind {
		case Repo:
			require.True(t, strings.HasPrefix(env.repoDir(n).path()+"/", "/cache/models--"), text)
			require.Truef(t, n.Select == "" || filepath.IsLocal(n.Select), "%q", text)
			require.Truef(t, n.Revision == "" || filepath.IsLocal(n.Revision), "%q", text)
		case Web:
			if _, paths, err := env.webFiles(n); err == nil {
				require.True(t, strings.HasPrefix(filepath.Clean(paths[0]), "/urls/"), text)
			}
		}
	})
}

func TestChoose(t *testing.T) {
	t.Parallel()
	list := func(paths ...string) (files []repoFile) {
		for i, p := range paths {
			files = append(files, repoFile{path: p, size: int64(i + 1)})
		}
		return files
	}
	plain := list("m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf", "m-Q4_K_S.gguf", "m-IQ4_XS.gguf", "m-Q8_0.gguf", "mmproj-m-F16.gguf", "m.imatrix.gguf", "README.md", "m-f16.gguf")
	for _, c := range []struct {
		selection string
		files     []repoFile
		want      string // expected files, or part of the error
	}{
		{"", plain, "m-Q4_K_M.gguf"},
		{"", list("a-Q6_K.gguf", "a-Q8_0.gguf", "a-UD-Q4_K_M.gguf"), "a-Q8_0.gguf"},
		{"", list("b-Q6_K.gguf", "a-Q5_0.gguf"), "a-Q5_0.gguf"},
		{"", list("dir/a.Q4_K_M.gguf", "a.Q2_K.gguf"), "dir/a.Q4_K_M.gguf"},
		{"q4_k_m", plain, "m-Q4_K_M.gguf"},
		{"UD-Q4_K_M", plain, "m-UD-Q4_K_M.gguf"},
		{"F16", plain, "m-f16.gguf"},
		{"iq4_xs", plain, "m-IQ4_XS.gguf"},
		{"Q4_K", plain, `"Q4_K" matches 3 files; found: user/repo:Q4_K_M, user/repo:Q4_K_S, user/repo:UD-Q4_K_M`},
		{"Q5_K_M", plain, `no model matches "Q5_K_M"; found: user/repo:IQ4_XS, user/repo:Q4_K_M, user/repo:Q4_K_S`},
		{"m-Q8_0.gguf", plain, "m-Q8_0.gguf"},
		{"n-Q8_0.gguf", plain, `there is no file "n-Q8_0.gguf"; found: user/repo:IQ4_XS`},
		{"m.gguf", list("a/m.gguf", "b/m.gguf"), `2 folders have a file "m.gguf"; found: user/repo:a/m.gguf, user/repo:b/m.gguf`},
		{"b/m.gguf", list("a/m.gguf", "b/m.gguf"), "b/m.gguf"},
		{"Q4_0", list("x/m-Q4_0.gguf", "y/m-Q4_0.gguf"), `"Q4_0" matches 2 files`},
		{"mxfp4", list("gpt-oss-20b-mxfp4.gguf"), "gpt-oss-20b-mxfp4.gguf"},
		{"Q4_K_M", list("q/m-Q4_K_M-00002-of-00002.gguf", "q/m-Q4_K_M-00001-of-00002.gguf"), "q/m-Q4_K_M-00001-of-00002.gguf q/m-Q4_K_M-00002-of-00002.gguf"},
		{"q/m-Q4_K_M-00002-of-00002.gguf", list("q/m-Q4_K_M-00002-of-00002.gguf", "q/m-Q4_K_M-00001-of-00002.gguf"), "q/m-Q4_K_M-00001-of-00002.gguf q/m-Q4_K_M-00002-of-00002.gguf"},
		{"", list("m-Q4_K_M-00001-of-00003.gguf", "m-Q4_K_M-00002-of-00003.gguf"), "should have 3 files, but only 2 of them were found"},
		{"", list("m-00001-of-00001.gguf"), "m-00001-of-00001.gguf"},
		{"", list("README.md", "mmproj.gguf"), "the repository has no GGUF model"},
	} {
		m, err := choose(Name{Kind: Repo, User: "user", Repo: "repo", Select: c.selection}, c.files)
		if err != nil {
			require.ErrorContains(t, err, c.want, c.selection)
			continue
		}
		var got []string
		for _, f := range m.files {
			got = append(got, f.path)
		}
		require.Equal(t, c.want, strings.Join(got, " "), c.selection)
	}
}

// TestCatalog: every entry of the catalog is a valid name, and the entries are sorted by size.
func TestCatalog(t *testing.T) {
	t.Parallel()
	before := int64(0)
	for _, e := range Catalog {
		n, err := ParseName(e.Name)
		require.NoError(t, err)
		require.Equal(t, e.File, n.ID()+":"+n.Select)
		require.GreaterOrEqual(t, e.Bytes, before)
		require.Greater(t, e.Memory(), e.Bytes+MemoryRows*(MemoryTokens*e.Cache+e.State))
		before = e.Bytes
	}
	require.Len(t, Fitting(1<<40, 64, 3), 3)
	require.Equal(t, Catalog[len(Catalog)-1], Fitting(1<<40, 64, 3)[0])
	require.Equal(t, Catalog[:1], Fitting(0, 64, 3))
	require.Equal(t, Catalog[:1], Fitting(1<<40, 0, 3))
	for _, cores := range []int{1, 2, 4, 16} {
		fitting := Fitting(1<<40, cores, 3)
		require.LessOrEqual(t, fitting[0].Bytes, int64(cores)*11e8, "%d cores", cores)
	}
	require.Equal(t, "smollm3-3b", Fitting(1<<40, 2, 3)[0].Name)
}
