import assert from 'node:assert/strict'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import { decodeDomain } from '@tollway/ratelimit/config/domain-codec.ts'
import { type Feature, features } from '@tollway/ratelimit/rules/fields.ts'
import type { RateLimitDomain } from '@tollway/ratelimit/rules/model.ts'
import fc from 'fast-check'
import { temporaryFolder } from '../../test/support/temporary-folder.ts'
import { openRememberedFile } from '../environments/host/memory.ts'
import type { ResourceStatus } from '../status/resource-status.ts'
import type { Resource } from '../xds/snapshot.ts'
import { createPublishedResources } from './published-resources.ts'
import { rateLimitConfigs } from './rate-limit-config/rate-limit-config.ts'
import type { SourcedResource, SourceProblem } from './source.ts'

const limits = rateLimitConfigs()

/**
 * Simulates an operator in memory, with manifests that the test writes, and a feed whose clients acknowledge
 * at once. The memories are in a file, so that the test can restart the operator.
 */
function openWorld(kind = limits) {
  const place = temporaryFolder('remembered')
  const resources = new Map<string, SourcedResource>()
  let problems: SourceProblem[] = []
  let generation = 0
  let nowMs = 0
  const replicas = [
    { name: 'ratelimit-0', uid: 'first', ready: true, reason: '', restarts: 0, addresses: {} },
    { name: 'ratelimit-1', uid: 'second', ready: true, reason: '', restarts: 0, addresses: {} },
  ]
  let published: readonly Resource[] | undefined
  let statuses: readonly ResourceStatus[] = []
  const rejected = new Set<string>()
  /** The features that old pods lack, by their uid. */
  const outdated = new Map<string, readonly Feature[]>()
  const pausedNames = new Set<string>()
  const rechecks: number[] = []

  const start = () =>
    createPublishedResources(kind, {
      source: { list: () => [...resources.values()], unread: () => problems },
      remembered: openRememberedFile(join(place, 'remembered.json'), [limits], text => assert.fail(text)).of(
        limits,
      ),
      feed: {
        publish({ resources }) {
          if (resources.size > 5) throw new Error('at most 5 domains')
          published = [...resources.values()]
        },
        enforcement: (_, uids) => resource => {
          const pods = uids.filter(() => rejected.has(domainOf(resource).domain))
          const isPublished = published?.some(({ hash }) => hash === resource.hash)
          const lacking = uids.flatMap(uid => {
            const missing = resource.features.filter(name => outdated.get(uid)?.some(each => each === name))
            return missing.length > 0 ? [{ uid, features: missing }] : []
          })
          const capable = uids.filter(uid => lacking.every(each => each.uid !== uid))
          return {
            acknowledged: new Set(isPublished && pods.length === 0 ? capable : []),
            rejections: pods.map(pod => ({ pod, message: 'no' })),
            lacking,
          }
        },
      },
      infrastructure: { observe: () => replicas },
      clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
      recheckAfter: ms => void rechecks.push(ms),
      writeStatus: now => {
        statuses = now
      },
    })
  let configs = start()

  return {
    rejected,
    paused: pausedNames,
    /** The delays of the requested further runs. */
    rechecks,
    /** Lets time pass without a run. */
    wait(ms: number) {
      nowMs += ms
    },
    nowMs: () => nowMs,
    /** Writes a resource with the limit `user: N` a minute. An invalid number makes the resource invalid. */
    write(
      name: string,
      domain: string,
      requestsPerUnit: number,
      more: Partial<Pick<SourcedResource, 'namespace' | 'uid' | 'createdMs' | 'spec'>> = {},
    ) {
      generation += 1
      resources.set(name, {
        apiVersion: 'tollway.dev/v1alpha1',
        kind: 'RateLimitConfig',
        namespace: 'shop',
        name,
        uid: `uid-${name}`,
        generation,
        paused: pausedNames.has(name),
        spec: { domain, descriptors: [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } }] },
        origin: `${name}.yaml`,
        ...more,
      })
    },
    remove: (name: string) => resources.delete(name),
    /** Makes a file unreadable. After a restart, its content is unknown. */
    breakFile(origin: string) {
      problems = [{ origin, message: 'line 1: not YAML' }]
    },
    repairFiles() {
      problems = []
    },
    restart() {
      configs = start()
      published = undefined
    },
    /** Reconciles after a second. Resolves with `NAME DOMAIN: LIMIT` of each resource in force. */
    async reconcile(): Promise<string> {
      nowMs += 1_000
      await configs.reconcile()
      return inForce()
    },
    inForce,
    outdated,
    status(name: string): ResourceStatus {
      const found = statuses.find(status => status.name === name)
      assert.ok(found, `there is no status of ${name}`)
      return found
    },
    statuses: () => statuses,
  }

  function inForce(): string {
    const limits = published
      ?.map(domainOf)
      .map(
        ({ name, domain, descriptors }) =>
          `${name} ${domain}: ${descriptors.map(({ rateLimit }) => rateLimit?.requestsPerUnit)}`,
      )
    return limits?.join(', ') ?? 'nothing was published'
  }
}

