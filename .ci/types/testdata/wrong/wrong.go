// Package wrong has types that are right on every system but darwin.
package wrong

import "syscall"

// Kind is a field that systems name differently.
func Kind(s *syscall.Stat_t) any { return s.Atim }
