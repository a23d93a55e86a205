import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Replica } from './provider.ts'
import { admitReplicas, watchRemovedReplicas } from './replicas.ts'

const replicas: Readonly<Record<string, readonly { uid: string; name: string }[]>> = {
  ratelimit: [{ uid: 'u1', name: 'ratelimit-0' }],
  broker: [{ uid: 'u2', name: 'broker-0' }],
}
const infrastructure = { observe: (workload: string) => replicas[workload] ?? [] }

for (const [text, uid, inCluster, onMachine] of [
  ['a replica, under its name', 'u2', 'broker-0', 'broker-0'],
  ['a replica of another workload', 'u1', undefined, undefined],
  ['a process without a replica', 'u3', undefined, 'stated'],
] as const)
  test(`the name of ${text} for sessions of brokers, in a cluster and on one machine`, () => {
    const options = { infrastructure, workload: 'broker', others: ['ratelimit', 'payments'] }
    const stated = { uid, pod: 'stated' }
    assert.equal(admitReplicas({ ...options, admitsOthers: false })(stated), inCluster)
    assert.equal(admitReplicas({ ...options, admitsOthers: true })(stated), onMachine)
  })

test('a replica counts as gone once the infrastructure no longer has it, and an unknown one does not', () => {
  let uids = ['a', 'b']
  const listeners: ((workload: string) => void)[] = []
  const replica = (uid: string): Replica => ({
    name: uid,
    uid,
    ready: true,
    reason: '',
    restarts: 0,
    addresses: {},
  })
  const isGone = watchRemovedReplicas(
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
