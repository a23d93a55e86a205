import assert from 'node:assert/strict'
import { connect, createServer } from 'node:net'
import { test } from 'node:test'
import { freePorts } from '../../../test/support/free-ports.ts'
import { findTakenPorts } from './taken-ports.ts'

const host = '127.0.0.1'

test('a port in use, shared or not, is taken; the check leaves no trace', async t => {
  for (const reusePort of [false, true]) {
    const server = createServer()
    await new Promise<void>(resolve => server.listen({ host, port: 0, reusePort }, resolve))
    t.after(() => server.close())
    const { port } = server.address() as { port: number }
    const requests = [
      { host, port: 0, name: 'any' },
      { host, port, name: 'taken' },
      { host: '192.0.2.1', port: 0, name: 'elsewhere' },
    ]
    for (let look = 0; look < 2; look += 1) {
      const taken = await findTakenPorts(requests)
      const told = taken.map(({ request, error }) => `${request.name} ${error.code}`)
      assert.deepEqual(told, ['taken EADDRINUSE', 'elsewhere EADDRNOTAVAIL'])
    }
  }
})

test('of two equal ports the second is taken', async () => {
  const server = createServer()
  await new Promise<void>(resolve => server.listen({ host, port: 0 }, resolve))
  const { port } = server.address() as { port: number }
  await new Promise(resolve => server.close(resolve))
  const taken = await findTakenPorts([
    { host, port, name: 'first' },
    { host, port, name: 'second' },
  ])
  assert.deepEqual(
    taken.map(({ request }) => request.name),
    ['second'],
  )
})

test('a client never gets a connection to a port that is only checked', { timeout: 20_000 }, async t => {
  const [port = 0] = await freePorts(1)
  let rejected = 0
  let connected = 0
  let checking = true
  const clients = (async () => {
    while (checking) {
      const client = connect({ host, port })
      await new Promise<void>(resolve => {
        client.once('connect', () => {
          connected += 1
          resolve()
        })
        client.once('error', () => {
          rejected += 1
          resolve()
        })
      })
      client.destroy()
    }
  })()
  t.after(() => {
    checking = false
    return clients
  })
  for (let look = 0; look < 200 || rejected < 200; look += 1) {
    assert.equal(connected, 0)
    assert.deepEqual(await findTakenPorts([{ host, port, name: 'free' }]), [])
  }
  checking = false
  await clients
  assert.equal(connected, 0)
})
