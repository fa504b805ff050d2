"""Writes dequantised.json: for each quantised type, the SHA-256 of the weights that the package
gguf computes for blocks of random bytes.

    pip install gguf && python dequantised.py

TestDequantiseIsThatOfGGML makes the same bytes. Scales may be infinite or NaN, so blocks with
weights that are not finite are left out. Zeros are hashed as positive zeros.
"""

import hashlib
import json
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

BLOCKS = 4000
TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ4_NL IQ4_XS MXFP4 NVFP4
IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S TQ1_0 TQ2_0""".split()


def random_bytes(n: int) -> np.ndarray:
    """Returns the highest bytes of a linear congruential generator of 32 bits."""
    out, state = np.empty(n, dtype=np.uint8), 1
    for i in range(n):
        state = (state * 1664525 + 1013904223) & 0xFFFFFFFF
        out[i] = state >> 24
    return out


hashes = {}
for name in TYPES:
    kind = GGMLQuantizationType[name]
    size = GGML_QUANT_SIZES[kind][1]
    with np.errstate(all="ignore"):
        weights = quants.dequantize(random_bytes(BLOCKS * size).reshape(BLOCKS, size), kind).astype("<f4")
    weights = weights[np.isfinite(weights).all(axis=1)] + np.float32(0)
    hashes[name] = {"blocks": len(weights), "sha256": hashlib.sha256(weights.tobytes()).hexdigest()}

Path(__file__).with_name("dequantised.json").write_text(json.dumps(hashes, indent=1) + "\n")
