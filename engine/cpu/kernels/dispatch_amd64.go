package kernels

import "golang.org/x/sys/cpu"

func machineSets() []*Set {
	var sets []*Set
	x := cpu.X86
	if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512CD && x.HasAVX512DQ && x.HasAVX512VL && x.HasAVX512VNNI {
		if set := amx(); set != nil {
			sets = append(sets, set)
		}
		sets = append(sets, &avx512)
	}
	// Every processor with AVX2 and FMA also has F16C, which the kernels use.
	if x.HasAVX2 && x.HasFMA {
		sets = append(sets, &avx2)
	}
	return sets
}
