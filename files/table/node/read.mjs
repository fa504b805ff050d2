// Reads a CSV, TSV, JSON Lines or Parquet file and prints its columns, then its rows, as JSON. Integers of 64 bits, which JavaScript
// reads as BigInt, are printed as {"int64": "…"}.
import fs from 'node:fs';
import zlib from 'node:zlib';
import { parse } from 'csv-parse/sync';
import { asyncBufferFromFile, parquetMetadataAsync, parquetReadObjects } from 'hyparquet';

const path = process.argv[2];
let columns, rows;
if (path.endsWith('.parquet')) {
  const file = await asyncBufferFromFile(path);
  const metadata = await parquetMetadataAsync(file);
  columns = metadata.schema.slice(1).map((c) => [c.name, c.type, c.logical_type?.type ?? null, c.repetition_type]);
  rows = await parquetReadObjects({ file, metadata });
} else {
  let data = fs.readFileSync(path);
  if (path.endsWith('.gz')) data = zlib.gunzipSync(data);
  const text = new TextDecoder('utf-8', { fatal: true }).decode(data);
  if (path.includes('.jsonl')) {
    rows = text.trimEnd().split('\n').map((line) => JSON.parse(line));
    columns = Object.keys(rows[0]);
  } else {
    const cells = parse(text, { delimiter: path.includes('.tsv') ? '\t' : ',' });
    columns = cells[0];
    rows = cells.slice(1).map((row) => Object.fromEntries(row.map((cell, i) => [columns[i], cell])));
  }
}
const print = (value) => console.log(JSON.stringify(value, (_, v) => (typeof v === 'bigint' ? { int64: String(v) } : v)));
print(columns);
rows.forEach(print);
