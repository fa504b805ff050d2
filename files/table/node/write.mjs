// Writes rows, JSON Lines on stdin, as a CSV, TSV or Parquet file of the columns text, count, share, flag and nested. Integers of
// 64 bits are strings in the rows.
import fs from 'node:fs';
import zlib from 'node:zlib';
import { stringify } from 'csv-stringify/sync';
import { parquetWriteFile } from 'hyparquet-writer';

const path = process.argv[2];
const rows = fs.readFileSync(0, 'utf8').trim().split('\n').map((line) => JSON.parse(line));
if (path.endsWith('.parquet')) {
  const column = (name, type, value = (v) => v) => ({ name, type, nullable: true, data: rows.map((r) => (r[name] == null ? null : value(r[name]))) });
  parquetWriteFile({
    filename: path,
    rowGroupSize: 3,
    columnData: [column('text', 'STRING'), column('count', 'INT64', BigInt), column('share', 'DOUBLE'), column('flag', 'BOOLEAN'), column('nested', 'JSON')],
  });
} else {
  const names = ['text', 'count', 'share', 'flag', 'nested'];
  const cell = (v) => (v == null ? '' : typeof v === 'string' ? v : JSON.stringify(v));
  const text = stringify([names, ...rows.map((r) => names.map((n) => cell(r[n])))], {
    delimiter: path.includes('.tsv') ? '\t' : ',', bom: true, record_delimiter: 'windows',
  });
  fs.writeFileSync(path, path.endsWith('.gz') ? zlib.gzipSync(text) : text);
}
