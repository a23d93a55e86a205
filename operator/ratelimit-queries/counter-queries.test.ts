import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import {
  CounterAnswerSchema,
  ForgottenSchema,
  HelloSchema,
  CounterAnswer_Outcome as Outcome,
  TotalsSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import { QueryError } from '../pods/query-error.ts'
import { changeCounter, readCounter } from './counter-queries.ts'
import { type OpenProcessSession, openProcessSession } from './process-session.ts'

const at = { domain: 'shop', entries: [{ key: 'user', value: 'alice' }] }
const deadlines = { counterMs: 50, forgetMs: 50 }

interface Played {
  /** The outcome with which the process answers about counters; undefined for no answer. */
  readonly outcome?: Outcome | undefined
  readonly hello?: MessageInitShape<typeof HelloSchema>
  /** Whether the process has reported the domains that it enforces. */
  readonly hasReported?: boolean
}

/** Plays a process that counts in its own memory, and that adds its name to `forgot` when it drops keys. */
function play(uid: string, { outcome, hello = {}, hasReported = true }: Played, forgot: string[]) {
  const identity = create(HelloSchema, { uid, pod: uid, backend: 'memory', ...hello })
  const session: OpenProcessSession = openProcessSession(
    identity,
    request => {
      if (request.case === 'counter' && outcome !== undefined) {
        const counters = outcome === Outcome.OK ? [{ rule: 'shop.user', key: 'k', limit: 10n }] : []
        const { id = 0n } = request.value
        const value = create(CounterAnswerSchema, { id, outcome, problem: 'busy', counters })
        queueMicrotask(() => session.receive({ case: 'counter', value }))
      } else if (request.case === 'forget') {
        const { id = 0n, domain, entries = [] } = request.value
        assert.deepEqual([domain, entries.length], ['shop', 1])
        forgot.push(uid)
        queueMicrotask(() => session.receive({ case: 'forgotten', value: create(ForgottenSchema, { id }) }))
      }
    },
    systemClock,
  )
  const domains = hasReported ? [{ domain: 'shop', rules: 1, whole: true }] : []
  session.receive({ case: 'totals', value: create(TotalsSchema, { domains }) })
  return session
}

function playAll(processes: Readonly<Record<string, Played>>, expected: readonly string[] = []) {
  const forgot: string[] = []
  const sessions = Object.entries(processes).map(([uid, played]) => play(uid, played, forgot))
  const table = {
    sessions: () => sessions,
    lost: () => [],
    expected: () => expected.map(uid => ({ uid, name: uid })),
  }
  return { table, forgot }
}

test('a pod whose counters fail is missing, and all pods drop the key', async () => {
  const { table, forgot } = playAll({ a: { outcome: Outcome.OK }, b: { outcome: Outcome.NOT_SUPPORTED } })
  const { counters, missing, confirmed } = await changeCounter(table, at, 'reset', deadlines)
  assert.deepEqual([counters.length, missing, confirmed], [1, ['b'], ['a', 'b']])
  assert.deepEqual(forgot, ['a', 'b'])
  assert.deepEqual((await readCounter(table, at, deadlines)).missing, ['b'])
})

for (const outcome of [undefined, Outcome.BACKEND_FAILED])
  test(`all pods drop the key if a change may have happened: ${Outcome[outcome ?? -1]}`, async () => {
    const { table, forgot } = playAll({ a: { outcome }, b: { outcome: Outcome.NO_RULE } })
    await assert.rejects(changeCounter(table, at, 'reset', deadlines), (error: unknown) => {
      return error instanceof QueryError && ['deadline', 'backend-failed'].includes(error.code)
    })
    assert.deepEqual(forgot, ['a', 'b'])
  })

test('a change that no pod has made is an error, and no pod drops a key', async () => {
  const { table, forgot } = playAll({ a: { outcome: Outcome.NO_RULE } })
  await assert.rejects(changeCounter(table, at, 'reset', deadlines), { code: 'no-rule', field: 'entries' })
  assert.deepEqual(forgot, [])
})

test('pods that exist without a session, or with one of two workers, are missing', async () => {
  const outcome = Outcome.OK
  const { table } = playAll({ a: { outcome }, b: { outcome, hello: { worker: 0, workers: 2 } } }, [
    ...['a', 'b', 'c'],
  ])
  const { missing, confirmed } = await changeCounter(table, at, 'reset', deadlines)
  assert.deepEqual([missing, confirmed], [['b', 'c'], ['a']])
  assert.deepEqual((await readCounter(table, at, deadlines)).missing, ['b', 'c'])
})

test('a process that has not reported its domains yet drops the key, too', async () => {
  const { table } = playAll({ a: { outcome: Outcome.OK }, b: { hasReported: false } })
  assert.deepEqual((await changeCounter(table, at, 'reset', deadlines)).confirmed, ['a', 'b'])
})
