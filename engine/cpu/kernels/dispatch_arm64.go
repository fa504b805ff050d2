package kernels

import "golang.org/x/sys/cpu"

func machineSets() []*Set {
	if cpu.ARM64.HasASIMDDP {
		return []*Set{&neon}
	}
	return nil
}
