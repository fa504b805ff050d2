package kernels

import "golang.org/x/sys/unix"

// permitTiles asks the system for the registers of AMX, for all threads of the process. Linux has
// allowed them on request since version 5.16.
func permitTiles() bool {
	const requestPermission, tileData = 0x1023, 18 // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
	_, _, failed := unix.RawSyscall(unix.SYS_ARCH_PRCTL, requestPermission, tileData, 0)
	return failed == 0
}
