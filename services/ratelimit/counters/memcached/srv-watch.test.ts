import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { type ResolveSrv, watchSrv } from './srv-watch.ts'

const name = '_memcache._tcp.cache.test'

/** Watches a record; each lookup returns the next answer, and then the last one forever. */
function watch(t: TestContext, refreshMs: number, answers: readonly (readonly string[] | Error)[]) {
  const found: string[] = []
  let lookUps = 0
  const resolve: ResolveSrv = async asked => {
    assert.equal(asked, name)
    const answer = answers[Math.min(lookUps, answers.length - 1)] ?? []
    lookUps += 1
    if (answer instanceof Error) throw answer
    return answer.map(text => {
      const [host = '', port] = text.split(':')
      return { name: host, port: Number(port) }
    })
  }
  const watching = watchSrv({
    name,
    resolve,
    refreshMs,
    clock: systemClock,
    random: () => 0.99,
    onServers: servers => found.push(servers.map(({ text }) => text).join(' ')),
    onProblem: problem => found.push(problem),
  })
  t.after(() => watching.close())
  return { found, lookUps: () => lookUps, close: watching.close }
}

test('the order is that of the reference: by text, with the dot of the root', async t => {
  const records = ['b:11211', 'a.b:11211', 'a:11211', 'a:9', 'a-b:1', 'c.:5']
  const { found } = watch(t, 0, [records])
  await waitFor('the servers', () => found.length > 0)
  assert.deepEqual(found, ['a-b:1 a:11211 a:9 a.b:11211 b:11211 c:5'])
})

test('without a refresh the record is looked up until it is found, and never again', async t => {
  const { found, lookUps } = watch(t, 0, [new Error('queryA ENOTFOUND'), ['a:1'], ['b:1']])
  await waitFor('the servers', () => found.length > 1)
  assert.deepEqual(found, ['Unable to fetch servers from SRV: queryA ENOTFOUND', 'a:1'])
  const other = watch(t, 4, [['a:1']])
  await waitFor('look-ups of a watch that refreshes', () => other.lookUps() > 3)
  assert.equal(lookUps(), 2)
})

test('with a refresh, changes are reported and failures change nothing', async t => {
  const { found, lookUps, close } = watch(t, 4, [['a:1'], ['b:1', 'a:1'], [], ['a b:1']])
  await waitFor('two failures', () => found.length === 4)
  assert.deepEqual(found, [
    'a:1',
    'a:1 b:1',
    'Unable to fetch servers from SRV: the list has 0 servers; it must have 1 to 1000',
    'Unable to fetch servers from SRV: server 1 is "a b:1"; it must be a list of host:port, such as ' +
      'memcached-0:11211,memcached-1:11211, or the paths of unix sockets',
  ])
  close()
  assert.equal(lookUps(), 4)
})

test('an invalid name is rejected with the text of the reference', () => {
  for (const wrong of ['cache.test', '_memcache.tcp.cache', '_memcache._tcp', '']) {
    const options = { name: wrong, refreshMs: 0, clock: systemClock, random: Math.random }
    assert.throws(() => watchSrv({ ...options, onServers() {}, onProblem() {} }), {
      message: `could not parse ${wrong} to SRV parts`,
    })
  }
})
