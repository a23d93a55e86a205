import assert from 'node:assert/strict'
import { test } from 'node:test'
import { watchGoneReplicas } from './gone-replicas.ts'
import type { Replica } from './provider.ts'

test('a replica counts as gone once the infrastructure no longer has it, and an unknown one does not', () => {
  let uids = ['a', 'b']
  const listeners: ((workload: string) => void)[] = []
  const replica = (uid: string): Replica => ({
    ...{ name: uid, uid, ready: true, reason: '', restarts: 0, addresses: {} },
  })
  const isGone = watchGoneReplicas(
    { observe: () => uids.map(replica), onChange: listener => void listeners.push(listener) },
    'ratelimit',
  )
  uids = ['b', 'c']
  for (const listener of listeners) listener('ratelimit')
  assert.deepEqual(['a', 'b', 'c', 'elsewhere'].map(isGone), [true, false, false, false])
  uids = Array.from({ length: 10_000 }, (_, index) => `${index}`)
  for (const listener of listeners) listener('ratelimit')
  assert.equal(isGone('a'), false, 'the oldest are forgotten')
})
