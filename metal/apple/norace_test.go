//go:build !race

package apple

const raced = false
