// Writes kinds.parquet, with all types of columns that data sets have, and kinds.jsonl, what DuckDB reads in it. To run it:
//   npm install --no-save @duckdb/node-api@1.5.6-r.1 && node kinds.mjs
import { DuckDBInstance } from '@duckdb/node-api';

const db = await (await DuckDBInstance.create(':memory:')).connect();
await db.run(`SET TimeZone = 'UTC'`);
await db.run(`CREATE TYPE mood AS ENUM ('glad', 'sad')`);
await db.run(`CREATE TABLE kinds AS
  SELECT i::INTEGER AS small, i * 1000000007::BIGINT AS count, (i % 7)::UTINYINT AS byte, 18446744073709551615::UBIGINT AS huge,
    i / 3.0::FLOAT AS single, i / 7.0::DOUBLE AS share, i % 2 = 0 AS flag,
    'text ' || (i % 5) || ' é "q" \\ ' || chr(10) AS repeated, CASE WHEN i % 3 = 0 THEN NULL ELSE 'x' || i END AS missing,
    (i * 1.25 - 10)::DECIMAL(9,2) AS price, (i * -1.5)::DECIMAL(38,10) AS wide,
    DATE '2026-01-02' + i::INTEGER AS day, TIME '01:02:03.000004' AS clock,
    TIMESTAMP '2026-01-02 03:04:05.678901' AS at_us, TIMESTAMP_MS '2026-01-02 03:04:05.678' AS at_ms,
    TIMESTAMP_NS '2026-01-02 03:04:05.678901234' AS at_ns, TIMESTAMPTZ '1969-12-31 23:59:58.5+00' AS at_zone,
    '00112233-4455-6677-8899-aabbccddeeff'::UUID AS uuid, (CASE WHEN i % 2 = 0 THEN 'glad' ELSE 'sad' END)::mood AS mood,
    [{'role': 'system', 'content': 'Be brief.'}, {'role': 'user', 'content': 'Question ' || i}] AS messages,
    CASE i % 4 WHEN 0 THEN NULL WHEN 1 THEN [] WHEN 2 THEN [NULL, 1] ELSE [1, 2, 3] END AS numbers,
    CASE i % 3 WHEN 0 THEN [[1], [], NULL, [2, NULL]] WHEN 1 THEN [] ELSE NULL END AS lists,
    CASE WHEN i % 5 = 0 THEN NULL ELSE {'a': i, 'b': {'c': 'deep', 'd': CASE WHEN i % 2 = 0 THEN [true] END}} END AS struct,
    MAP {'k' || i: i, 'l': NULL} AS map, '{"j": [1, "é"]}'::JSON AS json, i AS __index_level_0__
  FROM range(40) t(i)`);
await db.run(`COPY kinds TO 'kinds.parquet' (FORMAT parquet, COMPRESSION zstd)`);
await db.run(`COPY (SELECT * EXCLUDE (__index_level_0__) REPLACE (price::VARCHAR AS price, wide::VARCHAR AS wide,
    strftime(at_us, '%Y-%m-%dT%H:%M:%S.%f') AS at_us, strftime(at_ms, '%Y-%m-%dT%H:%M:%S.%g') AS at_ms,
    strftime(at_ns, '%Y-%m-%dT%H:%M:%S.%n') AS at_ns, '1969-12-31T23:59:58.5Z' AS at_zone) FROM 'kinds.parquet')
  TO 'kinds.jsonl' (FORMAT json)`);
for (const codec of ['uncompressed', 'snappy', 'gzip', 'lz4_raw', 'brotli']) {
  await db.run(`COPY (SELECT count, repeated, missing, messages FROM kinds LIMIT 40) TO '${codec}.parquet' (FORMAT parquet, COMPRESSION ${codec})`);
}
