//go:build race

package apple

// raced tells that the race detector is on, with which pools of memory drop what they hold.
const raced = true
