import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StatusCondition } from '../../operator/status/conditions.ts'
import type { ResourceStatus } from '../../operator/status/resource-status.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

function condition(resource: ResourceStatus | undefined, type: string): StatusCondition {
  const found = resource?.conditions.find(one => one.type === type)
  assert.ok(found, `there is no condition ${type}`)
  return found
}

test('an edit changes the decisions, and an invalid one changes nothing and is reported', async t => {
  const tollway = await startTollway(t, {
    'a.yaml': manifest('a', 'a', { user: '1/hour' }),
    'b.yaml': manifest('b', 'b', { user: '1/hour' }),
  })
  await tollway.ready()
  assert.deepEqual([await tollway.ask('a', 'user', 'x'), await tollway.ask('a', 'user', 'x')], [200, 429])

  await t.test('a valid edit is in force', async () => {
    tollway.write('a.yaml', manifest('a', 'a', { user: '5/hour' }))
    let callCount = 0
    await waitFor('the new limit', async () => {
      const fresh = `fresh-${callCount++}`
      await tollway.ask('a', 'user', fresh)
      return (await tollway.ask('a', 'user', fresh)) === 200
    })
  })

  await t.test('an invalid edit is reported by name, and the last good version stays in force', async () => {
    tollway.write('a.yaml', manifest('a', 'a', { user: '9/fortnight' }))
    const report = await waitFor('the complaint', () => {
      const now = tollway.status()
      return condition(now.resources[0], 'Accepted').status === 'False' && now
    })
    const [a, b] = report.resources
    assert.equal(condition(a, 'Accepted').reason, 'Invalid')
    assert.equal(a?.problems[0]?.path, 'spec.descriptors[0].rateLimit.unit')
    assert.match(a?.problems[0]?.message ?? '', /"fortnight" is not one of second, minute, hour, day/)
    assert.equal(condition(a, 'Programmed').reason, 'LastGoodInForce')
    assert.equal(condition(b, 'Ready').status, 'True')
    const codes = new Set<number>()
    for (let call = 0; call < 8; call++) codes.add(await tollway.ask('a', 'user', 'y'))
    assert.deepEqual(codes, new Set([200, 429]), 'the limit of five an hour stays in force')
  })

  await t.test('other resources stay in force', async () => {
    tollway.write('b.yaml', manifest('b', 'b', { user: '0/hour' }))
    await waitFor('the change of b', async () => (await tollway.ask('b', 'user', 'x')) === 429)
  })

  await t.test('a second resource of a domain is reported with the owner of the domain', async () => {
    tollway.write('c.yaml', manifest('c', 'b', { user: '7/hour' }))
    const c = await waitFor('the conflict', () => {
      const found = tollway.status().resources.find(({ name }) => name === 'c')
      return found && condition(found, 'Accepted').status === 'False' ? found : undefined
    })
    assert.equal(condition(c, 'Accepted').reason, 'DomainConflict')
    assert.match(condition(c, 'Accepted').message, /belongs to default\/b/)
  })
})

test('the end of the operator ends every process', async t => {
  for (const signal of ['SIGINT', 'SIGKILL'] as const) {
    await t.test(signal, async t => {
      const tollway = await startTollway(t, { 'a.yaml': manifest('a', 'a', { user: '1/hour' }) })
      await tollway.ready()
      await tollway.program.end(signal)
      await waitFor('no listener', async () => {
        try {
          await tollway.ask('a', 'user', 'x')
          return false
        } catch {
          return true
        }
      })
    })
  }
})

test('a port in use is reported with the option to choose another', async t => {
  const first = await startTollway(t, { 'a.yaml': manifest('a', 'a', { user: '1/hour' }) })
  const wrong = startTollway(t, {}, ['--http-port', `${first.httpPort}`])
  await assert.rejects(wrong, error => {
    assert.match((error as Error).message, new RegExp(`port ${first.httpPort}`))
    assert.match((error as Error).message, /--http-port/)
    return true
  })
})
