package table

import (
	"container/heap"
	"errors"
	"io"
)

// Selection selects records of a table. Its conditions apply in the order of the fields. Records
// that cannot be read satisfy Where.
type Selection struct {
	Where  string // an expression over the columns, such as lang == "de" (see package where); empty for all records
	Skip   int    // number of records to leave out at the beginning
	Sample int    // number of records to draw at random; they stay in the order of the table; 0 for all
	Seed   int64  // seed of the draw for Sample
	Limit  int    // maximum number of records; 0 for all
}

type selected struct {
	Reader
	where  *condition // nil selects all records
	skip   int
	sample *sample // nil selects all records
	left   int     // number of records before the limit is reached; negative for no limit
}

func (s *selected) Next() (Record, error) {
	for s.left != 0 {
		r, err := s.Reader.Next()
		number := r.Number
		var one *RecordError
		switch {
		case errors.As(err, &one):
			number = one.Number
		case err != nil:
			return r, err
		case s.where != nil:
			ok, err := s.where.matches(r)
			if err != nil {
				return Record{}, err
			}
			if !ok {
				continue
			}
		}
		if s.skip > 0 {
			s.skip--
			continue
		}
		if s.sample != nil && !s.sample.has(number) {
			continue
		}
		s.left--
		return r, err
	}
	return Record{}, io.EOF
}

// sample is a random draw of records: those whose numbers have the smallest hashes. The draw
// depends only on the seed and the record numbers. It needs 16 bytes for each drawn record.
type sample struct {
	seed uint64
	size int
	keys []key // a heap with the largest key first
}

type key struct {
	hash   uint64
	number int
}

func (k key) less(other key) bool {
	return k.hash < other.hash || k.hash == other.hash && k.number < other.number
}

func (s *sample) key(number int) key { return key{mix(s.seed ^ mix(uint64(number))), number} }

// mix is the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

func (s *sample) add(number int) {
	k := s.key(number)
	if len(s.keys) < s.size {
		heap.Push(s, k)
	} else if k.less(s.keys[0]) {
		s.keys[0] = k
		heap.Fix(s, 0)
	}
}

// has reports whether a record is in the sample. It must be called only after add was called for
// all records.
func (s *sample) has(number int) bool {
	return len(s.keys) > 0 && !s.keys[0].less(s.key(number))
}

func (s *sample) Len() int           { return len(s.keys) }
func (s *sample) Less(i, j int) bool { return s.keys[j].less(s.keys[i]) }
func (s *sample) Swap(i, j int)      { s.keys[i], s.keys[j] = s.keys[j], s.keys[i] }
func (s *sample) Push(x any)         { s.keys = append(s.keys, x.(key)) }
func (s *sample) Pop() any           { panic("elements are never removed from a sample") }

func draw(r Reader, seed int64, size int) (*sample, error) {
	s := &sample{seed: mix(uint64(seed)), size: size}
	for {
		record, err := r.Next()
		var one *RecordError
		switch {
		case errors.Is(err, io.EOF):
			return s, nil
		case errors.As(err, &one):
			record.Number = one.Number
		case err != nil:
			return nil, err
		}
		s.add(record.Number)
	}
}
