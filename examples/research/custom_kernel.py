"""A kernel in C++ with a derivative, and a pattern that it stands for wherever a program writes it out."""

import jax
import jax.numpy as jnp

import dynacomp

gate = dynacomp.custom_op(
    "gate", abstract=lambda x, y: x, batching="broadcast",
    derivative=lambda primals, tangents: jax.jvp(lambda x, y: x * jax.nn.sigmoid(y), primals, tangents)[1],
    cpp="""
    #include <cmath>
    template <class T>
    void gate(const dynacomp_runtime* rt, Array<const T> x, Array<const T> y, Array<T> out) {
      dynacomp::parallel(rt, x.size(), 4096, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; i++) out[i] = x[i] / (T(1) + std::exp(-y[i]));
      });
    }""")

if __name__ == "__main__":
    x, y = jnp.linspace(-2, 2, 8), jnp.linspace(1, 3, 8)
    print("eager:", gate(x, y)[0], " gradient:", jax.grad(lambda x: gate(x, y).sum())(x)[0])
    take_back = dynacomp.register_kernel(lambda x, y: x * jax.nn.sigmoid(y), gate)
    program = lambda x, y: jnp.sum(x * jax.nn.sigmoid(y) + 1)  # it never heard of the kernel
    found = dynacomp.explain(program)(x, y)
    print("kernels:", found.regions[0].kernels, " off by", abs(found.result - program(x, y)))
    take_back()
