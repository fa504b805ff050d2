package hub

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Options are the settings of a Puller.
type Options struct {
	Env     Env
	Version string         // of the program, for servers
	Note    func(string)   // reports what the user should know meanwhile: waits, which file was chosen; nil for none
	Moved   func(Progress) // is called after every piece, by several goroutines; nil for none
}

// Progress is how far a download is.
type Progress struct {
	Done  int64 // bytes of the model's files that are there
	Total int64 // bytes of the model's files
	Moved int64 // bytes that this download has got
}

// Pulled is a model that is on this machine.
type Pulled struct {
	Path   string // of its only or first file
	Files  int
	Bytes  int64 // of all files
	Moved  int64 // bytes that were downloaded; 0 if the files were there
	Commit string
	SHA256 string // of the first file, if it is known
	Owner  string // the other program whose file it is; empty for the cache
}

// Puller downloads models.
type Puller struct {
	client   *client
	options  Options
	progress progress
}

// NewPuller makes a Puller. It makes no request.
func NewPuller(o Options) *Puller {
	if o.Note == nil {
		o.Note = func(string) {}
	}
	if o.Moved == nil {
		o.Moved = func(Progress) {}
	}
	return &Puller{client: newClient(o.Env, "ingot/"+o.Version, o.Note), options: o}
}

// Pull makes sure that a model is on this machine, in its newest version unless the name has a commit. It downloads what is missing and
// continues what an earlier call began.
func (p *Puller) Pull(ctx context.Context, n Name) (Pulled, error) {
	store := Store{p.options.Env}
	if n.Kind == File {
		if _, err := os.Stat(n.Path); err != nil {
			return Pulled{}, fmt.Errorf("%w; to download a model, give user/repo, an https:// address, or a name that \"ingot models\" lists", err)
		}
	}
	if n.Kind == File || n.Kind == Ollama || commitPattern.MatchString(n.Revision) || p.options.Env.Offline {
		found, err := store.Find(n)
		if err == nil || n.Kind == File || n.Kind == Ollama {
			return found, err
		}
	}
	if n.Kind == Web {
		return p.pullWeb(ctx, n)
	}
	return p.pullRepo(ctx, n)
}

// pullRepo pulls a model of a repository.
func (p *Puller) pullRepo(ctx context.Context, n Name) (Pulled, error) {
	c := p.client
	if c.env.Token != "" && c.env.mirrored() {
		c.note(fmt.Sprintf("the token (%s) is sent to %s, because HF_ENDPOINT is set", c.tokenSource(), c.env.Endpoint))
	}
	commit, err := c.commit(ctx, n)
	if err != nil {
		if _, findErr := (Store{c.env}).Find(n); findErr == nil {
			err = fmt.Errorf("%w; a version of the model is on this machine, and --model %s uses it", err, n.Text)
		}
		return Pulled{}, err
	}
	files, err := c.tree(ctx, n, commit)
	if err != nil {
		return Pulled{}, err
	}
	m, err := choose(n, files)
	if err != nil {
		return Pulled{}, err
	}
	if found, ok := p.options.Env.foreign(n, m); ok {
		return found, nil
	}
	dir := p.options.Env.repoDir(n)
	var wanted []*transfer
	for _, f := range m.files {
		wanted = append(wanted, &transfer{
			what: n.ID() + ": " + f.path, size: f.size, hash: f.hash, target: dir.blob(f.hash), partial: dir.blob(f.hash) + partialSuffix,
			lock:   func(ctx context.Context, waiting func()) (func(), error) { return dir.lock(ctx, f.hash, waiting) },
			locate: func(ctx context.Context) (source, error) { return c.locate(ctx, n, commit, f) },
			there:  func() bool { return dir.has(commit, f) },
			place:  func() error { return dir.link(commit, f) },
		})
	}
	c.note(fmt.Sprintf("%s at %s: %s, %s", n.ID(), commit[:12], filesText(m), sizeText(m.size())))
	moved, err := p.transfer(ctx, c.env.Cache, wanted)
	if err != nil {
		return Pulled{}, err
	}
	if err := dir.writeRef(n.revision(), commit); err != nil {
		return Pulled{}, fmt.Errorf("pull %s: %w", n.ID(), err)
	}
	return Pulled{
		Path: dir.snapshot(commit, m.files[0].path), Files: len(m.files), Bytes: m.size(), Moved: moved, Commit: commit, SHA256: m.files[0].sha256(),
	}, nil
}

// sha256 returns the file's SHA-256, if it is known.
func (f repoFile) sha256() string {
	if sha256Pattern.MatchString(f.hash) {
		return f.hash
	}
	return ""
}

