import assert from 'node:assert/strict'
import { test } from 'node:test'
import { create, type MessageInitShape } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { HelloSchema, ReplaySchema } from '@tollway/proto/tollway/operator/v1/counters'
import { openProcessSession } from './process-session.ts'
import { askWhatIf } from './what-if.ts'

type Answer = MessageInitShape<typeof ReplaySchema>

/** Resolves with the result of a what-if whose pods answer so, or rejects as it does. */
async function askPods(...answers: readonly Answer[]) {
  const sessions = answers.map((answer, index) => {
    const hello = create(HelloSchema, { uid: `${index}`, pod: `pod-${index}`, features: ['replay'] })
    const session = openProcessSession(
      hello,
      request => {
        if (request.case !== 'whatIf') return
        const id = BigInt(request.value.id ?? 0)
        const value = create(ReplaySchema, { ...answer, id, done: true })
        setImmediate(() => session.receive({ case: 'replay', value }))
      },
      systemClock,
    )
    return session
  })
  const query = { domain: 'shop', resource: '' }
  for await (const step of askWhatIf(sessions, [], query, new AbortController().signal)) {
    if (step.kind === 'result') return step.result
  }
  return assert.fail('there is no result')
}

test('a pod that is busy or fails is missing while another one has replayed its calls', async () => {
  const good = { recordedCalls: 3n, calls: 4n, share: 1, fromMs: 1_000n }
  const { coverage } = await askPods(good, { problem: 'another replay is running', busy: true })
  assert.deepEqual([coverage.recordedCalls, coverage.pods, coverage.missing], [3, 1, ['pod-1']])
})

test('only pods that run another replay answer that there are too many, which callers repeat', async () => {
  const broken = { problem: 'read the configuration: incorrect header check' }
  await assert.rejects(askPods(broken, { problem: 'another replay is running', busy: true }), {
    code: 'too-many',
    message: 'another replay is running',
  })
  await assert.rejects(askPods(broken), { code: 'not-supported', message: broken.problem })
})

test('an invalid configuration is an error of the resource', async () => {
  const invalid = { problem: 'shop: domain: is wrong', invalid: true }
  await assert.rejects(askPods({ share: 1 }, invalid), { code: 'invalid', field: 'resource' })
})