function domainOf({ bytes }: Pick<Resource, 'bytes'>): RateLimitDomain {
  return decodeDomain(bytes)
}

/** Returns the reasons of Accepted, Programmed, Enforced and Ready. */
const reasonsOf = ({ conditions }: ResourceStatus) =>
  conditions
    .slice(0, 4)
    .map(({ reason }) => reason)
    .join(' ')

test('a valid resource is published, and its status says that every process enforces it', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  assert.equal(await world.reconcile(), 'shop/a checkout: 3')
  const { subject, counts, enforced, observedGeneration, problems, conditions } = world.status('a')
  assert.deepEqual(
    { subject, counts, enforced, observedGeneration, problems },
    {
      subject: 'checkout',
      counts: { rules: 1 },
      enforced: '2/2',
      observedGeneration: 1,
      problems: [],
    },
  )
  assert.deepEqual(
    conditions.map(({ status }) => status),
    ['True', 'True', 'True', 'True'],
  )
})

const plain = { unit: 'minute', requestsPerUnit: 3 }

/** What a resource with each feature has: fields of its descriptor, of its limit, or of the domain. */
const withFeature: Readonly<
  Record<Feature, { readonly descriptor?: object; readonly limit?: object; readonly spec?: object }>
> = {
  windows: { limit: { unitMultiplier: 2 } },
  calendar: { limit: { unit: 'day', calendar: { timeZone: 'Europe/Copenhagen' } } },
  algorithms: { limit: { algorithm: 'TokenBucket', burst: 5 } },
  limits: { descriptor: { rateLimit: undefined, limits: [plain, { ...plain, name: 'other' }] } },
  allOrNothing: { spec: { allOrNothing: true } },
  headers: { limit: { headers: false } },
  countRejected: { limit: { countRejected: true } },
  match: { descriptor: { value: 'office', match: { cidr: ['10.0.0.0/8'] } } },
  groupBy: { descriptor: { groupBy: { ipv4Prefix: 24 } } },
  concurrency: {
    descriptor: { rateLimit: { algorithm: 'Concurrency', maxConcurrent: 7, leaseSeconds: 30 } },
  },
  leases: { limit: { counting: 'Leased' } },
  quota: { limit: { requestsPerUnit: 60, delivery: 'Quota' } },
}

function specWith(...names: readonly Feature[]) {
  const all = names.map(name => withFeature[name])
  const limit = Object.assign({}, plain, ...all.map(each => each.limit))
  const descriptor = Object.assign({ key: 'user', rateLimit: limit }, ...all.map(each => each.descriptor))
  return Object.assign({ domain: 'checkout', descriptors: [descriptor] }, ...all.map(each => each.spec))
}

for (const feature of features) {
  test(`the status counts an old process that lacks the feature ${feature}, and names it`, async () => {
    const world = openWorld()
    world.write('a', 'checkout', 3, { spec: specWith(feature) })
    world.write('b', 'search', 5)
    world.outdated.set('first', [feature])
    await world.reconcile()
    const status = world.status('a')
    assert.equal(status.enforced, '1/2')
    assert.equal(reasonsOf(status), 'Valid InFeed FeatureMissing FeatureMissing')
    assert.equal(
      status.conditions.find(({ type }) => type === 'Enforced')?.message,
      `1 of 2 processes enforce it; 1 of them does not get it, because it lacks ${feature}: ` +
        'update it to the version of the operator',
    )
    assert.equal(world.status('b').enforced, '2/2', 'a resource without the feature')
    world.outdated.set('second', features)
    await world.reconcile()
    assert.equal(world.status('a').enforced, '0/2')
    assert.equal(world.status('b').enforced, '2/2')
    world.outdated.clear()
    await world.reconcile()
    assert.equal(reasonsOf(world.status('a')), 'Valid InFeed Enforced Enforced')
  })
}

