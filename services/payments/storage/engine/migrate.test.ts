import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { readMigrations } from './migrate.ts'

test('migrations are numbered without gaps', async () => {
  const folder = temporaryFolder('tollway-migrations')
  for (const name of ['0002_b.sql', '0001_a.sql', 'README.md']) await writeFile(join(folder, name), name)
  assert.deepEqual(
    readMigrations(folder).map(({ name }) => name),
    ['0001_a.sql', '0002_b.sql'],
  )
  await writeFile(join(folder, '0004_d.sql'), '')
  assert.throws(() => readMigrations(folder), /found 0004_d\.sql; expected a migration with the number 0003/)
})

test('the page explains how to create the newest indexes before an upgrade', async () => {
  const page = await readFile(new URL('../../../../docs/tasks/run-payments.md', import.meta.url), 'utf8')
  const newest = readMigrations().filter(({ name }) => name > '0016')
  const inMigrations = newest.flatMap(({ sql }) => sql.match(/^CREATE INDEX .*;$/gm) ?? [])
  const onPage = page
    .match(/^CREATE INDEX CONCURRENTLY .*;$/gm)
    ?.map(line => line.replace(' CONCURRENTLY', ''))
  assert.deepEqual(onPage, inMigrations)
})
