import assert from 'node:assert/strict'
import { test } from 'node:test'
import { admitReplicas } from './admit-replicas.ts'

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
