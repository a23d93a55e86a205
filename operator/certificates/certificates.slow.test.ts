import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { type StoreInMemory, storeInMemory } from '../testing/store-in-memory.ts'
import { Certificates } from './certificates.ts'

const secretNames = { authority: 'tollway-ca', server: 'feed-server', client: 'feed-client' }
const dnsNames = { server: ['operator.system.svc', 'operator'], client: ['pods.system.svc'] }
/**
 * Short lives, so that everything is renewed every few seconds. Times in certificates are in whole seconds.
 */
const timing = {
  authorityLifeMs: 6_000,
  leafLifeMs: 2_400,
  spreadMs: 300,
  checkEveryMs: 100,
  firstCheckEveryMs: 20,
}

function start(
  t: TestContext,
  store: StoreInMemory,
  options: Partial<ConstructorParameters<typeof Certificates>[0]> = {},
) {
  const said: string[] = []
  const note = (message: string, fields?: object) => {
    said.push(`${message} ${JSON.stringify(fields)}`)
  }
  const log: Log = { ...silentLog, info: note, warn: note }
  const certificates = new Certificates({
    store,
    secretNames,
    dnsNames,
    log,
    timing,
    mayWrite: () => true,
    clock: systemClock,
    random: Math.random,
    ...options,
  })
  t.after(() => certificates.stop())
  certificates.start()
  return { certificates, said }
}

test('the leader writes certificates, a follower reads them, and both use the same', async t => {
  const store = storeInMemory()
  const { certificates: follower } = start(t, store, { mayWrite: () => false })
  assert.throws(() => follower.serverTls.credentials(), /^Error: the operator has no certificate yet$/)
  const { certificates: leader } = start(t, store)
  await Promise.all([leader.ready(), follower.ready()])
  assert.deepEqual(follower.serverTls.credentials(), leader.serverTls.credentials())
  const { ca, identity } = follower.clientTls('operator').credentials()
  assert.deepEqual({ ca, ...identity }, leader.serverTls.credentials())
  await waitFor('the last Secret', () => store.data('feed-client')['tls.crt'])
  assert.deepEqual(Object.keys(store.data('feed-client')).sort(), [
    'ca.crt',
    'tls.crt',
    'tls.key',
    'trusted-since',
  ])
  assert.equal(store.data('feed-client')['ca.crt'], store.data('tollway-ca')['ca.crt'])
  assert.equal(leader.problem(), '')
})

test('no key appears in the log', async t => {
  const store = storeInMemory()
  const { certificates, said } = start(t, store)
  await certificates.ready()
  store.set('feed-server', { ...store.data('feed-server'), 'tls.key': store.data('tollway-ca')['ca.key'] })
  await waitFor('the complaint', () => said.some(line => line.includes('is not the key')))
  assert.doesNotMatch(said.join('\n'), /BEGIN|KEY/)
})

test('two writers converge although each write may be the last before a crash, or come late', async t => {
  const store = storeInMemory()
  // Two operators that both believe that they may write; every third write takes effect but is reported as
  // failed.
  let writes = 0
  store.failAfterWrites(() => ++writes % 3 === 0)
  const [one, two] = [start(t, store).certificates, start(t, store).certificates]
  await Promise.all([one.ready(), two.ready()])
  const first = store.data('tollway-ca')['ca.crt']
  await waitFor('another authority', () => store.data('tollway-ca')['ca.crt'] !== first)
  await waitFor('an end of the rotation', () => store.data('tollway-ca')['old.crt'] === '')
})

test('a failure of the store is logged once, and stays the reported problem until it ends', async t => {
  const store = storeInMemory()
  const { certificates, said } = start(t, store)
  await certificates.ready()
  store.fail('the API server is away')
  await waitFor('the problem', () => certificates.problem().includes('the API server is away'))
  assert.equal(said.filter(line => line.includes('is away')).length, 1)
  store.fail('')
  await waitFor('no problem', () => certificates.problem() === '')
})

test('an unusable Secret is reported and replaced, and the last good authority stays in force', async t => {
  const store = storeInMemory()
  const { certificates, said } = start(t, store, {
    timing: { ...timing, checkEveryMs: 60_000, leafLifeMs: 60_000, authorityLifeMs: 600_000 },
  })
  await certificates.ready()
  await waitFor('the first content', () => store.data('feed-client')['tls.crt'])
  const before = certificates.serverTls.credentials()
  store.set('feed-server', { ...store.data('feed-server'), 'tls.crt': 'nonsense' })
  certificates.checkNow()
  await waitFor('a new certificate', () => certificates.serverTls.credentials().cert !== before.cert)
  assert.match(said.join('\n'), /"problem":"server: tls.crt: contains no certificate in PEM"/)
  await waitFor('no problem', () => certificates.problem() === '')
  assert.equal(certificates.serverTls.credentials().ca, before.ca)
})

test('the authority of a deleted Secret stays trusted until its successor is distributed', async t => {
  const store = storeInMemory()
  const { certificates } = start(t, store, {
    timing: { ...timing, leafLifeMs: 60_000, authorityLifeMs: 600_000 },
  })
  await certificates.ready()
  await waitFor('the first content', () => store.data('feed-client')['tls.crt'])
  const first = store.data('feed-client')
  store.delete('tollway-ca')
  await waitFor('the next authority', () => store.data('tollway-ca')['next.crt'])
  const published = await waitFor('the Secret of the client to change', () => {
    const client = store.data('feed-client')
    return client['ca.crt'] !== first['ca.crt'] && client
  })
  assert.equal(published['tls.crt'], first['tls.crt'])
  assert.ok(published['ca.crt']?.startsWith(first['ca.crt'] ?? '-'))
  await waitFor(
    'leaves of the next authority',
    () => store.data('feed-client')['tls.crt'] !== first['tls.crt'],
  )
  await waitFor('the end', () => store.data('tollway-ca')['old.crt'] === '')
})

test('unsafe durations are rejected', () => {
  const wrong = { ...timing, leafLifeMs: 500 }
  const options = { store: storeInMemory(), secretNames, dnsNames, timing: wrong }
  const rest = { mayWrite: () => true, clock: systemClock, log: silentLog, random: Math.random }
  assert.throws(() => new Certificates({ ...options, ...rest }), /leafLifeMs/)
})
