import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { rm, stat } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import { after, describe, test } from 'node:test'
import { fileURLToPath } from 'node:url'
import { systemClock } from '@tollway/chassis/clock.ts'
import { newPgliteFolder } from '../../../../test/support/pglite-folder.ts'
import type { Storage } from '../storage.ts'
import { idempotencyContract } from '../testing/idempotency.contract.ts'
import { pruningContract } from '../testing/pruning.contract.ts'
import { repositoriesContract } from '../testing/repositories.contract.ts'
import { searchContract } from '../testing/search.contract.ts'
import { storageContract } from '../testing/storage.contract.ts'
import { webhookDeliveriesContract } from '../testing/webhook-deliveries.contract.ts'
import { migrate, readMigrations } from './migrate.ts'
import { lockFolder, openPglite } from './pglite.ts'

const clock = systemClock
const random = Math.random
const writer = fileURLToPath(new URL('testing/pglite-writer.ts', import.meta.url))

/** All tests use one database, in order, because creating one takes seconds. */
describe('PGlite', () => {
  let folder = ''
  let opened: Promise<Storage> | undefined
  const openFolder = () => openPglite({ folder, clock, random })

  function open(): Promise<Storage> {
    opened ??= openFolder().then(async storage => {
      await migrate(storage, readMigrations(), clock)
      return storage
    })
    return opened
  }

  after(async () => {
    await (await opened)?.close()
    await rm(folder, { recursive: true, force: true })
  })

  test('a folder is used by one process, and committed data survive its kill', async t => {
    folder = await newPgliteFolder()
    const child = spawn(process.execPath, [writer, folder], { stdio: ['ignore', 'pipe', 'inherit'] })
    t.after(() => child.kill('SIGKILL'))
    const exited = once(child, 'exit')
    let committed = 0
    for await (const line of createInterface({ input: child.stdout })) {
      committed = Number(line)
      if (committed === 20) {
        await assert.rejects(openFolder(), { code: 'unavailable', message: /in use by another process/ })
      }
      if (committed === 50) child.kill('SIGKILL')
    }
    await exited
    const storage = await open()
    await assert.rejects(openFolder(), { code: 'unavailable' })
    assert.equal((await stat(folder)).mode & 0o777, 0o700)
    const [row] = await storage.transaction(tx =>
      tx.query<{ last: number }>('SELECT max(n) AS last FROM written'),
    )
    assert.ok((row?.last ?? 0) >= committed, `${row?.last} of ${committed} are there`)
  })

  storageContract('PGlite', async () => ({ storage: await open(), single: true }))
  repositoriesContract('PGlite', open)
  webhookDeliveriesContract('PGlite', open)
  idempotencyContract('PGlite', open)
  pruningContract('PGlite', open, 'one')
  searchContract('PGlite', open)

  test('a closed storage rejects transactions, and its folder is free', async () => {
    const storage = await open()
    await storage.close()
    await assert.rejects(
      storage.transaction(tx => tx.query('SELECT 1')),
      { code: 'unavailable' },
    )
    opened = undefined
    const release = lockFolder(folder)
    release()
  })
})