test('the status names all features that processes lack, each once', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3, { spec: specWith('match', 'groupBy', 'calendar') })
  world.outdated.set('first', ['match', 'quota'])
  world.outdated.set('second', ['match', 'groupBy'])
  await world.reconcile()
  assert.equal(
    world.status('a').conditions.find(({ type }) => type === 'Enforced')?.message,
    '0 of 2 processes enforce it; 2 of them do not get it, because they lack match, groupBy: ' +
      'update them to the version of the operator',
  )
})

test('the last good version stays in force while a resource is invalid, also after a restart', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  world.write('b', 'search', 5)
  await world.reconcile()
  world.write('a', 'checkout', -1)
  world.write('b', 'search', 6)
  const expected = 'shop/a checkout: 3, shop/b search: 6'
  assert.equal(await world.reconcile(), expected)
  assert.equal(reasonsOf(world.status('a')), 'Invalid LastGoodInForce LastGoodInForce Invalid')
  assert.equal(world.status('a').problems[0]?.path, 'spec.descriptors[0].rateLimit.requestsPerUnit')
  assert.equal(world.status('a').counts['rules'], 1)
  world.restart()
  assert.equal(await world.reconcile(), expected)
  world.write('a', 'checkout', 4)
  assert.equal(await world.reconcile(), 'shop/a checkout: 4, shop/b search: 6')
})

test('a resource that was never valid has nothing in force', async () => {
  const world = openWorld()
  world.write('a', 'checkout', -1)
  assert.equal(await world.reconcile(), '')
  assert.equal(reasonsOf(world.status('a')), 'Invalid NotAccepted NotAccepted Invalid')
  assert.equal(world.status('a').subject, 'checkout')
})

test('a domain belongs to the oldest resource, also after a restart, until that one is deleted', async () => {
  const world = openWorld()
  world.write('z', 'checkout', 1)
  await world.reconcile()
  world.write('a', 'checkout', 2)
  assert.equal(await world.reconcile(), 'shop/z checkout: 1')
  assert.equal(reasonsOf(world.status('a')), 'DomainConflict NotAccepted NotAccepted DomainConflict')
  assert.match(world.status('a').conditions[0]?.message ?? '', /"checkout" belongs to shop\/z/)
  world.restart()
  assert.equal(await world.reconcile(), 'shop/z checkout: 1')
  world.remove('z')
  assert.equal(await world.reconcile(), 'shop/a checkout: 2')
  assert.equal(world.statuses().length, 1)
})

test('a resource that is deleted and created again after a minute counts as new', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 1)
  await world.reconcile()
  world.remove('a')
  assert.equal(await world.reconcile(), '')
  world.write('b', 'checkout', 2)
  await world.reconcile()
  world.wait(60_000)
  await world.reconcile()
  world.write('a', 'checkout', 1)
  assert.equal(await world.reconcile(), 'shop/b checkout: 2')
})

/** The differences of a resource in an API server: a creation time, and another uid after each creation. */
const inCluster = (createdMs: number) => ({ createdMs, uid: `uid-of-${createdMs}` })
const inFolder = () => ({})

