package grammar

import (
	"cmp"
	"slices"
	"strings"
)

// A trie has the tokens of a vocabulary by their bytes, in depth-first order, children by their
// byte. A node's subtree is the nodes from it to node+size. Node 0 is the root.
//
// A walk keeps one state for each depth: the state at a node is that of depth-1 and the node's
// byte.
type trie []trieNode

// trieNode has token and byte in one word, depth and size in the other.
type trieNode struct {
	tokenByte uint32 // token+1 in the upper 24 bits, 0 for none
	depthSize uint32 // depth in the upper 9 bits, nodes of the subtree (with this one) in the lower 23
}

const (
	maxTokenBytes = 1<<9 - 1
	maxTrieNodes  = 1<<23 - 1
	maxTokens     = 1<<24 - 2
)

func (n trieNode) token() int32 { return int32(n.tokenByte>>8) - 1 }
func (n trieNode) byte() byte   { return byte(n.tokenByte) }
func (n trieNode) depth() int   { return int(n.depthSize >> 23) }
func (n trieNode) size() int    { return int(n.depthSize & maxTrieNodes) }

type tokenText struct {
	text string
	id   int32
}

// newTrie returns the trie of list, whose texts differ.
func newTrie(list []tokenText) trie {
	slices.SortFunc(list, func(x, y tokenText) int {
		return cmp.Or(strings.Compare(x.text, y.text), cmp.Compare(x.id, y.id))
	})
	t := trie{{}}
	var path []int // the nodes above the next one, by depth-1
	last := ""
	for _, tok := range list {
		common := 0
		for common < len(last) && common < len(tok.text) && last[common] == tok.text[common] {
			common++
		}
		path = t.close(path, common)
		if len(t)+len(tok.text)-common > maxTrieNodes {
			break // more than any model has; such tokens are never allowed
		}
		for i := common; i < len(tok.text); i++ {
			path = append(path, len(t))
			t = append(t, trieNode{tokenByte: uint32(tok.text[i]), depthSize: uint32(i+1) << 23})
		}
		t[path[len(path)-1]].tokenByte |= uint32(tok.id+1) << 8
		last = tok.text
	}
	t.close(path, 0)
	t[0].depthSize = uint32(len(t))
	return t
}

// close sets the sizes of the nodes of path below depth.
func (t trie) close(path []int, depth int) []int {
	for len(path) > depth {
		n := path[len(path)-1]
		t[n].depthSize |= uint32(len(t) - n)
		path = path[:len(path)-1]
	}
	return path
}

// find returns the node of text, or -1.
func (t trie) find(text []byte) int {
	n := 0
	for _, c := range text {
		if n = t.child(n, c); n < 0 {
			return -1
		}
	}
	return n
}

func (t trie) child(n int, c byte) int {
	for i, end := n+1, n+t[n].size(); i < end; i += t[i].size() {
		if t[i].byte() == c {
			return i
		}
	}
	return -1
}
