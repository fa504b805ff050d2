#!/usr/bin/env python3
"""Writes pyarrow.parquet and pyarrow.jsonl: columns of types that DuckDB does not write, and the values that pyarrow reads
from them. Also writes pyarrow-empty.parquet, a table without rows, and pyarrow-twice.parquet, which has a column twice.

Run it where pyarrow is installed.
"""

import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

HALVES = np.array([1, -2, 0.1, 65504, 6e-8, np.nan, np.inf], np.float16)

here = pathlib.Path(__file__).parent
table = pa.table({
    "before": pa.array([[{"x": 1, "h": HALVES[i]}] for i in range(7)], pa.list_(pa.struct([("x", pa.int64()), ("h", pa.float16())]))),
    "half": pa.array(HALVES),
    "nullable": pa.array([None, *HALVES[:6]], pa.float16()),
    "halves": pa.array([[], None, *([h] for h in HALVES[:5])], pa.list_(pa.float16())),
    "by_number": pa.array([[(1, "a"), (-2, None)], [], None, [(3, "b")], [(4, "c"), (4, "d")], [], [(5, "e")]], pa.map_(pa.int64(), pa.string())),
    "by_half": pa.array([[(h, {"n": i})] for i, h in enumerate(HALVES[:6])] + [[]], pa.map_(pa.float16(), pa.struct([("n", pa.int32())]))),
    "after": pa.array(list("abcdefg")),
})


def plain(value, kind):
    if value is None:
        return None
    if pa.types.is_float16(kind):
        return float(np.float32(value)) if np.isfinite(value) else None
    if pa.types.is_map(kind):
        return [{"key": plain(k, kind.key_type), "value": plain(v, kind.item_type)} for k, v in value]
    if pa.types.is_list(kind):
        return [plain(v, kind.value_type) for v in value]
    if pa.types.is_struct(kind):
        return {f.name: plain(value[f.name], f.type) for f in kind}
    return value


pq.write_table(table, here / "pyarrow.parquet", row_group_size=3)
back = pq.read_table(here / "pyarrow.parquet")
with open(here / "pyarrow.jsonl", "w") as out:
    for row in back.to_pylist():
        out.write(json.dumps({f.name: plain(row[f.name], f.type) for f in back.schema}) + "\n")
pq.write_table(table.slice(0, 0), here / "pyarrow-empty.parquet")
pq.write_table(pa.Table.from_arrays([pa.array(["x"]), pa.array(["y"])], names=["s", "s"]), here / "pyarrow-twice.parquet")
