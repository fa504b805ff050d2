// Package native holds kernels in CUDA C++ for what NVIDIA's GPUs do in another way than metal/kernels: products of quantised weights
// with activations of 8 bits, on integer units and tensor cores. Package metal binds them.
package native

import "embed"

// Kernels has folder kernels; weights.cu there is the kernels for weights of the type that WEIGHT is defined as.
//
//go:embed kernels
var Kernels embed.FS
