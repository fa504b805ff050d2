package serve

import (
	"crypto/rand"
	"net/http"
	"sync"
	"time"
)

// The cookie of a console session: its name and lifetime.
const (
	sessionCookie = "ingot_session"
	sessionTime   = 12 * time.Hour
)

// sessions has the console sessions of people who have signed in with an API key. A restart ends
// all sessions.
type sessions struct {
	mu      sync.Mutex
	byToken map[string]session
}

type session struct {
	key   *key
	until time.Time
}

// begin starts a session for a key and returns its cookie. If secure is true, browsers send the
// cookie over HTTPS only.
func (s *sessions) begin(k *key, secure bool, now time.Time) *http.Cookie {
	token := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byToken == nil {
		s.byToken = map[string]session{}
	}
	for t, old := range s.byToken {
		if now.After(old.until) {
			delete(s.byToken, t)
		}
	}
	s.byToken[token] = session{key: k, until: now.Add(sessionTime)}
	return newSessionCookie(token, secure, sessionTime)
}

func (s *sessions) end(r *http.Request) *http.Cookie {
	if c, err := r.Cookie(sessionCookie); err == nil {
		s.mu.Lock()
		delete(s.byToken, c.Value)
		s.mu.Unlock()
	}
	return newSessionCookie("", r.TLS != nil, -time.Second)
}

func (s *sessions) find(r *http.Request, now time.Time) *key {
	c, err := r.Cookie(sessionCookie)
	if err != nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found, ok := s.byToken[c.Value]
	if !ok || now.After(found.until) {
		return nil
	}
	return found.key
}

// newSessionCookie returns a cookie that scripts cannot read. Browsers do not send it with requests
// from pages of other sites.
func newSessionCookie(token string, secure bool, life time.Duration) *http.Cookie {
	return &http.Cookie{
		Name: sessionCookie, Value: token, Path: "/", MaxAge: int(life.Seconds()),
		HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	}
}
