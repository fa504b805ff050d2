package apple

// systemLibraries are the paths of the libraries to open. The first one is the Objective-C runtime.
// Core Graphics is in the list because, without it, a program that has no windows gets no default
// device.
var systemLibraries = []string{
	"/usr/lib/libobjc.A.dylib",
	"/System/Library/Frameworks/Foundation.framework/Foundation",
	"/System/Library/Frameworks/CoreGraphics.framework/CoreGraphics",
	"/System/Library/Frameworks/Metal.framework/Metal",
}
