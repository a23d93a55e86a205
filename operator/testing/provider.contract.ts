import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import type { Infrastructure, Replica } from '../infrastructure/provider.ts'
import type { Workload } from '../model.ts'

/** An infrastructure for one test, which removes its objects when the test ends. */
export interface OpenInfrastructure {
  readonly infrastructure: Infrastructure
  /** Returns a workload that becomes ready. The test chooses the value of one setting. */
  readonly workload: (replicas: number, setting: string) => Workload
  readonly deadlineMs: number
}

/**
 * Resolves when the condition holds. After the deadline, rejects with the result of `instead` in the message.
 */
export async function until(
  what: string,
  holds: () => boolean,
  deadlineMs: number,
  instead: () => unknown,
): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!holds()) {
    if (performance.now() > endMs) {
      assert.fail(`not within ${deadlineMs} ms: ${what}; instead ${JSON.stringify(instead())}`)
    }
    await pause(2)
  }
}

/** Tests that an implementation keeps the promises of `Infrastructure`. */
export function infrastructureContract(
  name: string,
  open: (t: TestContext) => Promise<OpenInfrastructure>,
): void {
  for (const [promise, check] of Object.entries(promises)) {
    test(`${name}: ${promise}`, async t => check(withObservation(await open(t))))
  }
}

function withObservation(opened: OpenInfrastructure) {
  const { infrastructure, workload, deadlineMs } = opened
  const observe = () => infrastructure.observe(workload(0, '').name)
  const see = (what: string, holds: () => boolean) => until(what, holds, deadlineMs, observe)
  const ready = (count: number, more: (replicas: readonly Replica[]) => boolean = () => true) =>
    see(
      `${count} ready replicas`,
      () => observe().length === count && observe().every(replica => replica.ready) && more(observe()),
    )
  const uids = () => observe().map(({ uid }) => uid)
  return { ...opened, observe, see, ready, uids }
}

type Observed = ReturnType<typeof withObservation>

const promises: Readonly<Record<string, (observed: Observed) => Promise<void>>> = {
  'apply runs the requested replicas, each with its own name and uid': async ({
    infrastructure,
    workload,
    observe,
    ready,
  }) => {
    assert.deepEqual(observe(), [])
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.equal(new Set(observe().map(replica => replica.name)).size, 2)
    assert.equal(new Set(observe().map(replica => replica.uid)).size, 2)
    for (const replica of observe()) {
      assert.ok(replica.name.includes(`${workload(2, 'a').name}-`), replica.name)
      assert.equal(replica.reason, '')
      assert.equal(replica.restarts, 0)
    }
  },

  'a replica that is not ready has a reason': async ({ infrastructure, workload, observe, see }) => {
    await infrastructure.apply(workload(1, 'a'))
    await see('a replica', () => observe().length === 1)
    await see('ready, and until then a reason', () => {
      const [replica] = observe()
      assert.notEqual(replica?.ready, replica?.reason !== '', replica?.reason)
      return replica?.ready === true
    })
  },

  'a second apply of the same workload changes nothing': async ({
    infrastructure,
    workload,
    ready,
    observe,
  }) => {
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    const before = observe()
    await infrastructure.apply(workload(2, 'a'))
    await infrastructure.apply(structuredClone(workload(2, 'a')))
    assert.deepEqual(observe(), before)
  },

  'scaling does not restart the remaining replicas': async ({ infrastructure, workload, ready, uids }) => {
    await infrastructure.apply(workload(1, 'a'))
    await ready(1)
    const [first] = uids()
    await infrastructure.apply(workload(3, 'a'))
    await ready(3)
    assert.ok(uids().includes(first ?? ''))
    const three = uids()
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.ok(uids().every(uid => three.includes(uid)))
    await infrastructure.apply(workload(0, 'a'))
    await ready(0)
  },

  'a changed setting replaces the replicas one by one': async ({
    infrastructure,
    workload,
    ready,
    observe,
    uids,
  }) => {
    await infrastructure.apply(workload(3, 'a'))
    await ready(3)
    const before = uids()
    let fewest = 3
    infrastructure.onChange(() => {
      fewest = Math.min(fewest, observe().filter(replica => replica.ready).length)
    })
    await infrastructure.apply(workload(3, 'b'))
    await ready(3, replicas => replicas.every(({ uid }) => !before.includes(uid)))
    assert.ok(fewest >= 2, `only ${fewest} of 3 replicas took calls`)
  },

  'the last of several changes wins': async ({ infrastructure, workload, ready }) => {
    await Promise.all([
      infrastructure.apply(workload(1, 'a')),
      infrastructure.apply(workload(3, 'b')),
      infrastructure.apply(workload(2, 'c')),
    ])
    await ready(2)
  },

  'remove ends all replicas, and a missing workload can be removed': async ({
    infrastructure,
    workload,
    ready,
    observe,
    uids,
  }) => {
    await infrastructure.remove(workload(0, '').name)
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    const before = uids()
    await infrastructure.remove(workload(0, '').name)
    assert.deepEqual(observe(), [])
    await infrastructure.remove(workload(0, '').name)
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.ok(uids().every(uid => !before.includes(uid)))
  },

  'every change is reported with the name of its workload': async ({
    infrastructure,
    workload,
    ready,
    observe,
  }) => {
    const notified: string[] = []
    let last: readonly Replica[] = []
    infrastructure.onChange(changed => {
      notified.push(changed)
      last = observe()
    })
    await infrastructure.apply(workload(2, 'a'))
    await ready(2)
    assert.deepEqual(last, observe())
    await infrastructure.remove(workload(0, '').name)
    assert.deepEqual(last, [])
    assert.deepEqual(new Set(notified), new Set([workload(0, '').name]))
  },
}
