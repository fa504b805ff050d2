// A kernel with a syntax error.
kernel void syntax(
    device float* x [[buffer(0)]]) {
    x[0] = undeclared_value;
}