for (const [where, created] of [
  ['a cluster', inCluster],
  ['a folder', inFolder],
] as const)
  describe(`in ${where} the claim of a deleted resource`, () => {
    /** Creates `mine`, which has the domain, and `rival` of another namespace, which waits for it. */
    async function openRivalry() {
      const world = openWorld()
      world.write('mine', 'checkout', 1, created(1_000))
      await world.reconcile()
      world.write('rival', 'checkout', 9, { namespace: 'bank', ...created(2_000) })
      assert.equal(await world.reconcile(), 'shop/mine checkout: 1')
      return world
    }

    test('is kept for its namespace, and a new resource of its name has it for good', async () => {
      const world = await openRivalry()
      world.remove('mine')
      assert.equal(await world.reconcile(), '')
      const { conditions } = world.status('rival')
      assert.equal(reasonsOf(world.status('rival')), 'ClaimKept NotAccepted NotAccepted ClaimKept')
      assert.ok(conditions.some(({ type }) => type === 'Reconciling'))
      const until = new Date(world.nowMs() + 60_000).toISOString()
      assert.equal(
        conditions[0]?.message,
        `spec.domain: "checkout" belonged to shop/mine, which was deleted; it is kept for the namespace shop until ${until}, and this resource gets it then`,
      )
      world.restart()
      world.wait(30_000)
      assert.equal(await world.reconcile(), '')
      assert.equal(world.status('rival').conditions[0]?.message, conditions[0]?.message)
      world.write('mine', 'checkout', 2, created(40_000))
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
      world.wait(60_000)
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
      world.restart()
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
      assert.equal(world.status('rival').conditions[0]?.reason, 'DomainConflict')
    })

    test('is kept when no operator ran meanwhile', async () => {
      const world = await openRivalry()
      world.remove('mine')
      world.wait(3_600_000)
      world.restart()
      assert.equal(await world.reconcile(), '')
      world.write('mine', 'checkout', 2, created(3_700_000))
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
      world.restart()
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
    })

    test('and its replacement meanwhile leave no gap', async () => {
      const world = await openRivalry()
      world.write('mine', 'checkout', 2, created(40_000))
      world.restart()
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
    })

    test('goes to the resource that waits after a minute', async () => {
      const world = await openRivalry()
      world.remove('mine')
      await world.reconcile()
      assert.deepEqual(world.rechecks, [60_000])
      world.wait(58_000)
      assert.equal(await world.reconcile(), '')
      assert.equal(world.rechecks.at(-1), 1_000)
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9')
      world.write('mine', 'checkout', 1, created(90_000))
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9')
      world.restart()
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9')
    })

    test('is kept for a minute after the clock is set back', async () => {
      const world = await openRivalry()
      world.remove('mine')
      await world.reconcile()
      world.wait(-3_600_000)
      assert.equal(await world.reconcile(), '')
      world.wait(58_000)
      assert.equal(await world.reconcile(), '')
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9')
    })

    test('is free for its namespace at once, until a new resource of its name has it again', async () => {
      const world = await openRivalry()
      world.write('other', 'checkout', 5, created(3_000))
      world.remove('mine')
      assert.equal(await world.reconcile(), 'shop/other checkout: 5')
      world.write('mine', 'checkout', 2, created(40_000))
      assert.equal(await world.reconcile(), 'shop/mine checkout: 2')
    })

    test('does not give another claim to a new resource of its name', async () => {
      const world = await openRivalry()
      world.write('search', 'search', 3, { namespace: 'bank', ...created(4_000) })
      await world.reconcile()
      world.remove('mine')
      await world.reconcile()
      world.write('mine', 'search', 2, inCluster(40_000))
      assert.equal(await world.reconcile(), 'bank/search search: 3')
      world.wait(60_000)
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9, bank/search search: 3')
      world.write('mine', 'checkout', 2, inCluster(40_000))
      assert.equal(await world.reconcile(), 'bank/rival checkout: 9, bank/search search: 3')
    })
  })

test('the content of a file that cannot be read stays in force after a restart', async t => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  world.write('b', 'search', 5)
  await world.reconcile()
  world.breakFile('a.yaml')
  world.remove('a')
  world.remove('b')
  world.restart()
  assert.equal(await world.reconcile(), 'shop/a checkout: 3, shop/b search: 5', 'b may have moved to a.yaml')
  assert.match(
    world.status('b').problems[0]?.message ?? '',
    /the resource was removed here, and another file may declare it: a.yaml: /,
  )
  const status = world.status('a')
  assert.equal(reasonsOf(status), 'Invalid LastGoodInForce LastGoodInForce Invalid')
  assert.equal(status.problems[0]?.message, 'the resource cannot be read: a.yaml: line 1: not YAML')

  await t.test('the content changes once the file can be read again', async () => {
    world.repairFiles()
    world.write('a', 'checkout', 4)
    assert.equal(await world.reconcile(), 'shop/a checkout: 4')
    assert.equal(world.statuses().length, 1)
  })

  await t.test('all content stays if a folder cannot be read', async () => {
    world.breakFile('/limits')
    world.remove('a')
    world.restart()
    assert.equal(await world.reconcile(), 'shop/a checkout: 4')
    world.repairFiles()
    assert.equal(await world.reconcile(), '')
  })
})

test('content that the feed cannot carry is reported, and earlier content stays published', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  await world.reconcile()
  for (const name of ['b', 'c', 'd', 'e', 'f']) world.write(name, name, 1)
  await assert.rejects(world.reconcile(), /at most 5 domains/)
  assert.equal(world.inForce(), 'shop/a checkout: 3')
  assert.equal(reasonsOf(world.status('f')), 'Valid NotPublished Pending NotPublished')
  world.write('f', 'f', -1)
  assert.match(await world.reconcile(), /shop\/e e: 1$/)
  assert.equal(reasonsOf(world.status('f')), 'Invalid NotAccepted NotAccepted Invalid')
})

