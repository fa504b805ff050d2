//go:build !linux

package bench

func adviseHuge([]byte) {}
