import assert from 'node:assert/strict'
import { test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Tx } from '../storage.ts'
import { createTransactionRunner, type DatabaseSession, defaultRetryLimits } from './run-transaction.ts'

/** Returns a session that records its statements, and answers BEGIN when the test resolves `begun`. */
function fakeSession() {
  const sent: string[] = []
  const begun = Promise.withResolvers<readonly unknown[]>()
  const session: DatabaseSession = {
    query(sql) {
      sent.push(sql)
      return sql.startsWith('BEGIN') ? begun.promise : begun.promise.then(() => []).catch(() => [])
    },
    script: async sql => void sent.push(sql),
    commitWaits: false,
    release: () => {},
  }
  const { transaction } = createTransactionRunner({
    openSession: async () => session,
    clock: systemClock,
    random: Math.random,
    limits: { ...defaultRetryLimits, maxTries: 1 },
  })
  return { sent, begun, transaction }
}

const begin = 'BEGIN ISOLATION LEVEL READ COMMITTED'
const turn = () => new Promise(setImmediate)

test('reads are sent with BEGIN; a write and all later statements wait for its answer', async () => {
  const { sent, begun, transaction } = fakeSession()
  const done = transaction(async tx => {
    await Promise.all([
      tx.query('SELECT 1'),
      tx.query('SELECT 2 FOR UPDATE'),
      tx.query('SELECT 3'),
      tx.query('UPDATE facts SET value = 4'),
    ])
    tx.send('INSERT INTO facts VALUES (5)')
  })
  await turn()
  assert.deepEqual(sent, [begin, 'SELECT 1'])
  begun.resolve([])
  await done
  assert.deepEqual(sent, [
    ...[begin, 'SELECT 1', 'SELECT 2 FOR UPDATE', 'SELECT 3', 'UPDATE facts SET value = 4'],
    'INSERT INTO facts VALUES (5)',
    'COMMIT',
  ])
})

test('no write is sent if BEGIN was cancelled and the connection stayed', async () => {
  const write = 'INSERT INTO facts VALUES (1)'
  const works: readonly ((tx: Tx) => Promise<unknown>)[] = [
    async tx => tx.send(write),
    tx => tx.query(write),
    tx => tx.script(write),
    tx => Promise.all([tx.query('SELECT 1'), tx.query(write)]),
    async tx => {
      await tx.query('SELECT 1')
      tx.send(write)
    },
  ]
  for (const work of works) {
    const { sent, begun, transaction } = fakeSession()
    const done = transaction(work)
    begun.reject(Object.assign(new Error('canceling statement due to user request'), { code: '57014' }))
    await assert.rejects(done, { code: 'timeout' })
    assert.deepEqual(
      sent.filter(sql => sql === write),
      [],
    )
  }
})