test('a denial is reported on its resource only', async () => {
  const world = openWorld()
  world.rejected.add('checkout')
  world.write('a', 'checkout', 3)
  world.write('b', 'search', 5)
  await world.reconcile()
  assert.equal(reasonsOf(world.status('a')), 'Valid Refused Pending Refused')
  assert.equal(reasonsOf(world.status('b')), 'Valid InFeed Enforced Enforced')
})

test('a second reconciliation changes nothing', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  world.write('b', 'checkout', 4)
  world.write('c', 'search', -1)
  const before = await world.reconcile()
  const statuses = world.statuses()
  assert.equal(await world.reconcile(), before)
  assert.deepEqual(world.statuses(), statuses)
})

test('the content of a paused resource stays in force until it resumes, also after a restart', async () => {
  const world = openWorld()
  world.write('a', 'checkout', 3)
  await world.reconcile()
  world.paused.add('a')
  world.write('a', 'checkout', 4)
  assert.equal(await world.reconcile(), 'shop/a checkout: 3')
  const { conditions, observedGeneration } = world.status('a')
  assert.equal(conditions.at(-1)?.type, 'Paused')
  assert.equal(observedGeneration, 1, 'the newer resource was not considered')
  world.restart()
  assert.equal(await world.reconcile(), 'shop/a checkout: 3')
  world.paused.delete('a')
  world.write('a', 'checkout', 4)
  assert.equal(await world.reconcile(), 'shop/a checkout: 4')
  assert.equal(world.status('a').observedGeneration, 3)
})

test('a status is the same object until its resource changes', async () => {
  const world = openWorld()
  world.write('a', 'one', 3)
  world.write('b', 'two', 4)
  await world.reconcile()
  const first = [world.status('a'), world.status('b')]
  await world.reconcile()
  assert.equal(world.status('a'), first[0])
  world.write('b', 'two', 5)
  await world.reconcile()
  assert.equal(world.status('a'), first[0])
  assert.notEqual(world.status('b'), first[1])
  world.rejected.add('one')
  await world.reconcile()
  assert.notEqual(world.status('a'), first[0])
})

test('after any history the statuses equal those of an operator that has just started', async () => {
  const names = fc.constantFrom('a', 'b', 'c')
  const domains = fc.constantFrom('one', 'two')
  const step = fc.oneof(
    fc.record({
      what: fc.constant('write' as const),
      name: names,
      domain: domains,
      limit: fc.constantFrom(1, 2, -1),
    }),
    fc.record({ what: fc.constant('remove' as const), name: names }),
    fc.record({ what: fc.constant('reject' as const), domain: domains }),
    fc.record({ what: fc.constant('accept' as const), domain: domains }),
    fc.record({ what: fc.constant('pause' as const), name: names }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 12 }), async steps => {
      const world = openWorld()
      for (const step of steps) {
        if (step.what === 'write') world.write(step.name, step.domain, step.limit)
        else if (step.what === 'remove') world.remove(step.name)
        else if (step.what === 'reject') world.rejected.add(step.domain)
        else if (step.what === 'accept') world.rejected.delete(step.domain)
        else world.paused.add(step.name)
        await world.reconcile()
      }
      await world.reconcile()
      const grown = world.statuses().map(withoutTimes)
      world.restart()
      await world.reconcile()
      assert.deepEqual(world.statuses().map(withoutTimes), grown)
    }),
    { numRuns: 60 },
  )
})

function withoutTimes({ conditions, ...status }: ResourceStatus) {
  return { ...status, conditions: conditions.map(({ lastTransitionTime: _, ...rest }) => rest) }
}

test('other work runs while the contents of many resources are translated and chosen', async t => {
  const spin = (ms: number) => {
    const endMs = performance.now() + ms
    while (performance.now() < endMs);
  }
  const turns = { translate: 0, choose: 0 }
  let step: keyof typeof turns = 'translate'
  const world = openWorld({
    ...limits,
    translate(name, resource) {
      step = 'translate'
      spin(5)
      return limits.translate(name, resource)
    },
    openClaims() {
      const claims = limits.openClaims()
      return {
        ...claims,
        findDenial(content, claimant) {
          step = 'choose'
          spin(5)
          return claims.findDenial(content, claimant)
        },
      }
    },
  })
  for (let index = 0; index < 20; index++) world.write(`limits-${index}`, `domain-${index % 4}`, 1)
  let running = true
  const count = () => {
    turns[step] += 1
    if (running) setImmediate(count)
  }
  count()
  await world.reconcile()
  running = false
  t.diagnostic(JSON.stringify(turns))
  // Each step takes 100 ms, which is ten slices.
  assert.ok(turns.translate >= 5 && turns.choose >= 5, JSON.stringify(turns))
})
