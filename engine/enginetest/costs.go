// Package enginetest helps tests that open engines.
package enginetest

import "github.com/ingot-run/ingot/engine/internal/cost"

// GiveCosts makes all engines that this process opens later begin with given costs of steps. Open
// otherwise measures them, which takes longer than most tests of small models. Call it in TestMain.
func GiveCosts() { cost.Give() }
