package apple

// systemLibraries are the libraries to open. The first is the Objective-C runtime. If Core Graphics is not loaded, a program
// without windows has no default device.
var systemLibraries = []string{
	"/usr/lib/libobjc.A.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/Metal.framework/Metal",
}
