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
	Version string // version of the program, sent to servers
	// Note receives messages for the user, such as waits or the chosen file. It is called from
	// several goroutines, since each connection retries on its own; may be nil.
	Note  func(string)
	Moved func(Progress) // called after each block, from several goroutines; may be nil
}

// Progress is the progress of a download.
type Progress struct {
	Done  int64 // bytes of the model's files that are on this machine
	Total int64 // total bytes of the model's files
	Moved int64 // bytes that this call has downloaded
}

// Pulled is a model on this machine.
type Pulled struct {
	Path   string // path of its only or first file
	Files  int
	Bytes  int64  // total bytes of all files
	Moved  int64  // bytes that were downloaded; 0 if all files were on this machine
	Commit string // commit of the model in the cache; empty for other models
	SHA256 string // SHA-256 of the first file; empty if unknown
	Owner  string // the other program that owns the file, such as ollama; empty if there is none
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

// Pull makes sure that a model is on this machine. It downloads what is missing and continues an
// interrupted download. It takes the newest version, unless the name has a commit. With
// Env.Offline, it takes a version on this machine. For a name of kind File or Ollama, it only looks
// for the model.
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
	if found, ok := p.options.Env.foreign(ctx, n, m); ok {
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

// sha256 returns the file's SHA-256; empty if unknown.
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

type transfer struct {
	what    string // name of the file for messages
	size    int64
	hash    string // expected hash; empty if unknown
	target  string // path at which the downloaded file belongs
	partial string
	lock    func(ctx context.Context, waiting func()) (unlock func(), err error)
	locate  func(context.Context) (source, error)
	there   func() bool  // reports whether the file is on this machine already
	place   func() error // makes the downloaded file available, such as by a link in the cache
	sum     string       // hash of the downloaded file; set by transfer
}

// transfer downloads files, one after another, each through several connections. It returns the
// number of downloaded bytes.
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

// get downloads one file. If another process downloads the same file, get waits for it.
func (p *Puller) get(ctx context.Context, t *transfer) error {
	if p.options.Env.Offline {
		return errOffline
	}
	for _, dir := range []string{filepath.Dir(t.target), filepath.Dir(t.partial)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("pull %s: %w", t.what, err)
		}
	}
	unlock, err := t.lock(ctx, func() { p.options.Note("another process downloads " + t.what + "; waiting for it to finish") })
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
	if errors.As(err, &wrong) && resumed { // the part from an earlier pull may be damaged, for example by a power failure
		p.options.Note("the downloaded part of " + t.what + " is damaged; starting over")
		_, err = p.fill(ctx, t)
	}
	return err
}

type hashError struct{ what, got, want string }

func (e *hashError) Error() string {
	return fmt.Sprintf("pull %s: the file's hash is %s, but should be %s; the download was deleted; pull again (if this repeats, the server or a proxy changes the file)", e.what, e.got, e.want)
}

// fill downloads the missing blocks of a file, checks the hash, and moves the file to its target.
// resumed reports whether an earlier pull had downloaded a part. If the hash is wrong, fill deletes
// everything that was downloaded.
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
	if err := os.Rename(t.partial, t.target); err != nil {
		return before > 0, fmt.Errorf("pull %s: %w", t.what, err)
	}
	return before > 0, nil
}
