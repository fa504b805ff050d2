// Writes questions as a CSV or Parquet file, with columns of each type and values that are easily changed on the way.
import fs from 'node:fs';
import { stringify } from 'csv-stringify/sync';
import { parquetWriteFile } from 'hyparquet-writer';

const path = process.argv[2];
const columns = [
  { name: 'text', type: 'STRING', data: ['Name the capital of Finland.', 'Which month comes after March?', 'a, "b"\nand\r\nc\td', ' é 😀 {{.text}} ', ''] },
  { name: 'number', type: 'INT64', data: [9223372036854775807n, -9223372036854775808n, 0n, null, 42n] },
  { name: 'share', type: 'DOUBLE', data: [0.1, -2.5e-7, null, 1e300, 3] },
  { name: 'flag', type: 'BOOLEAN', data: [true, false, true, null, false] },
  { name: 'nested', type: 'JSON', data: [{ b: [1, 'x'], a: null }, [{ role: 'user', content: 'a,\n"b"' }], 'text', null, 1.5] },
  { name: 'code', type: 'STRING', data: ['007', 'null', '=1+1', null, '1e5'] },
].map((c) => ({ ...c, nullable: true }));

if (path.endsWith('.parquet')) {
  parquetWriteFile({ filename: path, columnData: columns });
} else {
  const cell = (v) => (v !== null && typeof v === 'object' ? JSON.stringify(v) : v === null ? '' : String(v));
  const rows = columns[0].data.map((_, i) => columns.map((c) => cell(c.data[i])));
  fs.writeFileSync(path, stringify([columns.map((c) => c.name), ...rows], { delimiter: path.endsWith('.tsv') ? '\t' : ',', bom: true }));
}
