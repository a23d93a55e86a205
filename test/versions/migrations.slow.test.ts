import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { test } from 'node:test'
import { readMigrations } from '../../services/payments/storage/engine/migrate.ts'
import { findContractions } from './find-contractions.ts'

const released = JSON.parse(
  readFileSync(new URL('testdata/migrations-0.1.0.json', import.meta.url), 'utf8'),
) as Readonly<Record<string, string>>

test('migrations of 0.1.0 are unchanged', () => {
  const present = Object.fromEntries(readMigrations().map(({ name, checksum }) => [name, checksum]))
  const kept = Object.fromEntries(Object.keys(released).map(name => [name, present[name]]))
  assert.deepEqual(kept, released)
})

test('migrations since 0.1.0 remove nothing that its programs use', () => {
  for (const { name, sql } of readMigrations()) {
    if (name in released) continue
    assert.deepEqual(findContractions(sql), [], name)
  }
})

test('each statement that removes something is detected', () => {
  const bad = [
    'DROP TABLE lines;',
    'ALTER TABLE lines DROP COLUMN amount;',
    'alter table lines rename column a to b;',
    'ALTER TABLE lines ALTER COLUMN amount TYPE numeric;',
    'ALTER TABLE lines ALTER amount SET NOT NULL;',
    'ALTER TABLE lines ALTER COLUMN amount DROP DEFAULT;',
    'TRUNCATE lines;',
    'ALTER TABLE lines ADD COLUMN a text NOT NULL;',
    'ALTER TABLE lines ADD COLUMN a int NOT NULL DEFAULT 0, ADD b text NOT NULL;',
  ]
  for (const sql of bad) assert.equal(findContractions(sql).length, 1, sql)
})

test('statements that only add are allowed', () => {
  const good = [
    'CREATE TABLE a (id uuid PRIMARY KEY, b text NOT NULL); -- DROP TABLE b',
    'ALTER TABLE lines ADD COLUMN a numeric(3, 2) NOT NULL DEFAULT 0;',
    'ALTER TABLE lines ADD COLUMN a text;',
    "COMMENT ON TABLE lines IS 'never RENAME it';",
    'DROP INDEX lines_created; CREATE INDEX lines_created ON lines (created);',
    'ALTER TABLE lines ADD CONSTRAINT a CHECK (b IS NOT NULL) NOT VALID;',
  ]
  for (const sql of good) assert.deepEqual(findContractions(sql), [], sql)
})