func filesText(m model) string {
	if len(m.files) == 1 {
		return m.files[0].path
	}
	return fmt.Sprintf("%s and %d more", m.files[0].path, len(m.files)-1)
}

// transfer is a file that is wanted in a place.
type transfer struct {
	what    string // for messages
	size    int64
	hash    string // expected; empty if it is not known
	target  string // where the bytes belong
	partial string
	lock    func(ctx context.Context, waiting func()) (unlock func(), err error)
	locate  func(context.Context) (source, error)
	there   func() bool  // the file is there already
	place   func() error // makes the file's name, after its bytes are there
	sum     string       // hash of what was downloaded; set by transfer
}

// transfer gets files, one after another, each through several connections. It returns the bytes that were downloaded.
func (p *Puller) transfer(ctx context.Context, disk string, wanted []*transfer) (moved int64, err error) {
	var missing int64
	p.progress = progress{show: p.options.Moved}
	for _, t := range wanted {
		p.progress.total += t.size
		if t.there() {
			p.progress.done += t.size
			continue
		}
		missing += t.size - allocated(t.partial)
	}
	if err := checkSpace(disk, missing); err != nil {
		return 0, fmt.Errorf("pull %s: %w", wanted[0].what, err)
	}
	for _, t := range wanted {
		if !t.there() {
			if err := p.get(ctx, t); err != nil {
				return p.progress.moved, err
			}
		}
		if err := t.place(); err != nil {
			return p.progress.moved, fmt.Errorf("pull %s: %w", t.what, err)
		}
	}
	return p.progress.moved, nil
}

// get downloads one file. Another process may do so at the same time: the second waits for the first.
func (p *Puller) get(ctx context.Context, t *transfer) error {
	if p.options.Env.Offline {
		return errOffline
	}
	for _, dir := range []string{filepath.Dir(t.target), filepath.Dir(t.partial)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("pull %s: %w", t.what, err)
		}
	}
	unlock, err := t.lock(ctx, func() { p.options.Note("another process downloads " + t.what + "; waiting for it") })
	if err != nil {
		return fmt.Errorf("pull %s: %w", t.what, err)
	}
	defer unlock()
	if t.there() {
		p.progress.add(t.size, 0)
		return nil
	}
	resumed, err := p.fill(ctx, t)
	var wrong *hashError
	if errors.As(err, &wrong) && resumed { // what was there before may be damaged, say by a power failure
		p.options.Note("what was there of " + t.what + " is damaged; starting over")
		_, err = p.fill(ctx, t)
	}
	return err
}

// hashError is a download whose bytes are not the expected ones.
type hashError struct{ what, got, want string }

func (e *hashError) Error() string {
	return fmt.Sprintf("pull %s: its hash is %s, but should be %s; nothing was kept. Pull again; if it stays so, the server or a proxy changes files", e.what, e.got, e.want)
}

// fill downloads what is missing of a file, checks its hash, and moves it to its place. resumed reports whether a part was there. If the
// hash is wrong, nothing is kept.
func (p *Puller) fill(ctx context.Context, t *transfer) (resumed bool, err error) {
	part, err := openPartial(t.partial, t.size)
	if err != nil {
		return false, diskError(t.what, t.partial, err)
	}
	defer func() { err = errors.Join(err, part.file.Close()) }()
	before := part.bytes.Load()
	p.progress.add(before, 0)
	hashed := make(chan error, 1)
	go func() {
		var err error
		t.sum, err = part.sum(newHash(t.hash, t.size))
		hashed <- err
	}()
	d := &download{c: p.client, what: t.what, part: part, locate: t.locate, moved: func(n int64) { p.progress.add(n, n) }}
	err = d.run(ctx)
	part.stop()
	hashErr := <-hashed
	switch {
	case err != nil && ctx.Err() != nil:
		return before > 0, fmt.Errorf("pull %s: interrupted; pull again to continue", t.what)
	case err != nil:
		return before > 0, err
	case hashErr != nil:
		return before > 0, fmt.Errorf("pull %s: %w", t.what, hashErr)
	}
	if t.hash != "" && t.sum != t.hash {
		p.progress.add(-part.bytes.Load(), 0)
		return before > 0, errors.Join(&hashError{t.what, t.sum, t.hash}, os.Remove(t.partial))
	}
	if err := part.complete(); err != nil {
		return before > 0, diskError(t.what, t.partial, err)
	}
	return before > 0, os.Rename(t.partial, t.target)
}
