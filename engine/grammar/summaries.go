package grammar

import "sync"

// summaries are the summaries that grammars of a vocabulary share.
type summaries struct {
	mu    sync.Mutex
	known map[summaryKey]*summary
	bytes int
}

// maxSummaryBytes bounds the shared summaries. When they are full, all are forgotten; those in use
// stay with their grammars.
const maxSummaryBytes = 64 << 20

func (s *summaries) get(key summaryKey) *summary {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.known[key]
}

func (s *summaries) put(key summaryKey, value *summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes += value.bytes() + 100; s.known == nil || s.bytes > maxSummaryBytes {
		s.known = map[summaryKey]*summary{}
		s.bytes = value.bytes() + 100
	}
	s.known[key] = value
}
